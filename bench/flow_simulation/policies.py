"""Who gets how much link credit: by fixed numbers, or by the fair rate of the target. Both are the product's own
arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

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

    def passed(self, now: float) -> Grants:
        """Nothing depends on the time."""
        return []

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
        self._granted: dict[int, int] = {}
        self._called: list[Publisher] = []
        self._alarms: list[float] = []

    def attached(self, publisher: Publisher, now: float) -> int:
        """Return the first link credit."""
        window = PublisherWindow(
            self.fair_rate, now, partial(self._called.append, publisher), alarm=self._alarms.append
        )
        window.weight = publisher.spec.weight
        self._windows[publisher.number] = window
        self._granted[publisher.number] = window.limit
        return window.limit

    def received(self, publisher: Publisher, messages: int, now: float) -> Grants:
        """Take messages."""
        return self._looked([publisher], now)

    def confirmed(self, confirms: Sequence[tuple[Publisher, int, float]], now: float) -> Grants:
        """Take confirms."""
        return self._looked((publisher for publisher, _, _ in confirms), now)

    def passed(self, now: float) -> Grants:
        """Give the queue a turn if a link has asked for it."""
        due = [time for time in self._alarms if time <= now]
        if due:
            self._alarms[:] = [time for time in self._alarms if time > now]
            self.fair_rate.turn(now)
        return self._looked([], now)

    def _looked(self, publishers: Iterable[Publisher], now: float) -> Grants:
        once = {publisher.number: publisher for publisher in publishers}
        for publisher in once.values():
            self._windows[publisher.number].look(publisher.received, publisher.confirmed, now)
        for publisher in self._called:
            once[publisher.number] = publisher
        self._called.clear()
        return [(publisher, messages) for publisher in once.values() if (messages := self._grant(publisher.number))]

    def _grant(self, number: int) -> int:
        messages = self._windows[number].limit - self._granted[number]
        self._granted[number] += messages
        return messages


POLICIES: dict[str, Callable[[], Policy]] = {"fixed": FixedPolicy, "adaptive": AdaptivePolicy}
