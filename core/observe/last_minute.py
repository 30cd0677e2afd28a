"""How long each link and reader has waited in the last minute, by reason.

A stall that lasts milliseconds and comes again thousands of times is seen by hardly anyone who looks at an instant. So
the ledger of stalls (:mod:`core.observe.stalls`) hands in the seconds of all of them, several times a second. They are
added up in parts of :data:`PART_S`; :data:`PARTS` complete parts and the present one are the last minute.

Bounds: ``subjects_max`` links and readers, those that waited first; of each, one line for each reason that it waited
for, with 14 numbers: about 0.5 KiB.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping

from core.flow_facts import StallSubject
from core.interface import FlowReason

PART_S = 5.0
"""Seconds. What is shown covers 60 to 65 seconds, so a share is that of the last minute to one part in twelve."""
PARTS = 12
SUBJECTS_MAX = 10_000
"""Links and readers with seconds of their own: 5 MiB. As many are looked at for a flow map."""
SLICE_SUBJECTS = 256
"""Subjects whose lines are looked at between two pauses: 1 µs for each."""
_SLOTS = PARTS + 2
"""One for each part that is shown, and one that is cleared before the next part begins."""


class WaitedFor:
    """The seconds that one subject has waited for one reason, by part."""

    __slots__ = ("culprit", "parts", "reason", "who")

    def __init__(self, who: StallSubject, reason: FlowReason) -> None:
        self.who = who
        self.reason = reason
        self.culprit = ""
        """What had to change, as it was said last."""
        self.parts = array("d", bytes(8 * _SLOTS))


class LastMinute:
    """The seconds of the last minute. Times are monotonic, in seconds."""

    def __init__(self, now: float, *, subjects_max: int = SUBJECTS_MAX) -> None:
        self._subjects_max = subjects_max
        self._lines: dict[str, dict[FlowReason, WaitedFor]] = {}
        self._part = 0
        self._began = deque([now], maxlen=PARTS + 1)
        """When each part began that is shown, the oldest first."""

    def add(self, who: StallSubject, reason: FlowReason, culprit: str, seconds: float) -> None:
        """Count seconds in the present part. Those of subjects beyond the bound are not counted."""
        lines = self._lines.get(who.identity)
        if lines is None:
            if len(self._lines) >= self._subjects_max:
                return
            lines = self._lines[who.identity] = {}
        line = lines.get(reason)
        if line is None:
            line = lines[reason] = WaitedFor(who, reason)
        line.culprit = culprit
        line.parts[self._part % _SLOTS] += seconds

    def due(self, now: float) -> bool:
        """Whether the present part is over."""
        return now - self._began[-1] >= PART_S

    def begin_part(self, now: float) -> Iterator[None]:
        """Begin the next part, and forget subjects that have not waited in those that are left; yields where other
        tasks may run. Only one at a time."""
        slot = (self._part + 1) % _SLOTS
        for number, (identity, lines) in enumerate(list(self._lines.items()), start=1):
            for line in list(lines.values()):
                line.parts[slot] = 0.0
                if not any(line.parts):
                    del lines[line.reason]
            if not lines:
                del self._lines[identity]
            if number % SLICE_SUBJECTS == 0:
                yield
        self._part += 1
        self._began.append(now)

    # --- for readers -----------------------------------------------------------------------------------------------

    def over(self, now: float) -> float:
        """The seconds that the last minute has: fewer after the start, and a part more than 60 at most."""
        return max(0.0, now - self._began[0])

    @property
    def identities(self) -> Mapping[str, object]:
        """The subjects that have waited in the last minute; those that are gone too."""
        return self._lines

    def of(self, identity: str) -> dict[FlowReason, tuple[str, float]]:
        """The culprit and the seconds by reason; empty for a subject that has not waited."""
        shown = [number % _SLOTS for number in range(max(0, self._part - PARTS), self._part + 1)]
        lines = self._lines.get(identity, {})
        return {line.reason: (line.culprit, sum(line.parts[slot] for slot in shown)) for line in lines.values()}

    def who(self, identity: str) -> StallSubject | None:
        """The subject of this identity, if it has waited."""
        return next((line.who for line in self._lines.get(identity, {}).values()), None)
