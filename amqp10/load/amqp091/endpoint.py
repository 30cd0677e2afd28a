"""One AMQP 0.9.1 connection of a load process: applications with a channel for publishing and one for consuming each.

It replaces `amqp10.load.endpoint.SessionEndpoint` in the loop. Where several publishers share the connection, or a
consumer uses it too, they take turns at the socket in short bursts, like threads or goroutines that share a connection:
bytes that wait for the socket, because the broker does not read, hold all of them up. When the broker closes a channel
or the connection, `WireError` is raised with the broker's reason.

Sans-IO: bytes in (`receive_data`), bytes out (`output`), and the time is handed in.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.consumer import ChannelConsumer
from amqp10.load.amqp091.publisher import ChannelPublisher
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.wire import WireError

TURN_MESSAGES: Final = 100
"""Messages of one publisher before the next one's turn: what a goroutine writes in about 1 ms while it holds a
mutex."""
_ACK, _DELIVER = (struct.pack(">HH", *ids) for ids in (wire.BASIC_ACK, wire.BASIC_DELIVER))
_IDS_AT = wire.FRAME_HEAD.size
_EXPECTED = {wire.BASIC_CONSUME_OK}


def channels(number: int) -> tuple[int, int]:
    """The channels of the n-th application: for publishing, and for consuming."""
    return 2 * number + 1, 2 * number + 2


class ChannelsEndpoint:
    """The channels of the connection, all of them open."""

    attached = True
    keep_alive = wire.HEARTBEAT

    def __init__(self, applications: Sequence[Application], traffic: PlannedTraffic, frame_max: int) -> None:
        busy = sum(one.publishes + bool(one.consume_from) for one in applications)
        self._publishing: dict[int, ChannelPublisher] = {}
        self._consuming: dict[int, ChannelConsumer] = {}
        for number, one in enumerate(applications):
            publishing, consuming = channels(number)
            if one.publishes:
                self._publishing[publishing] = ChannelPublisher(
                    one, traffic, channel=publishing, frame_max=frame_max, burst_max=TURN_MESSAGES if busy > 1 else 0
                )
            if one.consume_from:
                self._consuming[consuming] = ChannelConsumer(
                    traffic, channel=consuming, queue=one.consume_from, prefetch_count=one.link_credit
                )
        self.publishers = list(self._publishing.values())
        self.consumers = list(self._consuming.values())
        self._rest = b""
        self._blocked = False
        """Whether the broker has sent connection.blocked: it reads no more."""

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        for publisher in self.publishers:
            publisher.start(now_ns)
        for consumer in self.consumers:
            consumer.start(now_ns)

    # What the broker sends

    def receive_data(self, data: bytes, now_ns: int) -> None:
        """Take the bytes of one read; an incomplete frame or delivery waits for the next read."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= wire.FRAME_EXTRA:
            kind, channel, size = wire.FRAME_HEAD.unpack_from(data, at)
            if at + wire.FRAME_EXTRA + size > end:
                break
            ids = data[at + _IDS_AT : at + _IDS_AT + 4] if kind == wire.METHOD_FRAME else b""
            before = at
            if ids == _DELIVER and channel in self._consuming:
                at = self._consuming[channel].deliveries(data, at, now_ns)
            elif ids == _ACK and channel in self._publishing:
                at = self._publishing[channel].acks(data, at, now_ns)
            elif (found := wire.frame_at(data, at)) is not None:
                self._frame_received(found[0])
                at = found[1]
            if at == before:
                break
        self._rest = data[at:]

    def _frame_received(self, frame: wire.ChannelFrame) -> None:
        if frame.method in (wire.CHANNEL_CLOSE, wire.CONNECTION_CLOSE):
            raise WireError(wire.closing_reason(frame))
        if frame.method == wire.BASIC_NACK and frame.channel in self._publishing:
            number, flags = struct.unpack_from(">QB", frame.payload, 4)
            self._publishing[frame.channel].nack(number, multiple=bool(flags & 1))
        elif frame.method in (wire.CONNECTION_BLOCKED, wire.CONNECTION_UNBLOCKED):
            self._blocked = frame.method == wire.CONNECTION_BLOCKED
        elif frame.kind != wire.HEARTBEAT_FRAME and frame.method not in _EXPECTED:
            raise WireError(f"a frame of type {frame.kind} with method {frame.method} was not expected")

    # What we send

    def output(self, now_ns: int) -> list[bytes | memoryview]:
        """The bytes to write now, one item per system call; the items are valid until the next call."""
        pieces: list[bytes | memoryview] = []
        for consumer in self.consumers:
            pieces += consumer.output()
        for publisher in self.publishers:
            pieces += publisher.burst(now_ns)
        return pieces

    def ready_to_publish(self, now_ns: int) -> bool:
        return any(publisher.ready(now_ns) for publisher in self.publishers)

    def held_up(self, now_ns: int, *, socket: bool) -> list[str]:
        """What holds up each publisher that has a message to send. ``socket``: it takes no bytes, because the broker
        does not read, or the network is slow."""
        if socket:
            what = "connection.blocked" if self._blocked else "socket"
            return [what for publisher in self.publishers if publisher.wants_to_send]
        return [why for publisher in self.publishers if (why := publisher.held_up(now_ns)) is not None]

    def wake_ns(self) -> int | None:
        """When `output` must be called again although no input has arrived."""
        times = [time for publisher in self.publishers if (time := publisher.wake_ns()) is not None]
        return min(times, default=None)
