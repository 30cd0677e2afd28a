"""Who gets how much link credit: by fixed numbers, or by the fair rate of the target. Both are the product's own
arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from amqp10.flow.fair_rate import FairRate, PublisherWindow
from amqp10.flow.link_credit import ReceiverCredit
from bench.flow_simulation.model import Policy, Publisher

MAXIMUM, TOP_UP_AT = 170, 85
"""The defaults of the broker."""

Grants = list[tuple[Publisher, int]]


class FixedPolicy:
    """The same link credit for each link."""

    def __init__(self) -> None:
        self._links: dict[int, ReceiverCredit] = {}

    def attached(self, publisher: Publisher, now: float) -> int:
        """Return the first link credit."""
        link = ReceiverCredit(maximum=MAXIMUM, top_up_at=TOP_UP_AT, unconfirmed_limit=MAXIMUM)
        self._links[publisher.number] = link
        return self._refill(publisher)

    def received(self, publisher: Publisher, messages: int, now: float) -> Grants:
        """Take messages."""
        self._links[publisher.number].received(messages)
        return self._granted([publisher])

    def confirmed(self, confirms: Sequence[tuple[Publisher, int, float]], now: float) -> Grants:
        """Take confirms."""
        for publisher, messages, _ in confirms:
            self._links[publisher.number].confirmed(messages)
        return self._granted(publisher for publisher, _, _ in confirms)

    def _granted(self, publishers: Iterable[Publisher]) -> Grants:
        once = {publisher.number: publisher for publisher in publishers}.values()
        return [(publisher, messages) for publisher in once if (messages := self._refill(publisher))]

    def _refill(self, publisher: Publisher) -> int:
        link = self._links[publisher.number]
        before = link.link_credit
        return link.link_credit - before if link.refill() else 0


class AdaptivePolicy:
    """A window for each link, by the fair rate of the queue."""

    def __init__(self) -> None:
        self.fair_rate = FairRate()
        self._windows: dict[int, PublisherWindow] = {}
        self._publishers: dict[PublisherWindow, Publisher] = {}
        self._unconfirmed = 0

    def attached(self, publisher: Publisher, now: float) -> int:
        """Return the first link credit."""
        window = PublisherWindow(self.fair_rate, now)
        self._windows[publisher.number] = window
        self._publishers[window] = publisher
        return window.size

    def received(self, publisher: Publisher, messages: int, now: float) -> Grants:
        """Take messages."""
        self._unconfirmed += messages
        self._windows[publisher.number].received(messages, now)
        return self._topped_up([publisher], now)

    def confirmed(self, confirms: Sequence[tuple[Publisher, int, float]], now: float) -> Grants:
        """Take confirms."""
        for publisher, messages, age in confirms:
            self._unconfirmed -= messages
            self._windows[publisher.number].confirmed(messages, age)
        called = self._called(now)
        topped_up = self._topped_up((publisher for publisher, _, _ in confirms), now)
        # A link that has just begun to wait may be the only one that could cause another confirm.
        return called + topped_up + (self._called(now) if self._unconfirmed == 0 else [])

    def _called(self, now: float) -> Grants:
        windows = self.fair_rate.turn(now, unconfirmed=self._unconfirmed)
        return [(self._publishers[window], window.called(now)) for window in windows]

    def _topped_up(self, publishers: Iterable[Publisher], now: float) -> Grants:
        once = {publisher.number: publisher for publisher in publishers}.values()
        return [
            (publisher, messages) for publisher in once if (messages := self._windows[publisher.number].top_up(now))
        ]


POLICIES: dict[str, Callable[[], Policy]] = {"fixed": FixedPolicy, "adaptive": AdaptivePolicy}
