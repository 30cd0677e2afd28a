"""What publishers and consumers saw of a cluster with real faults, and the verdict on it.

Messages are texts ``queue:publisher:life:number``. Each life of a publisher is one connection, and numbers its messages
upwards. Clients in several threads note what they see.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from time import monotonic


@dataclass(slots=True)
class Verdict:
    """What is lost, unexpected, unflagged or reordered must be empty."""

    lost: list[str] = field(default_factory=list)
    """Confirmed, and no consumer has ever got them."""
    unexpected: list[str] = field(default_factory=list)
    """Never published, or answered as never taken on, and a consumer has got them."""
    answers: list[str] = field(default_factory=list)
    """The answers that the unexpected ones had got."""
    unflagged: list[str] = field(default_factory=list)
    """Delivered more than once without the flag of a redelivery."""
    reordered: list[str] = field(default_factory=list)
    """First delivered after a later message of their publisher."""
    confirmed: int = 0
    refused: int = 0
    uncertain: int = 0
    """Answered as perhaps taken on: modified with delivery-failed, or basic.nack, which AMQP 0.9.1 has for both."""
    unanswered: int = 0
    delivered: int = 0
    again: int = 0
    """Deliveries after the first one, with the flag."""

    @property
    def broken(self) -> bool:
        """Whether a promise was not kept."""
        return bool(self.lost or self.unexpected or self.unflagged or self.reordered)

    def __str__(self) -> str:
        counts = (f"{name} {len(getattr(self, name))}" for name in ("lost", "unexpected", "unflagged", "reordered"))
        others = (
            f"{name} {getattr(self, name):,}"
            for name in ("confirmed", "refused", "uncertain", "unanswered", "delivered")
        )
        return ", ".join((*counts, *others, f"again {self.again:,}"))


class History:
    """Everything that clients saw."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sent: set[str] = set()
        self._confirmed: set[str] = set()
        self._refused: dict[str, str] = {}
        """With the broker's answer."""
        self._uncertain: set[str] = set()
        self._unflagged: Counter[str] = Counter()
        self._delivered: dict[str, None] = {}
        """In the order of the first delivery."""
        self._deliveries = 0
        self._times: defaultdict[str, list[float]] = defaultdict(list)

    # --- clients

    def sent(self, message: str) -> None:
        """A publisher is about to send it."""
        with self._lock:
            self._sent.add(message)

    def confirmed(self, messages: Iterable[str]) -> None:
        """The broker has accepted them."""
        now = monotonic()
        with self._lock:
            for message in messages:
                self._confirmed.add(message)
                self._times[queue_of(message)].append(now)

    def refused(self, messages: Iterable[str], why: str = "") -> None:
        """The broker has answered that it did not take them on."""
        with self._lock:
            self._refused.update(dict.fromkeys(messages, why))

    def uncertain(self, messages: Iterable[str]) -> None:
        """The broker has answered that it does not answer for them: they may be there."""
        with self._lock:
            self._uncertain.update(messages)

    def delivered(self, message: str, *, redelivered: bool) -> None:
        """A consumer has got it."""
        with self._lock:
            self._deliveries += 1
            self._delivered.setdefault(message)
            if not redelivered:
                self._unflagged[message] += 1

    # --- what the rounds ask

    def confirmed_since(self, queue: str, when: float) -> int:
        """How many messages of a queue were confirmed from then on."""
        with self._lock:
            times = self._times[queue]
            return len(times) - bisect_left(times, when)

    def longest_gap(self, queue: str, begin: float, end: float) -> float:
        """The longest time without a confirmation between two times."""
        with self._lock:
            times = self._times[queue]
            inside = times[bisect_left(times, begin) : bisect_right(times, end)]
        return max(later - earlier for earlier, later in pairwise([begin, *inside, end]))

    def missing(self, queues: Iterable[str]) -> int:
        """How many confirmed messages of these queues no consumer has got yet."""
        names = set(queues)
        with self._lock:
            return sum(one not in self._delivered for one in self._confirmed if queue_of(one) in names)

    def verdict(self) -> Verdict:
        """Compare everything. All queues must have been read to their end."""
        with self._lock:
            return Verdict(
                lost=sorted(self._confirmed.difference(self._delivered)),
                unexpected=sorted(
                    (self._delivered.keys() - self._sent) | (self._refused.keys() & self._delivered.keys())
                ),
                answers=sorted({self._refused[one] for one in self._refused.keys() & self._delivered.keys()}),
                unflagged=sorted(message for message, count in self._unflagged.items() if count > 1),
                reordered=list(_falls(self._delivered)),
                confirmed=len(self._confirmed),
                refused=len(self._refused),
                uncertain=len(self._uncertain),
                unanswered=len(self._sent - self._confirmed - self._refused.keys() - self._uncertain),
                delivered=len(self._delivered),
                again=self._deliveries - len(self._delivered),
            )


def queue_of(message: str) -> str:
    """The queue of a message."""
    return message.partition(":")[0]


def _falls(messages: Iterable[str]) -> Iterable[str]:
    highest: dict[str, int] = {}
    for message in messages:
        life, _, number = message.rpartition(":")
        if int(number) < highest.get(life, -1):
            yield message
        highest[life] = max(highest.get(life, -1), int(number))
