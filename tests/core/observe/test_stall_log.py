"""Which stalls are logged: how long they must last, how often one link is logged, and how many lines there are
in all."""

from dataclasses import replace
from itertools import chain

import pytest
from structlog import wrap_logger
from structlog.testing import LogCapture

from core.clock import Now
from core.config.log import LogSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stall_log import StallLog
from core.observe.stalls import Stalls

PUBLISHER = StallSubject(
    identity="c1/0/1",
    connection="c1",
    peer="127.0.0.1:40000",
    container_id="shop",
    user="guest",
    direction="in",
    address="/queues/q",
)
CONSUMER = replace(PUBLISHER, identity="c2/0/1", connection="c2", direction="out")
ROUND_S = 0.2


class Told:
    """A ledger of stalls and its log, driven as the server drives them."""

    def __init__(self, **settings: float) -> None:
        self._seconds = 0.0
        self.lines = LogCapture()
        log = wrap_logger(None, processors=[self.lines])
        self._log = StallLog(log, LogSettings.model_validate(settings), self.clock)
        self.stalls = Stalls(clock=self.clock, listeners=[self._log])

    def clock(self) -> Now:
        return Now(self._seconds, 1000.0 + self._seconds)

    def go_on(self, seconds: float) -> None:
        """Let rounds pass, for this many seconds."""
        until = self._seconds + seconds
        while self._seconds < until - 1e-9:
            self._seconds = min(until, self._seconds + ROUND_S)
            for _ in chain(self.stalls.tell(), self._log.tell()):
                pass

    def stall(self, seconds: float, who: StallSubject = PUBLISHER, reason: FlowReason = FlowReason.QUEUE_FULL) -> None:
        """Begin a stall, and end it."""
        self.stalls.blocked(who, reason, "queue q", self.clock())
        self.go_on(seconds)
        self.stalls.unblocked(who, self.clock())

    def of(self, event: str) -> list[dict[str, object]]:
        return [dict(line) for line in self.lines.entries if line["event"] == event]


def test_a_publisher_that_waits_for_less_than_a_second_is_no_event():
    told = Told()
    for _ in range(20):
        told.stall(0.8)
    assert told.lines.entries == []
    assert sum(told.stalls.seconds.values()) == pytest.approx(16.0)


def test_one_that_waits_for_longer_has_two_lines():
    told = Told()
    told.stall(1.4)
    assert [line["event"] for line in told.lines.entries] == ["stall-started", "stall-ended"]
    assert told.of("stall-ended")[0]["seconds"] == pytest.approx(1.4)


@pytest.mark.parametrize("reason", [FlowReason.LINK_CREDIT, FlowReason.SESSION_WINDOW, FlowReason.SOCKET])
def test_a_consumer_that_takes_its_time_is_no_event_for_a_minute(reason: FlowReason):
    told = Told()
    told.stall(59.0, CONSUMER, reason)
    assert told.lines.entries == []
    told.stall(61.0, CONSUMER, reason)
    assert [line["event"] for line in told.lines.entries] == ["stall-started", "stall-ended"]
    assert sum(told.stalls.seconds.values()) == pytest.approx(120.0)


def test_what_an_operator_does_to_a_consumer_is_told_like_what_is_done_to_a_publisher():
    told = Told()
    told.stall(2.0, CONSUMER, FlowReason.PAUSED)
    assert len(told.of("stall-started")) == 1


def test_one_link_is_told_of_once_a_minute_and_the_others_are_counted():
    told = Told()
    for _ in range(20):
        told.stall(2.0)
        told.go_on(1.0)
    told.go_on(61.0)
    assert len(told.of("stall-started")) == len(told.of("stall-ended")) == 1
    assert sum(int(str(line["stalls"])) for line in told.of("stalls-left-out")) == 19
    assert sum(told.stalls.seconds.values()) == pytest.approx(40.0)
    told.stall(2.0)
    assert len(told.of("stall-started")) == 2


def test_all_links_together_have_a_limit():
    told = Told(stalls_per_minute_max=5)
    for number in range(30):
        who = replace(PUBLISHER, identity=f"c{number}/0/0")
        told.stalls.blocked(who, FlowReason.MEMORY, "alarm memory", told.clock())
    told.go_on(61.0)
    assert len(told.of("stall-started")) == 5
    (left_out,) = told.of("stalls-left-out")
    assert (left_out["stalls"], left_out["told"]) == (25, 5)


def test_three_busy_connections_write_no_thousands_of_lines():
    """The same happened in a soak test that logged 4,321 lines in 23 minutes."""
    told = Told()
    for number in range(23 * 60):
        who = replace(CONSUMER, identity=f"c{number % 3}/0/0")
        told.stall(0.8, who, FlowReason.LINK_CREDIT)
        told.go_on(0.2)
    assert told.lines.entries == []
    assert sum(told.stalls.seconds.values()) == pytest.approx(23 * 60 * 0.8)
