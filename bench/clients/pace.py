"""When a publisher of another project's client sends, and what became of its messages.

The limits are the plan's: time, messages, offered rate, unsettled messages. At an offered rate the n-th message is
intended at start + n / rate, where publishers start one after the other, and carries that time even if it is sent
later.
"""

from __future__ import annotations

import math

from hdrh.histogram import HdrHistogram

from amqp10.load.plan import PlannedTraffic

TURN_MESSAGES = 20
"""How many messages a publisher sends before the loop looks at its socket again. They are few, because a client in
Python takes some 50 µs for each, and deliveries wait meanwhile."""


class Pace:
    """One publisher's count of messages."""

    def __init__(self, publisher: int, traffic: PlannedTraffic) -> None:
        self.publisher = publisher
        self.sent = 0
        self.refused = 0
        self.confirmed = 0
        self.last_progress_ns = 0
        self.latency: HdrHistogram | None = None
        """Not measured: the time of an outcome is the client's."""
        self._traffic = traffic
        self._start_ns = -1
        self._stopped = False

    def start(self, now_ns: int) -> None:
        self.last_progress_ns = now_ns
        self._start_ns = now_ns + self._traffic.lead_ns(self.publisher)

    @property
    def finished(self) -> bool:
        """Whether everything is sent, and has an outcome where the broker gives one."""
        return self._stopped and (self._traffic.settled or self.confirmed >= self.sent)

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome, or outcomes without a message. Anything but 0 is a fault."""
        return 0 if self._traffic.settled else abs(self.sent - self.confirmed)

    def outcome(self, count: int, *, accepted: bool, now_ns: int) -> None:
        """Note the broker's outcome of this many messages."""
        self.confirmed += count
        self.refused += 0 if accepted else count
        self.last_progress_ns = now_ns

    def due(self, now_ns: int, room: int = TURN_MESSAGES) -> range:
        """The sequence numbers to send now, at most `room` of them; they count as sent."""
        traffic = self._traffic
        if self._stopped or self._start_ns < 0:
            return range(0)
        over = not traffic.rate and now_ns >= self._start_ns + int(traffic.seconds * 1e9)
        if over or self.sent >= traffic.messages_max:
            self._stopped = True
            return range(0)
        count = min(room, TURN_MESSAGES, traffic.messages_max - self.sent)
        if traffic.in_flight and not traffic.settled:
            count = min(count, traffic.in_flight - (self.sent - self.confirmed))
        if traffic.rate:
            count = min(count, math.floor((now_ns - self._start_ns) * traffic.rate / 1e9) + 1 - self.sent)
        first = self.sent
        self.sent += max(0, count)
        if count > 0:
            self.last_progress_ns = now_ns
        return range(first, self.sent)

    def intended_ns(self, sequence: int) -> int:
        """The intended send time of a message; 0 without an offered rate."""
        return self._start_ns + int(sequence * 1e9 / self._traffic.rate) if self._traffic.rate else 0

    def wait_seconds(self, now_ns: int, longest: float) -> float:
        """How long the loop may wait for its socket, `longest` when nothing of ours is due before."""
        if self._stopped or self._start_ns < 0 or not self._traffic.rate:
            return longest
        return min(longest, max(0, self.intended_ns(self.sent) - now_ns) / 1e9)
