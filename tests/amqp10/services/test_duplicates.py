"""The window of duplicates, compared with a list of everything that happened."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp10.services.duplicates import DuplicateWindow, Seen

IDS_MAX, KEPT_S = 5, 10.0
IDS = st.integers(0, 9).map(lambda number: b"%d" % number)


class Windowed(RuleBasedStateMachine):
    """Ids begin and end while time goes on. The model has every id with its time, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.window = DuplicateWindow(ids_max=IDS_MAX, kept_s=KEPT_S)
        self.now = 0.0
        self.running: set[bytes] = set()
        self.done: dict[bytes, float] = {}

    @rule(seconds=st.floats(0, 6))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(identity=IDS)
    def come(self, identity: bytes) -> None:
        """A message comes, and is executed when it is new."""
        if self.window.look(identity, self.now) is Seen.NEW:
            self.window.begin(identity)
            self.running.add(identity)
            self.done.pop(identity, None)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A running message ends. The oldest leave the window when there are too many."""
        identity = data.draw(st.sampled_from(sorted(self.running)))
        self.window.end(identity, self.now)
        self.running.discard(identity)
        self.done[identity] = self.now
        for oldest in list(self.done)[: max(0, len(self.running) + len(self.done) - IDS_MAX)]:
            del self.done[oldest]

    @invariant()
    def it_knows_what_it_should(self) -> None:
        for identity in (b"%d" % number for number in range(10)):
            fresh = identity in self.done and self.now - self.done[identity] < KEPT_S
            expected = Seen.RUNNING if identity in self.running else Seen.DONE if fresh else Seen.NEW
            assert self.window.look(identity, self.now) is expected

    @invariant()
    def it_is_bounded(self) -> None:
        assert len(self.window) <= len(self.running) + IDS_MAX


TestWindow = Windowed.TestCase
TestWindow.settings = settings(max_examples=settings.default.max_examples // 3)


def test_the_bound_in_count():
    window = DuplicateWindow(ids_max=2, kept_s=100.0)
    for identity in (b"1", b"2", b"3"):
        window.begin(identity)
        window.end(identity, 0.0)
    assert [window.look(identity, 0.0) for identity in (b"1", b"2", b"3")] == [Seen.NEW, Seen.DONE, Seen.DONE]


def test_the_bound_in_time():
    window = DuplicateWindow(ids_max=9, kept_s=10.0)
    window.begin(b"1")
    window.end(b"1", 5.0)
    assert [window.look(b"1", now) for now in (5.0, 14.9, 15.0)] == [Seen.DONE, Seen.DONE, Seen.NEW]
    window.begin(b"2")
    window.end(b"2", 15.0)
    assert len(window) == 1
