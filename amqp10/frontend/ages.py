"""How long consumers have held their oldest unsettled deliveries, without a record for each delivery.

Delivery-ids of a session count up. From time to time a note records the next delivery-id; an unsettled delivery was
sent before the first note whose number is above its id. An age is exact to the distance between two notes, and for old
deliveries to the share that :mod:`core.waiting.times` says.
"""

from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from core.waiting.times import Times


class Ages:
    """Ages of one session's deliveries to consumers while some are unsettled. Times are monotonic seconds."""

    __slots__ = ("_below", "times")

    def __init__(self) -> None:
        self.times = Times()
        """When deliveries were first seen to have been sent."""
        self._below = 0
        """The next delivery-id at the last note."""

    def note(self, session: Session, now: float) -> None:
        """Record how far the delivery-ids have come."""
        below = session.next_delivery_id
        if below > self._below:
            self.times.mark(self._below, now)
            self._below = below

    def oldest(self, session: Session, now: float) -> dict[SenderLink, float]:
        """How long each link has held its oldest unsettled delivery, in seconds."""
        ages: dict[SenderLink, float] = {}
        for record in session.outgoing.ranges():
            if record.owner not in ages:
                age = self.times.age(record.first, now) if record.first < self._below else None
                ages[record.owner] = age or 0.0
        return ages
