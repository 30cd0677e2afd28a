"""What one flow of the soak has sent, and what must still come: numbers that are open until they are settled.

A :class:`Book` holds only the open numbers, so it stays small however long the soak runs. Several threads write to it.

The rules are these. A number is delivered only while it is open. A number that was seen before comes only with the mark
of a redelivery. Numbers that were not seen before come in rising order. A number that was settled on a connection that
was cut may come once more, with the mark.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

FINDINGS_MAX = 20
"""How many faults of each flow are kept; all are counted."""


@dataclass(slots=True)
class Book:
    """The numbers of one flow. Any thread may read the counters."""

    name: str
    in_order: bool = True
    """False where several consumers share the numbers."""
    sent: int = 0
    confirmed: int = 0
    delivered: int = 0
    redelivered: int = 0
    settled: int = 0
    faults: int = 0
    findings: list[str] = field(default_factory=list)
    _next: int = 0
    _highest: int = -1
    _open: set[int] = field(default_factory=set)
    _seen: set[int] = field(default_factory=set)
    _forgiven: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def open(self) -> int:
        """Numbers that were sent and are not settled."""
        return len(self._open)

    def issue(self, n: int) -> range:
        """Open the next numbers, which are about to be sent."""
        with self._lock:
            numbers = range(self._next, self._next + n)
            self._next += n
            self._open.update(numbers)
            self.sent += n
        return numbers

    def expect(self, number: int) -> None:
        """Open a number of another flow that is about to come here, as a dead letter for example."""
        with self._lock:
            self._open.add(number)
            self.sent += 1

    def deliver(self, number: int, *, again: bool) -> None:
        """Note that a consumer got this number, with or without the mark of a redelivery."""
        with self._lock:
            self.delivered += 1
            self.redelivered += again
            if number not in self._open:
                if not (again and number in self._forgiven):
                    self._fault(f"{number} came twice, or was never sent")
                self._forgiven.discard(number)
                return
            if number in self._seen:
                if not again:
                    self._fault(f"{number} came again without the mark of a redelivery")
                return
            if self.in_order and number < self._highest:
                self._fault(f"{number} came after {self._highest}")
            self._seen.add(number)
            self._highest = max(self._highest, number)

    def settle(self, number: int) -> None:
        """Note that a consumer has settled this number."""
        with self._lock:
            if number in self._open:
                self._open.remove(number)
                self._seen.discard(number)
                self.settled += 1

    def cut(self, numbers: Iterable[int]) -> None:
        """Note that the connection on which these numbers were settled was cut. The broker may not have got the
        settlements."""
        with self._lock:
            self._forgiven = set(numbers)

    def refused(self, what: str) -> None:
        """Note that the broker refused what it should take."""
        with self._lock:
            self._fault(what)

    def close(self) -> None:
        """Note that no more numbers come: the open ones are lost."""
        with self._lock:
            if self._open:
                self._fault(f"{len(self._open)} lost, the first of them {min(self._open)}", len(self._open))

    def _fault(self, what: str, n: int = 1) -> None:
        self.faults += n
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(what)
