"""The ledger of stalls: which events it reports and when, seconds that never go down, and its bounds."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog import wrap_logger
from structlog.testing import LogCapture

from core.clock import Now
from core.config.log import LogSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stall_log import StallLog
from core.observe.stalls import AFTER_S, OTHER, SLICE, BlockedLabels, Stalls

AT_ONCE = LogSettings(stall_after=AFTER_S, consumer_stall_after=AFTER_S, stall_pause=0.0, stalls_per_minute_max=10_000)
LINK = StallSubject(
    identity="c1/0/1",
    connection="c1",
    peer="127.0.0.1:40000",
    container_id="shop",
    user="guest",
    direction="in",
    address="/queues/q",
)


def at(seconds: float) -> Now:
    return Now(seconds, 1000.0 + seconds)


class Ledger:
    """Stalls with a clock that the test moves, and the log that it writes."""

    def __init__(self, addresses_max: int = 10, settings: LogSettings = AT_ONCE) -> None:
        self.now = at(0.0)
        self.lines = LogCapture()
        self.log = StallLog(wrap_logger(None, processors=[self.lines]), settings, lambda: self.now)
        self.stalls = Stalls(clock=lambda: self.now, listeners=[self.log], addresses_max=addresses_max)

    def block(self, seconds: float, who: StallSubject = LINK, reason: FlowReason = FlowReason.MEMORY) -> None:
        self.stalls.blocked(who, reason, f"alarm {reason.value}", at(seconds))

    def tell(self, seconds: float) -> list[object]:
        """The events of the log's lines so far, after everything that is due has been logged."""
        self.now = at(seconds)
        for _ in chain(self.stalls.tell(), self.log.tell()):
            pass
        return self.events

    @property
    def events(self) -> list[object]:
        return [line["event"] for line in self.lines.entries]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_short_stall_counts_and_is_not_reported(ledger: Ledger):
    ledger.block(0.0)
    assert ledger.tell(0.049) == []
    assert ledger.stalls.snapshot() == []
    ledger.stalls.unblocked(LINK, at(0.049))
    assert ledger.tell(1.0) == []
    assert ledger.stalls.seconds == {("/queues/q", "in", "memory"): pytest.approx(0.049)}
    assert ledger.stalls.current == {}


def test_one_line_at_the_start_and_one_with_the_duration_at_the_end(ledger: Ledger):
    ledger.block(0.0)
    assert ledger.tell(0.05) == ledger.tell(0.5) == ["stall-started"]
    ledger.stalls.unblocked(LINK, at(2.5))
    ledger.stalls.unblocked(LINK, at(3.0))
    started, ended = ledger.lines.entries
    facts = {
        "connection": "c1",
        "peer": "127.0.0.1:40000",
        "container_id": "shop",
        "user": "guest",
        "direction": "in",
        "address": "/queues/q",
        "link": "c1/0/1",
        "reason": "memory",
        "culprit": "alarm memory",
        "log_level": "info",
    }
    assert started == facts | {"event": "stall-started"}
    assert ended == facts | {"event": "stall-ended", "seconds": 2.5}


def test_a_reader_has_no_link_and_no_address_in_its_lines(ledger: Ledger):
    ledger.block(0.0, replace(LINK, identity="c1", address=""))
    ledger.tell(1.0)
    assert not {"link", "address"} & ledger.lines.entries[0].keys()


def test_a_row_while_it_lasts(ledger: Ledger):
    ledger.block(1.0)
    ledger.now = at(3.25)
    (row,) = ledger.stalls.snapshot()
    assert row == {
        "identity": "c1/0/1",
        "connection": "c1",
        "peer": "127.0.0.1:40000",
        "container_id": "shop",
        "user": "guest",
        "vhost": "/",
        "address": "/queues/q",
        "direction": "in",
        "reason": "memory",
        "culprit": "alarm memory",
        "since": 1001.0,
        "seconds": 2.25,
    }
    assert ledger.stalls.snapshot("c1/0/1") == [row]
    assert ledger.stalls.snapshot("c1/0/2") == []


def test_another_reason_is_another_stall_and_another_culprit_is_not(ledger: Ledger):
    ledger.block(0.0)
    ledger.stalls.blocked(LINK, FlowReason.MEMORY, "alarm by hand", at(1.0))
    assert ledger.tell(1.0) == ["stall-started"]
    ledger.block(2.0, reason=FlowReason.DISK)
    assert ledger.tell(2.01) == ["stall-started", "stall-ended"]
    assert ledger.tell(2.06) == ["stall-started", "stall-ended", "stall-started"]
    assert [(line["reason"], line["culprit"]) for line in ledger.lines.entries] == [
        ("memory", "alarm by hand"),
        ("memory", "alarm by hand"),
        ("disk", "alarm disk"),
    ]
    assert ledger.stalls.seconds[BlockedLabels("/queues/q", "in", FlowReason.MEMORY)] == pytest.approx(2.0)


