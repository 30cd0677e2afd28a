"""Rate limits by link credit: the arithmetic of buckets, and what publishers that want more get in simulated time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.flow.fair_rate import FairRate, PublisherWindow
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.flow.publish_rate import BUCKET_SECONDS, LinkRate, TokenBucket

LIMITS = (10, 20, 50, 200, 1_000, 3_000, 10_000, 20_000, 50_000, 100_000)
SECONDS = 30.0
LATE = 0.002
"""A timer of the broker comes so late, at most."""


@dataclass
class Clock:
    """Events in simulated time."""

    now: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)

    def time(self) -> float:
        return self.now

    def at(self, time: float, event: Callable[[], None]) -> None:
        heappush(self._events, (max(time, self.now), next(self._order), event))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heappop(self._events)
            event()
        self.now = until


class Publisher:
    """A publisher that always has messages, at this distance; the broker confirms each as it comes."""

    def __init__(
        self, clock: Clock, buckets: list[TokenBucket], round_trip: float, size: int, fair: FairRate | None
    ) -> None:
        self.clock = clock
        self.round_trip = round_trip
        self.size = size
        self.came: list[tuple[float, int]] = []
        self.credit = ReceiverCredit(maximum=170, top_up_at=85, unconfirmed_limit=170)
        if fair is not None:
            self.credit.maximum = 2**31
            self.credit.follow(PublisherWindow(fair, clock.now), clock.time)
        self.credit.limit_rate(LinkRate(buckets, self.refill_soon, self.wait), clock.time)
        self.limit = self.sent = 0
        self.refill()

    @property
    def total(self) -> int:
        return sum(messages for _, messages in self.came)

    def wait(self, due: float) -> None:
        self.clock.at(due + LATE, partial(self.refill_due, due))

    def refill_due(self, due: float) -> None:
        if self.credit.rate is not None and self.credit.rate.due == due:
            self.refill()

    def refill_soon(self) -> None:
        self.clock.at(self.clock.now, self.refill)

    def refill(self) -> None:
        rate = self.credit.rate
        assert rate is not None
        if self.credit.refill():
            limit = self.credit.delivery_count + self.credit.link_credit
            self.clock.at(self.clock.now + self.round_trip / 2, partial(self.allowed, limit))
        rate.looked()

    def allowed(self, limit: int) -> None:
        messages, self.sent = max(0, limit - self.sent), max(limit, self.sent)
        if messages:
            self.clock.at(self.clock.now + self.round_trip / 2, partial(self.arrived, messages))

    def arrived(self, messages: int) -> None:
        rate = self.credit.rate
        assert rate is not None
        self.came.append((self.clock.now, messages))
        self.credit.received(messages)
        if self.credit.window is not None:
            self.credit.window.bytes_received += messages * self.size
        rate.arrived(messages, messages * self.size)
        self.credit.confirmed(messages)
        self.refill()


def published(
    limit: int, *, links: int = 1, round_trip: float = 0.001, size: int = 12, of_bytes: bool = False,
    adaptive: bool = False, seconds: float = SECONDS,
) -> list[Publisher]:  # fmt: skip
    """Publishers that want more than this limit, after so many seconds."""
    clock = Clock()
    bucket = TokenBucket(limit, 0.0, of_bytes=of_bytes)
    fair = FairRate() if adaptive else None
    publishers = [Publisher(clock, [bucket], round_trip, size, fair) for _ in range(links)]
    clock.run(seconds)
    return publishers


def total(publishers: list[Publisher]) -> int:
    return sum(publisher.total for publisher in publishers)


@pytest.mark.parametrize("adaptive", [False, True], ids=["fixed", "adaptive"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_holds_within_two_percent_over_thirty_seconds(limit: int, adaptive: bool) -> None:
    assert total(published(limit, adaptive=adaptive)) == pytest.approx(limit * SECONDS, rel=0.02)


@pytest.mark.parametrize("adaptive", [False, True], ids=["fixed", "adaptive"])
@pytest.mark.parametrize("limit", [10, 200, 100_000])
def test_a_limit_is_shared_by_its_links_at_a_distance(limit: int, adaptive: bool) -> None:
    publishers = published(limit, links=50, round_trip=0.02, adaptive=adaptive)
    assert total(publishers) == pytest.approx(limit * SECONDS, rel=0.02)


@pytest.mark.parametrize("limit", [200, 3_000, 50_000])
def test_the_links_of_a_limit_get_equal_shares(limit: int) -> None:
    totals = [publisher.total for publisher in published(limit, links=10)]
    assert min(totals) > 0.9 * max(totals)


@pytest.mark.parametrize("links", [10, 50])
@pytest.mark.parametrize("limit", [3_000, 10_000])
def test_the_shares_are_as_equal_where_link_credit_follows_windows(limit: int, links: int) -> None:
    """Links whose windows were small when they met the limit get as much as the others: Jain's index is near 1."""
    totals = [one.total for one in published(limit, links=links, round_trip=0.02, adaptive=True, seconds=10.0)]
    assert sum(totals) ** 2 / links / sum(total**2 for total in totals) >= 0.95


@pytest.mark.parametrize("size", [100, 5_000, 1_000_000])
def test_a_limit_of_bytes_holds_for_messages_of_any_size(size: int) -> None:
    limit = 1_000_000
    publishers = published(limit, links=2, size=size, of_bytes=True)
    assert total(publishers) * size == pytest.approx(limit * SECONDS, rel=0.02, abs=2 * size)


