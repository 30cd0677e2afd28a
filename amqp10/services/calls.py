"""Messages in flight: calls until they are answered, casts and answers until the broker has accepted them. Sans-IO.

Each entry ends exactly once: by its answer, by acceptance, by an error, or at its deadline. One table holds the entries
by identity, and one heap their deadlines; an entry has no task and no event object. An entry that has ended leaves its
deadline in the heap until that comes up, or until such leftovers are the greater part of the heap. The heap holds
identities and not entries, because an entry refers to a request with its message: a thousand of these kept the garbage
collector busy for an eighth of a host's time.

Bound: ``in_flight_max`` entries of calls and casts. Answers are bounded by the requests that they answer.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from amqp10.services.errors import Busy, CallTimedOut, NotSent, ServiceError, Unroutable

HEAP_SLACK = 1000
"""Leftovers in the heap that do not cause a clean-up."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a call ended: with a body, or with an error."""

    body: object
    error: ServiceError | None = None

    def get(self) -> object:
        """The body. Raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.body


class CallStage(Enum):
    """How far an entry in flight has got."""

    WAITING = "waiting"
    """It is in the outbox."""
    SENT = "sent"
    """It was given to the link; the broker has not reported an outcome."""
    ACCEPTED = "accepted"
    """The broker has accepted it."""
    OVER = "over"


class InFlight:
    """One call, cast or answer. ``on_end`` is called once, with a value or an error."""

    __slots__ = ("answered", "deadline", "encoded", "identity", "on_end", "resent", "stage", "target", "uncertain",
        "unroutable")  # fmt: skip

    def __init__(
        self,
        identity: bytes,
        target: str,
        encoded: bytes,
        *,
        deadline: float,
        answered: bool,
        on_end: Callable[[object, ServiceError | None], None],
    ) -> None:
        self.identity = identity
        self.target = target
        """The address to which it is sent."""
        self.encoded = encoded
        self.deadline = deadline
        self.answered = answered
        """True if it ends with an answer, False if it ends when the broker has accepted it."""
        self.on_end = on_end
        self.stage = CallStage.WAITING
        self.resent = False
        """It carries the mark that it may have been delivered before."""
        self.uncertain = False
        """It was sent once without an outcome."""
        self.unroutable = False
        """No queue took it at the last attempt."""


class CallTable:
    """All entries in flight. Times are seconds of one monotonic clock."""

    __slots__ = ("_entries", "_heap", "_in_flight_max")

    def __init__(self, *, in_flight_max: int) -> None:
        self._in_flight_max = in_flight_max
        self._entries: dict[bytes, InFlight] = {}
        self._heap: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def check_room(self) -> None:
        """Raise Busy when there is no room for another entry."""
        if len(self._entries) >= self._in_flight_max:
            raise Busy(
                f"{len(self._entries)} calls are in flight, and in_flight_max allows {self._in_flight_max}: "
                f"wait for some, or allow more"
            )

    def begin(self, entry: InFlight) -> bool:
        """Add an entry. True when its deadline is the earliest of all."""
        if entry.identity in self._entries:
            raise ValueError(f"{entry.identity!r} is in flight already")
        self._entries[entry.identity] = entry
        mark = (entry.deadline, entry.identity)
        heapq.heappush(self._heap, mark)
        if len(self._heap) > 2 * len(self._entries) + HEAP_SLACK:
            self._heap = [(kept.deadline, kept.identity) for kept in self._entries.values()]
            heapq.heapify(self._heap)
        return self._heap[0] == mark

    def answer(self, identity: bytes, body: object, error: ServiceError | None = None) -> bool:
        """An answer came. False when no call waits for it: it is late, or came twice."""
        entry = self._entries.get(identity)
        if entry is None or not entry.answered:
            return False
        self.end(entry, body, error)
        return True

    def end(self, entry: InFlight, body: object, error: ServiceError | None = None) -> None:
        """End an entry with a body or an error. An entry that is over stays as it is."""
        if entry.stage is CallStage.OVER:
            return
        entry.stage = CallStage.OVER
        del self._entries[entry.identity]
        entry.on_end(body, error)

    def withdraw(self, entry: InFlight) -> None:
        """Drop an entry whose caller has stopped waiting; an entry that is still in the outbox is not sent."""
        if entry.stage is not CallStage.OVER:
            entry.stage = CallStage.OVER
            del self._entries[entry.identity]

    def next_deadline(self) -> float | None:
        """The time at which to call :meth:`expire`; None for never."""
        while self._heap:
            deadline, identity = self._heap[0]
            entry = self._entries.get(identity)
            if entry is not None and entry.deadline == deadline:
                return deadline
            heapq.heappop(self._heap)
        return None

    def expire(self, now: float, reason_of: Callable[[str], str | None]) -> int:
        """End the entries whose deadline has passed. Returns how many there were.

        ``reason_of`` returns why the broker makes messages to an address wait, or None.
        """
        count = 0
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            entry = self._entries[heapq.heappop(self._heap)[1]]
            self.end(entry, None, _timed_out(entry, reason_of(entry.target)))
            count += 1
        return count

    def end_all(self, error_of: Callable[[InFlight], ServiceError]) -> None:
        """End all entries with an error each; no answer and no outcome can come any more."""
        for entry in list(self._entries.values()):
            self.end(entry, None, error_of(entry))
        self._heap.clear()

    def waiting_for_answers(self) -> int:
        """Calls whose answer has not come."""
        return sum(entry.answered for entry in self._entries.values())


def _timed_out(entry: InFlight, reason: str | None) -> ServiceError:
    if entry.stage is CallStage.WAITING and entry.unroutable and not entry.uncertain:
        return Unroutable(f"no queue has taken messages to {entry.target} in time")
    if entry.stage is CallStage.WAITING and not entry.uncertain:
        why = "the broker has not said why" if reason is None else f"the broker says {reason}"
        return NotSent(f"there was no link credit for {entry.target} in time; {why}", reason)
    if entry.stage is not CallStage.ACCEPTED:
        return CallTimedOut(f"the broker has not said in time whether it took the message to {entry.target}")
    return CallTimedOut(f"{entry.target} has not answered in time")