def test_addresses_beyond_the_bound_are_counted_together():
    ledger = Ledger(addresses_max=2)
    for number in range(5):
        who = replace(LINK, identity=str(number), address=f"/queues/{number}")
        ledger.block(float(number), who)
        ledger.stalls.unblocked(who, at(number + 1.0))
    assert {key.address: seconds for key, seconds in ledger.stalls.seconds.items()} == {
        "/queues/0": 1.0,
        "/queues/1": 1.0,
        OTHER: 3.0,
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["block", "free", "read"]),
            st.integers(0, 2),
            st.sampled_from([FlowReason.MEMORY, FlowReason.DISK]),
            st.integers(-2, 5),
        ),
        max_size=60,
    )
)
def test_seconds_never_go_down_whatever_the_clocks_of_the_reporters(steps):
    """Reports carry the time of their batch, which may be a little behind the clock of the reader."""
    ledger = Ledger()
    before: dict[BlockedLabels, float] = {}
    for act, number, reason, step in steps:
        ledger.now = at(max(0.0, ledger.now.monotonic + max(0, step)))
        reported = max(0.0, ledger.now.monotonic + min(0, step))
        who = replace(LINK, identity=str(number))
        if act == "block":
            ledger.block(reported, who, reason)
        elif act == "free":
            ledger.stalls.unblocked(who, at(reported))
        seconds = dict(ledger.stalls.seconds)
        assert all(seconds[key] >= value for key, value in before.items())
        assert sum(seconds.values()) <= 3 * (ledger.now.monotonic + 2 * len(steps))
        before = seconds


def test_telling_many_pauses_and_passes_over_those_that_end_meanwhile(ledger: Ledger):
    links = [replace(LINK, identity=str(number)) for number in range(2 * SLICE + 1)]
    for link in links:
        ledger.block(0.0, link)
    ledger.now = at(1.0)
    telling = ledger.stalls.tell()
    next(telling)
    assert sum(stall.told for stall in ledger.stalls.current.values()) == SLICE
    ledger.stalls.unblocked(links[-1], at(1.0))
    assert sum(1 for _ in telling) == 1
    assert sum(stall.told for stall in ledger.stalls.current.values()) == 2 * SLICE
    assert len(ledger.tell(1.0)) == 2 * SLICE


def looks(count: int, links: int, seen: list[Now], first: Callable[[], None]) -> Callable[[Now], Iterator[int]]:
    def look(now: Now) -> Iterator[int]:
        first()
        for _ in range(count):
            seen.append(now)
            yield links

    return look


def test_a_party_that_asks_is_called_to_look_in_slices_until_it_asks_no_more(ledger: Ledger):
    seen: list[Now] = []
    gone = looks(1, 1, seen, lambda: None)
    large = looks(4, SLICE, seen, lambda: ledger.stalls.look_at(gone, wanted=False))
    ledger.stalls.look_at(large, wanted=True)
    ledger.stalls.look_at(gone, wanted=True)
    assert sum(1 for _ in ledger.stalls.look()) == 4
    assert seen == [at(0.0)] * 4
    ledger.stalls.look_at(large, wanted=False)
    assert list(ledger.stalls.look()) == []


def test_a_bug_in_one_look_is_logged_and_the_others_are_asked_again(ledger: Ledger):
    asked: list[str] = []

    def broken(now: Now) -> Iterator[int]:
        asked.append("broken")
        yield 1
        raise ZeroDivisionError

    def sound(now: Now) -> Iterator[int]:
        asked.append("sound")
        yield 1

    for look in (broken, sound):
        ledger.stalls.look_at(look, wanted=True)
    for _ in range(2):
        list(ledger.stalls.look())
    assert asked == ["broken", "sound", "sound"]
    assert ledger.events == ["stall-look-failed"]


def test_the_stalls_of_an_address_and_of_a_subject_are_found_without_a_look_at_the_others(ledger: Ledger):
    other = replace(LINK, identity="c1/0/2", address="/queues/other")
    out = replace(LINK, identity="c1/0/3", direction="out")
    for who in (LINK, other, out):
        ledger.block(0.0, who)
    ledger.now = at(1.0)
    ledger.block(1.0, replace(LINK, identity="c1/0/4"))
    stalls = ledger.stalls
    assert [stalls.waiting_publishers(address) for address in ("/queues/q", "/queues/other", "none")] == [1, 1, 0]
    assert [row["identity"] for row in stalls.snapshot("c1/0/3")] == ["c1/0/3"]
    assert stalls.snapshot("c1/0/4") == [], "it has not lasted yet"
    ledger.now = at(1.0 + AFTER_S)
    assert stalls.waiting_publishers("/queues/q") == 2
    stalls.unblocked(LINK, ledger.now)
    assert stalls.waiting_publishers("/queues/q") == 1
    assert stalls.snapshot(LINK.identity) == []
