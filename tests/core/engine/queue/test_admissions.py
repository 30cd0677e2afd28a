"""What a confirm waits for, and that this may change while the queue exists."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.confirms import Confirms, Submission
from core.engine.queue.admissions import Admissions, lose_track, refuse
from core.engine.ready.waits import Waits
from core.errors import LimitReached
from core.interface import Confirmed, Mailbox, Outcome, Publisher
from core.message import Attributes, Run
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import bodies, confirms, later, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)
NO_ROOM = LimitReached("no room")
ALWAYS = PolicyDeclaration(name="p", pattern="", priority=0, apply_to="queues", definition={"sync": "always"})


class Lane:
    """A lane with two positions, of which the synced one is never ahead. This object also stands for the queue."""

    def __init__(self) -> None:
        self.staged = self.written = self.synced = 0
        self._waits = [Waits(lambda: self.written), Waits(lambda: self.synced)]
        self.confirms = Confirms()
        self.mailbox = Mailbox(lambda: None)
        self.publisher = Publisher(self.mailbox, self, None, "p")
        self.confirms.enter(self.publisher)
        written, synced = self._waits
        self.admissions = Admissions(self, written=written, synced=synced, ready_before=True)
        self._next = 0

    def publish(self, count: int, *, durable: bool, room: bool = True) -> None:
        run = Run(self._next, bodies(count), DURABLE)
        self._next += count
        submission = Submission(self.publisher, run, None)
        if not room:
            self.admissions.reject(self.confirms, submission, 0, count, NO_ROOM)
            return
        self.staged += durable
        self.admissions.took(self.confirms, submission, 0, count, self.staged if durable else None)

    def take(self, position: int) -> list[object]:
        """What waits for this position, which is not reached any more."""
        return list(self._waits[0].take(position, position))

    def look(self) -> list[tuple[int, Outcome]]:
        """The messages answered since the last call, one by one."""
        for waits in self._waits:
            for admission in waits.reached():
                admission.reached(self.confirms)
        answers = [action for action in self.mailbox.take() if isinstance(action, Confirmed)]
        return [(number, one.outcome) for one in answers for number in range(one.first, one.last + 1)]


def test_from_a_sync_to_less_what_came_before_is_answered_first():
    lane = Lane()
    lane.admissions.expect(sync=True)
    lane.publish(2, durable=True)
    lane.admissions.expect(sync=False)
    lane.publish(3, durable=True)
    lane.written = 2
    assert lane.look() == []
    assert lane.publisher.unsynced == 2
    lane.synced = 1
    assert [number for number, _ in lane.look()] == [0, 1, 2, 3, 4]
    assert lane.publisher.unsynced == 0
    lane.publish(1, durable=True)
    lane.written = 3
    assert lane.look() == [(5, Outcome.ACCEPTED)]


def test_to_a_sync_only_what_comes_from_now_on_waits_for_it():
    lane = Lane()
    lane.publish(1, durable=True)
    lane.admissions.expect(sync=True)
    lane.publish(1, durable=True)
    lane.written = 2
    assert lane.look() == [(0, Outcome.ACCEPTED)]
    lane.synced = 2
    assert lane.look() == [(1, Outcome.ACCEPTED)]


def test_what_was_never_committed_is_released_and_what_will_never_be_known_is_uncertain():
    lane = Lane()
    for _ in range(3):
        lane.publish(1, durable=True)
    for position, end in ((1, refuse), (2, lose_track)):
        for waiting in lane.take(position):
            end(waiting, lane.confirms)
    lane.written = 3
    assert lane.look() == [(0, Outcome.RELEASED), (1, Outcome.UNCERTAIN), (2, Outcome.ACCEPTED)]


@pytest.mark.parametrize(
    ("end", "outcome"), [(refuse, Outcome.RELEASED), (lose_track, Outcome.UNCERTAIN), (None, Outcome.ACCEPTED)]
)
def test_a_repeat_is_no_more_certain_than_what_it_repeats(end, outcome):
    lane = Lane()
    lane.publish(1, durable=True)
    lane.admissions.repeated(lane.confirms, Submission(lane.publisher, Run(1, bodies(1), DURABLE), None), 0, 1)
    for waiting in [] if end is None else lane.take(1):
        end(waiting, lane.confirms)
    lane.written = 1
    assert lane.look() == [(0, outcome), (1, outcome)]
    lane.admissions.repeated(lane.confirms, Submission(lane.publisher, Run(2, bodies(1), DURABLE), None), 0, 1)
    assert lane.look() == [(2, Outcome.ACCEPTED)], "an earlier one, long answered"


@given(st.lists(st.tuples(st.sampled_from(["sync", "written", "durable", "transient", "no room", "write", "flush"]))))
def test_answers_are_in_order_and_none_is_early_whatever_changes(steps):
    lane = Lane()
    needs: list[tuple[int, bool]] = []
    answered: list[int] = []
    sync = False
    for (step,) in steps:
        if step in ("sync", "written"):
            sync = step == "sync"
            lane.admissions.expect(sync=sync)
        elif step == "write":
            lane.written = lane.staged
        elif step == "flush":
            lane.synced = lane.written
        else:
            lane.publish(1, durable=step == "durable", room=step != "no room")
            needs.append((lane.staged if step == "durable" else 0, sync))
        for number, _ in lane.look():
            answered.append(number)
            position, synced = needs[number]
            assert position <= (lane.synced if synced else lane.written)
    lane.written = lane.synced = lane.staged
    answered += [number for number, _ in lane.look()]
    assert answered == list(range(len(needs)))
    assert lane.publisher.unsynced == 0


@pytest.mark.parametrize("moved", [None, NO_ROOM])
def test_what_waits_in_a_queue_that_is_deleted_or_moved_is_released_once(moved):
    lane = Lane()
    for sync in (True, False):
        lane.admissions.expect(sync=sync)
        lane.publish(1, durable=True)
    lane.publish(1, durable=False)
    lane.written = lane.staged
    lane.look()
    lane.admissions.dissolve(lane.confirms, moved)
    lane.synced = lane.staged
    answers = [action for action in lane.mailbox.take() if isinstance(action, Confirmed)]
    assert [(one.first, one.last, one.outcome) for one in answers] == [(at, at, Outcome.RELEASED) for at in range(3)]
    assert {one.error for one in answers} == {moved}, "without an error, AMQP 0.9.1 would confirm them"
    assert lane.look() == []
    assert lane.publisher.unsynced == 0


@pytest.mark.parametrize("from_the_start", [False, True])
def test_a_policy_changes_what_a_classic_queue_accepts_for(from_the_start):
    one = KeptBroker()
    if from_the_start:
        one.broker.policies.set(ALWAYS)
    one.broker.declare_queue(queue("q"), "x")
    if not from_the_start:
        one.peer.publish("q", bodies(2), DURABLE)
        one.write()
        assert confirms(one.peer.mailbox.take()) == [(0, 1, Outcome.ACCEPTED)]
        one.broker.policies.set(ALWAYS)
    first = one.peer.next_confirm
    one.peer.publish("q", bodies(2), DURABLE)
    one.write()
    assert confirms(one.peer.mailbox.take()) == []
    one.broker.policies.clear("p")
    one.peer.publish("q", bodies(3), DURABLE)
    one.write()
    assert confirms(one.peer.mailbox.take()) == []
    one.run(later(1))
    assert confirms(one.peer.mailbox.take()) == [(first, first + 4, Outcome.ACCEPTED)]
    one.peer.publish("q", bodies(1), DURABLE)
    one.write()
    assert confirms(one.peer.mailbox.take()) == [(first + 5, first + 5, Outcome.ACCEPTED)]
