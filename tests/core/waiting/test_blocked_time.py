"""How long things were blocked, compared with a sum over their blocks: alone, and where the broker reports them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.frontend.session_watches import SessionWatches
from core.clock import Now
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stalls import Stalls
from core.waiting.blocked_time import BlockedTime, BlockedTimes
from tests.kit.wire import InProcessBroker

THINGS = 3
"""How many things are blocked and unblocked."""


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=40))
def test_the_time_is_the_sum_over_all_stalls(steps: list[tuple[int, int]]):
    time, now, begun, expected = BlockedTime(), 0.0, [], 0.0
    for seconds, ending in steps:
        now += seconds
        time.begin(now)
        begun.append(now)
        for since in begun[:ending]:
            time.end(now)
            expected += now - since
        del begun[:ending]
        assert time.count == len(begun)
        assert time.seconds(now) == expected + sum(now - since for since in begun)


def test_the_time_never_goes_down_though_the_reader_is_ahead_of_the_turn():
    time = BlockedTime()
    time.begin(10.0)
    assert time.seconds(15.0) == 5.0
    time.end(14.0)
    assert time.seconds(14.5) == time.seconds(20.0) == 5.0


def test_an_end_without_a_time_is_counted_with_the_next_report_or_reading():
    time = BlockedTime()
    time.begin(10.0)
    time.begin(10.0)
    time.unblocked()
    assert time.count == 1
    time.begin(12.0)
    time.unblocked()
    assert [time.seconds(now) for now in (13.0, 14.0)] == [4.0 + 2.0, 6.0 + 1.0]


def test_keys_have_times_of_their_own():
    times: BlockedTimes[str] = BlockedTimes()
    assert times.seconds(1.0) == {}
    times.begin("disk", 1.0)
    times.begin("memory", 2.0)
    times.end("disk", 4.0)
    assert times.seconds(6.0) == {"disk": 3.0, "memory": 4.0}
    assert times.counts() == {"disk": 0, "memory": 1}
    assert times.of("memory").seconds(7.0) == 5.0


# --- where the broker reports blocks


class Blocked(Protocol):
    """Some like things that are blocked and unblocked, by number."""

    def block(self, number: int, now: float) -> None: ...
    def unblock(self, number: int, now: float) -> None: ...
    def seconds(self, now: float) -> float:
        """The seconds of all of them."""


class BlockedLinks:
    """Links that report stalls to the ledger."""

    def __init__(self) -> None:
        self._read_at = 0.0
        self._stalls = Stalls(clock=lambda: Now(self._read_at, 0.0))
        link = StallSubject(
            identity="", connection="c", peer="", container_id="", user="", direction="in", address="/queues/q"
        )
        self._links = [replace(link, identity=str(number)) for number in range(THINGS)]

    def block(self, number: int, now: float) -> None:
        self._stalls.blocked(self._links[number], FlowReason.DISK, "alarm disk", Now(now, 0.0))

    def unblock(self, number: int, now: float) -> None:
        self._stalls.unblocked(self._links[number], Now(now, 0.0))

    def seconds(self, now: float) -> float:
        self._read_at = now
        return sum(self._stalls.seconds.values())


class BlockedStages:
    """Parties of stage credit. The party that lets go does not know the time; a turn of the other follows."""

    def __init__(self) -> None:
        spec, self._time = StageCreditSpec(1, 1), BlockedTime()
        self._senders = [CreditFlow(str(number), spec, blocked_time=self._time) for number in range(THINGS)]
        self._receiver = CreditFlow("receiver", spec)

    def block(self, number: int, now: float) -> None:
        self._senders[number].send(self._receiver, 1, now)

    def unblock(self, number: int, now: float) -> None:
        self._receiver.ack(self._senders[number], 1)
        self._senders[number].stamp(now)

    def seconds(self, now: float) -> float:
        own = sum(sender.blocked_seconds(now) for sender in self._senders)
        assert self._time.seconds(now) == pytest.approx(own, abs=2 * THINGS * LATE_MAX)
        return self._time.seconds(now)


class BlockedWindows:
    """Sessions whose window is closed."""

    def __init__(self) -> None:
        peer = InProcessBroker().connect()
        for channel in range(THINGS):
            peer.begin(channel)
        self._sessions = peer.front_end.connection.all_sessions
        self._times: BlockedTimes[tuple[str, str]] = BlockedTimes()
        self._watches = SessionWatches(self._times)

    def block(self, number: int, now: float) -> None:
        self._watches.observe(self._sessions[number], FlowReason.DISK, direction="in", now=Now(now, 0.0))

    def unblock(self, number: int, now: float) -> None:
        self._watches.observe(self._sessions[number], None, direction="in", now=Now(now, 0.0))

    def seconds(self, now: float) -> float:
        return sum(self._times.seconds(now).values())


LATE_MAX = 2
"""Seconds that a report may be behind the clock of the readers."""
REPORTERS = [BlockedLinks, BlockedStages, BlockedWindows]
numbers = st.integers(0, THINGS - 1)


@pytest.mark.parametrize("make", REPORTERS)
@given(st.lists(st.tuples(numbers, st.integers(0, 8)), max_size=40))
def test_the_seconds_of_all_are_the_sum_over_their_blocks(make: Callable[[], Blocked], steps: list[tuple[int, int]]):
    blocked, since, now, over = make(), dict[int, float](), 0.0, 0.0
    for number, seconds in steps:
        now += seconds
        if number in since:
            blocked.unblock(number, now)
            over += now - since.pop(number)
        else:
            blocked.block(number, now)
            since[number] = now
        assert blocked.seconds(now) == over + sum(now - at for at in since.values())


@pytest.mark.parametrize("make", REPORTERS)
@given(st.lists(st.tuples(numbers, st.integers(0, 5), st.integers(0, LATE_MAX), st.booleans()), max_size=60))
def test_the_seconds_never_go_down_for_any_reader_at_any_time(
    make: Callable[[], Blocked], steps: list[tuple[int, int, int, bool]]
):
    """A report carries the time of its turn, which may be a little behind the clock of the reader."""
    blocked, since, clock, before, over = make(), dict[int, float](), 0.0, 0.0, 0.0
    for reports, (number, seconds, late, read) in enumerate(steps, start=1):
        clock += seconds
        reported = max(0.0, clock - late)
        if number in since:
            blocked.unblock(number, reported)
            over += max(0.0, reported - since.pop(number))
        else:
            blocked.block(number, reported)
            since[number] = reported
        if read:
            now = blocked.seconds(clock)
            assert now >= before
            true = over + sum(clock - at for at in since.values())
            assert now == pytest.approx(true, abs=LATE_MAX * reports * THINGS)
            before = now
