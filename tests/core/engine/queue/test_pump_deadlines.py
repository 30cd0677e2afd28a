"""The pump and time: a queue is touched at the time that it asked for, and when its lane has reached a position."""

from collections import deque
from math import inf

from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms
from core.engine.queue.pump import QueueTurns
from core.engine.ready.waits import Waits
from tests.kit.engine import NOW, later


class TimedQueue:
    """A queue that counts its turns. The test sets its deadline."""

    def __init__(self, deadline: float = inf, work: int = 0) -> None:
        self.deadline = deadline
        self.expired = False
        self.turns = 0
        self.work = work
        self.inbox = Stage[object](None)

    def admit(self, confirms, now) -> bool:
        return False

    def dispatch(self, now) -> int:
        self.turns += 1
        if self.deadline <= now.monotonic:
            self.deadline = inf
        return self.work


class Waiting:
    """A wait for a lane's position. When the position is reached it moves a queue, or none."""

    def __init__(self, moves: TimedQueue | None = None) -> None:
        self.moves = moves
        self.times_reached = 0

    def reached(self, confirms):
        self.times_reached += 1
        return self.moves


def test_a_queue_that_names_no_time_is_not_touched() -> None:
    pump, queue = QueueTurns(Confirms()), TimedQueue()
    pump.touch(queue)
    pump.turn(NOW)
    assert pump.deadline == inf
    pump.turn(later(1000.0))
    assert queue.turns == 1


def test_a_queue_is_touched_at_the_time_it_named_and_not_before() -> None:
    pump, queue = QueueTurns(Confirms()), TimedQueue(NOW.monotonic + 5.0)
    pump.touch(queue)
    pump.turn(NOW)
    assert pump.deadline == NOW.monotonic + 5.0
    pump.turn(later(4.9))
    assert queue.turns == 1
    pump.turn(later(5.0))
    assert (queue.turns, pump.deadline) == (2, inf)


def test_an_earlier_time_replaces_the_entry_and_a_later_one_does_not() -> None:
    pump, queue = QueueTurns(Confirms()), TimedQueue(NOW.monotonic + 5.0)
    for deadline in (5.0, 2.0, 9.0):
        queue.deadline = NOW.monotonic + deadline
        pump.touch(queue)
        pump.turn(NOW)
    assert pump.deadline == NOW.monotonic + 2.0
    pump.turn(later(2.0))  # too early, so the queue gives its time again
    assert pump.deadline == NOW.monotonic + 9.0


def test_a_deleted_queue_wants_nothing_any_more() -> None:
    pump, queue = QueueTurns(Confirms()), TimedQueue(NOW.monotonic + 5.0)
    pump.touch(queue)
    pump.turn(NOW)
    pump.forget(queue)
    assert pump.deadline == inf
    pump.turn(later(9.0))
    assert queue.turns == 1


def test_an_expired_queue_is_reported_once() -> None:
    pump, queue = QueueTurns(Confirms()), TimedQueue()
    queue.expired = True
    pump.touch(queue)
    pump.turn(NOW)
    assert (pump.take_expired(), pump.take_expired()) == ([queue], [])


def test_what_waits_for_a_lane_is_reached_in_order_and_moves_its_queue_in_the_same_turn() -> None:
    reached = deque([0])
    waits = Waits(lambda: reached[0])
    pump, queue = QueueTurns(Confirms(), [waits]), TimedQueue()
    first, second, third = Waiting(), Waiting(queue), Waiting()
    for position, waiting in ((1, first), (2, second), (4, third)):
        waits.add(position, waiting)
    pump.turn(NOW)
    assert first.times_reached == 0
    reached[0] = 3
    pump.turn(NOW)
    assert [w.times_reached for w in (first, second, third)] == [1, 1, 0]
    assert (queue.turns, len(waits)) == (1, 1)
    pump.turn(NOW)
    assert [w.times_reached for w in (first, second, third)] == [1, 1, 0]
