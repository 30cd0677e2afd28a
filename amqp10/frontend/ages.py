"""How long consumers have held what they have not settled, without a note for each delivery.

Delivery-ids of a session count up. Now and then it is noted how far they have come; what is unsettled was sent before
the first note that is beyond it. An age is right to the distance between two notes.

Bound: :data:`NOTES_MAX` notes. When there are more, every second one goes: what is very old is told less exactly.
"""

from bisect import bisect_right

from amqp10.sender_link import SenderLink
from amqp10.session import Session

NOTES_MAX = 64


class Ages:
    """Of one session's deliveries to consumers, as long as some are unsettled. Times are monotonic seconds."""

    __slots__ = ("_below", "_times")

    def __init__(self) -> None:
        self._below: list[int] = []
        self._times: list[float] = []

    def note(self, session: Session, now: float) -> None:
        """See how far the delivery-ids have come."""
        below = session.next_delivery_id
        if self._below and self._below[-1] == below:
            return
        if len(self._below) >= NOTES_MAX:
            self._below, self._times = self._below[::2], self._times[::2]
        self._below.append(below)
        self._times.append(now)

    def oldest(self, session: Session, now: float) -> dict[SenderLink, float]:
        """How long each link has held the oldest delivery that it has not settled, in seconds."""
        ages: dict[SenderLink, float] = {}
        for record in session.outgoing.ranges():
            if record.owner not in ages:
                place = bisect_right(self._below, record.first)
                ages[record.owner] = max(0.0, now - self._times[place]) if place < len(self._times) else 0.0
        return ages
