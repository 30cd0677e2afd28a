"""Several sessions on one AMQP 1.0 connection, each with its own endpoint: they share only the socket.

So a link without link credit, or a session whose window is used up, never holds up other sessions. Sans-IO, and used
like the one endpoint of an ordinary connection.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from amqp10.load import wire
from amqp10.load.endpoint import BegunSession, SessionEndpoint
from amqp10.load.plan import Application, PlannedTraffic


class Sessions:
    """The endpoints of a connection, one or more, by the broker's channels."""

    keep_alive = wire.EMPTY_FRAME

    def __init__(
        self, groups: Sequence[Sequence[Application]], traffic: PlannedTraffic, sessions: Sequence[BegunSession]
    ) -> None:
        self._endpoints = {
            session.remote_channel: SessionEndpoint(group, traffic, session, channel=channel)
            for channel, (group, session) in enumerate(zip(groups, sessions, strict=True))
        }
        self._rest = b""
        self._only = next(iter(self._endpoints.values()))
        endpoints = self._endpoints.values()
        self.publishers = [publisher for one in endpoints for publisher in one.publishers]
        self.consumers = [consumer for one in endpoints for consumer in one.consumers]

    @property
    def attached(self) -> bool:
        return all(one.attached for one in self._endpoints.values())

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        for one in self._endpoints.values():
            one.start(now_ns)

    def receive_data(self, data: bytes, now_ns: int) -> None:
        """Pass each endpoint its frames; an incomplete frame waits for the next read."""
        if len(self._endpoints) == 1:
            self._only.receive_data(data, now_ns)
            return
        if self._rest:
            data = self._rest + data
        at, end, begin, current = 0, len(data), 0, 0
        while end - at >= 8:
            size, channel = struct.unpack_from(">I2xH", data, at)
            if at + size > end:
                break
            if channel != current:
                self._give(current, data[begin:at], now_ns)
                begin, current = at, channel
            at += size
        self._give(current, data[begin:at], now_ns)
        self._rest = data[at:]

    def _give(self, channel: int, frames: bytes, now_ns: int) -> None:
        if not frames:
            return
        if channel not in self._endpoints:
            raise wire.WireError(f"the broker sent a frame on channel {channel}, where it has no session")
        self._endpoints[channel].receive_data(frames, now_ns)

    def output(self, now_ns: int) -> list[bytes | memoryview]:
        """The bytes to write now, in turns of one burst; the items are valid until the next call."""
        return [piece for one in self._endpoints.values() for piece in one.output(now_ns)]

    def ready_to_publish(self, now_ns: int) -> bool:
        return any(one.ready_to_publish(now_ns) for one in self._endpoints.values())

    def held_up(self, now_ns: int, *, socket: bool) -> list[str]:
        """What holds up each publisher that has a message to send."""
        return [why for one in self._endpoints.values() for why in one.held_up(now_ns, socket=socket)]

    def wake_ns(self) -> int | None:
        """When `output` must be called again although no input has arrived."""
        return min((time for one in self._endpoints.values() if (time := one.wake_ns()) is not None), default=None)
