"""Turns of quick consumers: when a consumer gets more than one message in its turn, and the bounds on that."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.queue.consumers import Attachment, Level
from core.engine.queue.pace import QUICK_MESSAGES, QUICK_SECONDS, TURN_MAX, Pace
from core.interface import ConsumeOptions, Consumer, Disposal, Mailbox
from tests.kit.engine import Peer, bodies, deliveries, later, make_broker

MILLISECOND = 0.001


class Shared:
    """A queue with several consumers, which accept what they get when a test says so."""

    def __init__(self, consumers: int) -> None:
        self.peer = Peer(make_broker("q"))
        self.consumers = [self.peer.consume("q") for _ in range(consumers)]
        self.at = 0.0
        self.published = 0
        self.order: list[int] = []
        """Which consumer got each message, in the order of the messages."""

    def burst(self, count: int, *, after: float = MILLISECOND) -> dict[int, list[tuple[int, bytes]]]:
        """Publish messages together, and deliver them ``after`` this time. Returns what each consumer got."""
        self.at += after
        for consumer in self.consumers:
            self.peer.broker.grant(consumer, 2 * TURN_MAX - 1, False)
        self.peer.publish("q", bodies(count, self.published))
        self.published += count
        self.peer.broker.turn(later(self.at))
        actions = self.peer.mailbox.take()
        got = {place: deliveries(actions, consumer) for place, consumer in enumerate(self.consumers)}
        places = {int(body): place for place, numbered in got.items() for _, body in numbered}
        assert sorted(places) == list(range(self.published - count, self.published))
        self.order += [places[number] for number in sorted(places)]
        return {place: numbered for place, numbered in got.items() if numbered}

    def accept(self, got: dict[int, list[tuple[int, bytes]]]) -> None:
        """The consumers accept what they got."""
        for place, numbered in got.items():
            if numbered:
                self._accept(self.consumers[place], numbered[0][0], numbered[-1][0])

    def _accept(self, consumer: Consumer, first: int, last: int) -> None:
        self.peer.broker.settle(consumer, first, last, Disposal.ACCEPTED)

    def accept_all(self, consumer: Consumer) -> None:
        """The consumer accepts all that it holds."""
        self._accept(consumer, 0, 2**40)

    def warm_up(self) -> None:
        """All consumers settle quickly until each has the longest turn."""
        for _ in range(3):
            self.accept(self.burst(TURN_MAX * len(self.consumers)))
        self.order.clear()


def test_consumers_that_have_not_shown_their_pace_get_one_message_each_in_turn():
    shared = Shared(3)
    for _ in range(QUICK_MESSAGES):
        shared.accept(shared.burst(3))
    assert shared.order == [0, 1, 2] * QUICK_MESSAGES


def test_quick_consumers_get_a_burst_in_runs():
    shared = Shared(3)
    shared.warm_up()
    for _ in range(4):
        shared.accept(shared.burst(TURN_MAX))
    first, *_ = shared.order
    turns = [(first + number) % 3 for number in range(4)]
    assert shared.order == [place for place in turns for _ in range(TURN_MAX)]


def test_a_turn_grows_with_what_was_settled():
    shared = Shared(2)
    for _ in range(QUICK_MESSAGES):
        shared.accept(shared.burst(2))
    sizes = []
    for _ in range(8):
        got = shared.burst(TURN_MAX // 2)
        sizes.append(max(map(len, got.values())))
        shared.accept(got)
    assert sizes[0] == TURN_MAX // 4  # an equal share
    assert max(sizes) == TURN_MAX // 2


def test_what_a_consumer_got_while_it_was_alone_shows_nothing():
    shared = Shared(1)
    for _ in range(4):
        shared.accept(shared.burst(TURN_MAX))
    shared.consumers.append(shared.peer.consume("q"))
    for _ in range(QUICK_MESSAGES):
        shared.order.clear()
        shared.accept(shared.burst(2))
        assert sorted(shared.order) == [0, 1]


def test_a_queue_that_is_seldom_busy_deals_one_message_each():
    shared = Shared(2)
    for _ in range(3 * QUICK_MESSAGES):
        shared.accept(shared.burst(2, after=1.0))
    assert shared.order == [0, 1] * 3 * QUICK_MESSAGES


def test_a_consumer_that_holds_its_messages_too_long_gets_one_in_its_turn():
    shared = Shared(2)
    shared.warm_up()
    held = shared.burst(2 * TURN_MAX)
    assert {place: len(numbered) for place, numbered in held.items()} == {0: TURN_MAX, 1: TURN_MAX}
    shared.accept({1: held[1]})
    shared.accept({1: shared.burst(2, after=2 * QUICK_SECONDS)[1]})
    shared.order.clear()
    for _ in range(2 * TURN_MAX):
        shared.accept({1: shared.burst(1).get(1, [])})
    assert 1 <= shared.order.count(0) <= 8


def test_a_turn_lasts_over_several_bursts():
    shared = Shared(2)
    shared.warm_up()
    for _ in range(2 * TURN_MAX):
        shared.accept(shared.burst(1))
    first = shared.order[0]
    assert shared.order == [first] * TURN_MAX + [1 - first] * TURN_MAX


def test_a_turn_ends_when_its_messages_are_held():
    shared = Shared(2)
    shared.warm_up()
    shared.burst(2)
    got = shared.burst(3, after=2 * QUICK_SECONDS)
    assert sorted(map(len, got.values())) == [1, 2]


def test_late_settlements_take_the_turn_back_to_one_message():
    shared = Shared(2)
    shared.warm_up()
    for _ in range(4):
        shared.burst(2 * TURN_MAX)
        shared.burst(2, after=2 * QUICK_SECONDS)
        for consumer in shared.consumers:
            shared.accept_all(consumer)
    shared.order.clear()
    shared.burst(4)
    assert shared.order in ([0, 1, 0, 1], [1, 0, 1, 0])


@settings(max_examples=25)
@given(st.lists(st.integers(1, 3 * TURN_MAX), min_size=1, max_size=40), st.integers(2, 5))
def test_no_consumer_gets_more_than_a_turn_ahead_of_another(bursts: list[int], consumers: int):
    shared = Shared(consumers)
    shared.warm_up()
    for count in bursts:
        shared.accept(shared.burst(count))
        totals = Counter(shared.order)
        assert max(totals.values()) - min(totals[place] for place in range(consumers)) <= TURN_MAX


def test_a_pace_counts_only_one_run_at_a_time():
    pace = Pace()
    pace.gave(9, now=0.0)
    pace.gave(19, now=0.01)
    assert pace.completes(8) is False
    assert pace.completes(9) is True
    pace.judge(QUICK_SECONDS)
    assert pace.completes(19) is False


def shown(pace: Pace, took: float) -> int:
    """Settle one message after another, each after this time, until the consumer is quick. Returns the next number."""
    for number in range(QUICK_MESSAGES):
        assert pace.turn(0.0) == 1
        pace.gave(number, now=0.0)
        pace.judge(took)
    return QUICK_MESSAGES


def test_a_turn_has_what_the_consumer_settles_in_time_at_its_pace():
    pace = Pace()
    number = shown(pace, QUICK_SECONDS / 10)
    assert pace.turn(0.0) == 10
    pace.gave(number + 9, now=0.0, count=10)
    pace.judge(QUICK_SECONDS / 4)
    assert pace.turn(0.0) == 40
    pace.gave(number + 49, now=0.0, count=40)
    pace.judge(0.0)
    assert pace.turn(0.0) == TURN_MAX


def test_only_the_run_that_was_timed_shows_the_pace():
    """What was delivered before it may have been settled before it was delivered."""
    pace = Pace()
    number = shown(pace, QUICK_SECONDS)
    assert pace.turn(0.0) == 1
    pace.gave(number, now=0.0)
    pace.gave(number + 5, now=0.0, count=5)
    pace.judge(QUICK_SECONDS)
    before = pace.turn(0.0)
    pace.gave(number + 6, now=0.0)
    pace.judge(QUICK_SECONDS / 2)
    assert pace.turn(0.0) == before + 6


def test_a_run_that_is_late_counts_before_it_is_settled():
    pace = Pace()
    for number in range(QUICK_MESSAGES + 10):
        pace.gave(number, now=0.0)
        pace.judge(QUICK_SECONDS)
    pace.gave(QUICK_MESSAGES + 10, now=0.0)
    assert pace.turn(QUICK_SECONDS) == 11
    assert pace.turn(QUICK_SECONDS * 1.01) == 1


def test_a_turn_that_is_late_counts_the_same_each_time_it_is_looked_at():
    """The first look at a late consumer ends its turn. What the queue takes from disk for the first look has to fit the
    grants at the second, when it is handed out."""
    level = Level()
    for identity, grant in ((0, 200), (1, 1)):
        level.enter(Attachment(Consumer(identity, "q", Mailbox(lambda: None), ConsumeOptions(), None), grant=grant))
    pace = level.next.pace = Pace()
    pace.gave(QUICK_MESSAGES + TURN_MAX, 0.0)
    pace.judge(0.0)
    pace.gave(QUICK_MESSAGES + TURN_MAX + 1, 0.0)
    pace.left = 10
    late = 2 * QUICK_SECONDS
    assert level.room(100, late) == level.room(100, late) == 2
