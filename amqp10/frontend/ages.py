"""How long consumers have held their oldest unsettled deliveries, without a record for each delivery.

Delivery-ids of a session count up. From time to time a note records the next delivery-id; an unsettled delivery was
sent before the first note whose number is above its id. An age is exact to the distance between two notes.

Bound: :data:`NOTES_MAX` notes. When there are more, every second one is dropped, so the age of very old deliveries gets
less exact.
"""

from bisect import bisect_right

from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session

NOTES_MAX = 64


class Ages:
    """Ages of one session's deliveries to consumers while some are unsettled. Times are monotonic seconds."""

    __slots__ = ("_below", "_times")

    def __init__(self) -> None:
        self._below: list[int] = []
        self._times: list[float] = []

    def note(self, session: Session, now: float) -> None:
        """Record how far the delivery-ids have come."""
        below = session.next_delivery_id
        if self._below and self._below[-1] == below:
            return
        if len(self._below) >= NOTES_MAX:
            self._below, self._times = self._below[::2], self._times[::2]
        self._below.append(below)
        self._times.append(now)

    def oldest(self, session: Session, now: float) -> dict[SenderLink, float]:
        """How long each link has held its oldest unsettled delivery, in seconds."""
        ages: dict[SenderLink, float] = {}
        for record in session.outgoing.ranges():
            if record.owner not in ages:
                place = bisect_right(self._below, record.first)
                ages[record.owner] = max(0.0, now - self._times[place]) if place < len(self._times) else 0.0
        return ages
