"""Publishers that send as fast as their link credit allows, or at a rate, to one queue; time is simulated.

Bytes take half of the round trip in each direction and any number of messages at a time. The queue works on messages at
a rate and in the order in which they came. It confirms them at once, or with syncs: what has been worked on before one
sync begins is confirmed when that sync ends. A confirm may make the policy grant link credit, which the publisher has
half a round trip later.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

WORK_SECONDS = 0.0005
"""The queue works on as many messages at a time as take so long: a turn of the broker."""
TICK_SECONDS = 0.001
"""Timers of the broker are so exact."""


@dataclass(frozen=True, slots=True)
class PublisherSpec:
    """Publishers that are alike."""

    round_trip: float
    """Seconds."""
    rate: float | None = None
    """Messages a second that the application has for the link; None: it always has more."""
    number: int = 1
    at: float = 0.0
    """When they attach."""
    weight: int = 1
    """How many times the share of others they are to have."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What the queue can do."""

    rates: Sequence[float]
    """Messages a second; more than one take turns of ``step`` seconds each."""
    syncs: Sequence[float] = (0.0,)
    """Seconds from the begin of a sync to its end, in turn as the rates; 0: the queue confirms without."""
    step: float = 1.0

    def rate(self, now: float) -> float:
        """Messages a second at this time."""
        return self.rates[int(now / self.step) % len(self.rates)]

    def sync(self, now: float) -> float:
        """What a sync takes that begins at this time."""
        return self.syncs[int(now / self.step) % len(self.syncs)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Publishers before a queue."""

    name: str
    publishers: Sequence[PublisherSpec]
    queue: QueueSpec
    goals: Sequence[str] = ()
    """The names of goals that adaptive link credit has to reach in it."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Messages of one publisher that were confirmed together."""

    at: float
    publisher: int
    messages: int
    age: float
    """Seconds since they came."""


@dataclass(slots=True)
class Publisher:
    """A publisher with its link, as both of its ends see it. Counts are messages since the attach."""

    number: int
    spec: PublisherSpec
    attached_at: float = 0.0
    limit: int = 0
    """What the publisher may have sent, by the newest flow that it has."""
    sent: int = 0
    received: int = 0
    confirmed: int = 0

    def offered(self, now: float) -> int:
        """What the application has had for the link until now, as far as the limit matters."""
        if self.spec.rate is None:
            return self.limit
        return int((now - self.attached_at) * self.spec.rate)


class Policy(Protocol):
    """Decides about link credit. Each method returns what to grant: publishers with messages beyond what they have."""

    def attached(self, publisher: Publisher, now: float) -> int:
        """A publisher has attached. Returns its first link credit."""
        ...

    def received(self, publisher: Publisher, messages: int, now: float) -> list[tuple[Publisher, int]]:
        """Messages came."""
        ...

    def confirmed(self, confirms: Sequence[tuple[Publisher, int, float]], now: float) -> list[tuple[Publisher, int]]:
        """Messages were confirmed: of which publisher, how many, and their age in seconds."""
        ...

    def passed(self, now: float) -> list[tuple[Publisher, int]]:
        """Time has passed: called each millisecond."""
        ...


@dataclass(slots=True)
class _Work:
    publisher: Publisher
    messages: int
    came_at: float


@dataclass(slots=True)
class Simulation:
    """One run. Results are ``confirms``, ``flows``, ``unconfirmed_max`` and ``history``."""

    scenario: Scenario
    policy: Policy
    seed: int = 1
    publishers: list[Publisher] = field(default_factory=list)
    confirms: list[Confirm] = field(default_factory=list)
    flows: int = 0
    unconfirmed: int = 0
    unconfirmed_max: int = 0
    history: list[tuple[float, int]] = field(default_factory=list)
    """The messages that were unconfirmed, after each change, with its time."""
    _now: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)
    _waiting: deque[_Work] = field(default_factory=deque)
    _working: bool = False
    _worked: list[_Work] = field(default_factory=list)
    _syncing: bool = False

    def run(self, seconds: float) -> Simulation:
        """Simulate so long. Returns itself."""
        chance = random.Random(self.seed)
        for spec in self.scenario.publishers:
            for _ in range(spec.number):
                publisher = Publisher(len(self.publishers), spec)
                self.publishers.append(publisher)
                self._at(spec.at + chance.random() * 0.01, partial(self._attach, publisher))
        self._at(TICK_SECONDS, self._tick)
        while self._events and self._events[0][0] <= seconds:
            self._now, _, event = heapq.heappop(self._events)
            event()
        return self

    def _tick(self) -> None:
        self._grant(self.policy.passed(self._now))
        self._at(self._now + TICK_SECONDS, self._tick)

    def _at(self, time: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), event))

    def _attach(self, publisher: Publisher) -> None:
        publisher.attached_at = self._now
        self._grant([(publisher, self.policy.attached(publisher, self._now))])

    def _grant(self, grants: list[tuple[Publisher, int]]) -> None:
        for publisher, messages in grants:
            self.flows += 1
            time = self._now + publisher.spec.round_trip / 2
            self._at(time, partial(self._flow_arrives, publisher, messages))

    def _flow_arrives(self, publisher: Publisher, messages: int) -> None:
        publisher.limit += messages
        self._send(publisher)

    def _send(self, publisher: Publisher) -> None:
        messages = min(publisher.limit, publisher.offered(self._now)) - publisher.sent
        if messages > 0:
            publisher.sent += messages
            time = self._now + publisher.spec.round_trip / 2
            self._at(time, partial(self._arrive, publisher, messages))
        if publisher.spec.rate is not None and publisher.sent < publisher.limit:
            self._at(self._now + 1 / publisher.spec.rate, partial(self._send, publisher))

    def _arrive(self, publisher: Publisher, messages: int) -> None:
        publisher.received += messages
        self.unconfirmed += messages
        self.unconfirmed_max = max(self.unconfirmed_max, self.unconfirmed)
        self.history.append((self._now, self.unconfirmed))
        self._waiting.append(_Work(publisher, messages, self._now))
        if not self._working:
            self._work()
        self._grant(self.policy.received(publisher, messages, self._now))

    def _work(self) -> None:
        rate = self.scenario.queue.rate(self._now)
        most = left = max(1, int(rate * WORK_SECONDS))
        taken: list[_Work] = []
        while self._waiting and left:
            first = self._waiting[0]
            messages = min(first.messages, left)
            taken.append(_Work(first.publisher, messages, first.came_at))
            left -= messages
            first.messages -= messages
            if not first.messages:
                self._waiting.popleft()
        self._working = True
        self._at(self._now + (most - left) / rate, partial(self._work_done, taken))

    def _work_done(self, work: list[_Work]) -> None:
        self._working = False
        if self.scenario.queue.sync(self._now):
            self._worked += work
            if not self._syncing:
                self._sync()
        else:
            self._confirm(work)
        if self._waiting and not self._working:
            self._work()

    def _sync(self) -> None:
        work, self._worked = self._worked, []
        self._syncing = True
        self._at(self._now + self.scenario.queue.sync(self._now), partial(self._synced, work))

    def _synced(self, work: list[_Work]) -> None:
        self._syncing = False
        self._confirm(work)
        if self._worked:
            self._sync()

    def _confirm(self, work: list[_Work]) -> None:
        for done in work:
            done.publisher.confirmed += done.messages
            self.unconfirmed -= done.messages
            age = self._now - done.came_at
            self.confirms.append(Confirm(self._now, done.publisher.number, done.messages, age))
        self.history.append((self._now, self.unconfirmed))
        told = [(done.publisher, done.messages, self._now - done.came_at) for done in work]
        self._grant(self.policy.confirmed(told, self._now))