def test_no_burst_is_larger_than_the_bucket_and_what_a_link_holds() -> None:
    limit = 1_000
    came = published(limit)[0].came
    for at, (begin, _) in enumerate(came):
        within = sum(messages for time, messages in came[at : at + 200] if time < begin + 0.1)
        assert within <= limit * (0.1 + BUCKET_SECONDS) + 1


class Links:
    """Links under one limit, in steps that a test chooses. The first message may have any size."""

    def __init__(self, number: int, rate: int) -> None:
        self.now = 0.0
        self.rate = rate
        self.bucket = TokenBucket(rate, 0.0)
        self.left = [0] * number
        self.granted = 0
        self.links = [LinkRate([self.bucket], lambda: None, lambda due: None) for _ in range(number)]

    def ask(self, at: int, wanted: int) -> int:
        link = self.links[at]
        got = link.take(wanted, self.left[at], self.now)
        link.looked()
        self.left[at] += got
        self.granted += got
        return got

    def send(self, at: int, messages: int) -> None:
        messages = min(messages, self.left[at])
        if messages:
            self.left[at] -= messages
            self.links[at].arrived(messages, messages)

    def give_back(self, at: int, messages: int) -> None:
        """The peer uses up link credit without messages, which is seen when the link asks again."""
        messages = min(messages, self.left[at])
        self.left[at] -= messages
        self.granted -= messages


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "send", "give back", "wait"]), st.integers(0, 3), st.integers(1, 500)),
    max_size=60,
)


@given(st.integers(1, 5_000), STEPS)
def test_links_are_never_granted_more_than_the_bucket_and_the_rate_allow(rate: int, steps: list[tuple]) -> None:
    links = Links(4, rate)
    for what, at, number in steps:
        match what:
            case "ask":
                links.ask(at, number)
            case "send":
                links.send(at, number)
            case "give back":
                links.give_back(at, number)
            case "wait":
                links.now += number / 1_000
        # What was given back counts as granted until its link asks again, so this bounds what was really granted.
        assert links.granted <= links.bucket.size + rate * links.now + 0.001
        assert links.bucket.held >= -0.001


@given(st.integers(1, 5_000), STEPS)
def test_every_link_that_waits_is_served_in_turn(rate: int, steps: list[tuple]) -> None:
    links = Links(4, rate)
    for what, at, number in steps:
        if what == "ask":
            links.ask(at, number)
        elif what == "send":
            links.send(at, number)
        else:
            links.now += number / 1_000
    for at in range(4):
        links.send(at, links.left[at])
        links.ask(at, 1)
    for _ in range(4):
        first = links.bucket.first
        if first is None:
            break
        at = links.links.index(first)
        if first.due == float("inf"):  # it was called when it became the first, and asks now
            links.ask(at, 1)
            if links.bucket.first is not first:
                continue
        links.now = max(links.now, first.due)
        assert links.ask(at, 1) == 1
    assert links.bucket.first is None
    assert all(links.left)


def test_a_link_that_has_sent_nothing_holds_one_message() -> None:
    links = Links(3, 1_000)
    assert [links.ask(at, 170) for at in (0, 1, 2)] == [1, 1, 1]
    assert links.ask(0, 170) == 0
    assert links.bucket.first is None, "it holds what it may, and does not wait"


def test_a_link_gets_back_what_it_gave_back() -> None:
    links = Links(1, 1_000)
    links.ask(0, 170)
    links.send(0, 1)
    before = links.bucket.tokens(0.0)
    assert links.ask(0, 100) == 100
    links.give_back(0, 100)
    links.ask(0, 1)
    assert links.bucket.tokens(0.0) == before - 1
    assert links.bucket.held == 1


def test_a_link_that_is_gone_gives_its_tokens_back_and_leaves_the_line() -> None:
    called: list[str] = []
    bucket = TokenBucket(4, 0.0)
    first, second = (LinkRate([bucket], partial(called.append, name), lambda due: None) for name in ("1", "2"))
    assert first.take(1, 0, 0.0) == 1
    first.arrived(1, 1)
    assert (first.take(5, 0, 0.0), second.take(1, 0, 0.0)) == (0, 0)
    assert bucket.first is first
    first.close()
    assert called == ["2"]
    assert bucket.first is second
    second.close()
    assert (bucket.held, bucket.first) == (0.0, None)


def test_a_link_that_wants_none_leaves_the_line() -> None:
    bucket = TokenBucket(1, 0.0)
    link = LinkRate([bucket], lambda: None, lambda due: None)
    other = LinkRate([bucket], lambda: None, lambda due: None)
    link.take(1, 0, 0.0)
    other.take(1, 0, 0.0)
    other.looked()
    assert bucket.first is other
    other.looked()
    assert bucket.first is None


def test_a_message_larger_than_the_bucket_is_paid_afterwards() -> None:
    bucket = TokenBucket(1_000, 0.0, of_bytes=True)
    link = LinkRate([bucket], lambda: None, lambda due: None)
    assert link.take(10, 0, 0.0) == 1
    link.arrived(1, 5_000)
    assert bucket.tokens(0.0) == 250 - 5_000
    assert link.take(10, 0, 0.0) == 0
    assert link.due == pytest.approx(5.0), "when the debt is paid and the bucket is full"
    assert link.take(10, 0, link.due) == 1


def test_a_link_keeps_to_the_lower_of_two_rates() -> None:
    clock = Clock()
    slow, quick = TokenBucket(100, 0.0), TokenBucket(10_000, 0.0)
    publisher = Publisher(clock, [quick, slow], 0.001, 12, None)
    clock.run(SECONDS)
    assert publisher.total == pytest.approx(100 * SECONDS, rel=0.02)
    assert publisher.credit.rate is not None
    assert publisher.credit.rate.held_back_by is slow
