"""One connection of a load process after its session has begun: at most one sending and one receiving link.

It keeps the session's numbers [2.5.6]: a publisher never sends beyond the broker's incoming-window, and every flow that
we send has our numbers. Our own window is practically unlimited, because link credit is what is measured. When the
broker detaches a link, ends the session or closes the connection, `WireError` is raised with the broker's reason.

Sans-IO: bytes in (`receive_data`), bytes out (`output`), and the time is handed in.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bench.load import wire
from bench.load.consumer import Consumer
from bench.load.plan import Application, Traffic
from bench.load.publisher import Publisher
from bench.load.wire import SERIAL_MASK, Frame, WireError, serial_difference

INCOMING_WINDOW = 2**31 - 1
"""Our window, sent in every flow: the largest for which serial arithmetic is defined, so never the limit."""
OUTGOING_WINDOW = 2**32 - 1

_CLOSING = {
    wire.DETACH: "detached a link",
    wire.END: "ended the session",
    wire.CLOSE: "closed the connection",
}
_ERROR_FIELD = {wire.DETACH: 2, wire.END: 0, wire.CLOSE: 0}


@dataclass(frozen=True, slots=True)
class Session:
    """The broker's values from open and begin, and the channel on which it sends."""

    max_frame_size: int
    next_incoming_id: int
    remote_incoming_window: int
    remote_channel: int = 0


def closing_reason(frame: Frame) -> str:
    """Why the broker ended a link, session or connection: its own text."""
    error = frame.field(_ERROR_FIELD[frame.code])
    reason = "without a reason"
    if isinstance(error, wire.Described) and isinstance(error.value, list):
        reason = ": ".join(str(part) for part in error.value if part)
    return f"the broker {_CLOSING[frame.code]}: {reason}"


def attach(handle: int, address: str, *, role: bool, settled: bool, channel: int = 0) -> bytes:
    """The attach of a link that sends to or receives from `address` [2.7.3]."""
    sending = role is wire.ROLE_SENDER
    node = wire.string(address)
    fields = [
        wire.string(f"{'to' if sending else 'from'} {address}"),
        wire.uint(handle),
        wire.boolean(role),
        wire.ubyte(wire.SETTLE_MODE_SETTLED if settled else wire.SETTLE_MODE_UNSETTLED),
        wire.ubyte(0),  # rcv-settle-mode first
        wire.composite(wire.SOURCE) if sending else wire.composite(wire.SOURCE, node),
        wire.composite(wire.TARGET, node) if sending else wire.composite(wire.TARGET),
    ]
    if sending:
        fields += [wire.NULL, wire.NULL, wire.uint(0)]  # initial-delivery-count
    return wire.frame(wire.composite(wire.ATTACH, *fields), channel=channel)


def queue_address(queue: str) -> str:
    """The v2 address of a queue whose name needs no percent-encoding."""
    return f"/queues/{queue}"


class Endpoint:
    """The session and its links. On another channel than 0 it only publishes."""

    keep_alive = wire.EMPTY_FRAME

    def __init__(self, application: Application, traffic: Traffic, session: Session, *, channel: int = 0) -> None:
        assert not (channel and application.consume_from)
        self._channel = channel
        self.publisher: Publisher | None = None
        self.consumer: Consumer | None = None
        self._bulk = traffic.shape == "bulk"
        self._next_incoming_id = session.next_incoming_id
        self._next_outgoing_id = 0
        self._window = session.remote_incoming_window
        self._rest = b""
        self._control: list[bytes] = []
        self._unanswered = 0
        self._consumer_handle = 1 if application.publish_to else 0
        self._publishing_remote_handle = -1
        if application.publish_to:
            self.publisher = Publisher(
                application.publisher, traffic, session.max_frame_size, batch=application.batch, channel=channel
            )
            address = queue_address(application.publish_to)
            self._attach(attach(0, address, role=wire.ROLE_SENDER, settled=traffic.settled, channel=channel))
        if application.consume_from:
            self.consumer = Consumer(traffic, application.link_credit)
            address = queue_address(application.consume_from)
            handle = self._consumer_handle
            self._attach(attach(handle, address, role=wire.ROLE_RECEIVER, settled=traffic.settled))

    def _attach(self, frame: bytes) -> None:
        self._control.append(frame)
        self._unanswered += 1

    @property
    def attached(self) -> bool:
        return self._unanswered == 0

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        if self.publisher:
            self.publisher.start(now_ns)
        if self.consumer:
            self.consumer.start(now_ns)

    # What the broker sends

    def receive_data(self, data: bytes, now_ns: int) -> None:
        """Take the bytes of one read; an incomplete frame waits for the next read."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 8:
            size: int = struct.unpack_from(">I", data, at)[0]
            if at + size > end:
                break
            body = at + 4 * data[at + 4]
            if self.consumer and data[body : body + 3] == b"\x00\x53\x14":
                at = self._transfers(self.consumer, data, at, now_ns)
                continue
            frame = wire.decode_frame(data, at, size)
            at += size
            if frame is not None:
                self._frame_received(frame, now_ns)
        self._rest = data[at:]

    def _transfers(self, consumer: Consumer, data: bytes, at: int, now_ns: int) -> int:
        before = consumer.frames
        at = consumer.transfers(data, at, now_ns)
        self._next_incoming_id = (self._next_incoming_id + consumer.frames - before) & SERIAL_MASK
        return at

    def _frame_received(self, frame: Frame, now_ns: int) -> None:
        if frame.code == wire.DISPOSITION:
            self._disposition_received(frame, now_ns)
        elif frame.code == wire.FLOW:
            self._flow_received(frame)
        elif frame.code == wire.ATTACH:
            self._attach_received(frame)
        elif frame.code in _CLOSING:
            raise WireError(closing_reason(frame))
        else:
            raise WireError(f"a frame with performative 0x{frame.code:02x} was not expected")

    def _attach_received(self, frame: Frame) -> None:
        self._unanswered -= 1
        if frame.field(2) is wire.ROLE_RECEIVER:
            self._publishing_remote_handle = frame.number(1)
        elif self.consumer:
            self.consumer.delivery_count = frame.number(9)

    def _disposition_received(self, frame: Frame, now_ns: int) -> None:
        if frame.field(0) is not wire.ROLE_RECEIVER or self.publisher is None or frame.field(3) is not True:
            return
        first = frame.number(1)
        state = frame.field(4)
        accepted = isinstance(state, wire.Described) and state.descriptor == wire.ACCEPTED
        self.publisher.settled(first, frame.number(2, first), accepted=accepted, now_ns=now_ns)

    def _flow_received(self, frame: Frame) -> None:
        limit = frame.number(0) + frame.number(1)
        self._window = max(0, serial_difference(limit & SERIAL_MASK, self._next_outgoing_id))
        for_publisher = self.publisher is not None and frame.field(4) == self._publishing_remote_handle
        if self.publisher and for_publisher and frame.field(6) is not None:
            delivery_count = frame.field(5)
            seen = delivery_count if isinstance(delivery_count, int) else None
            self.publisher.flow_received(seen, frame.number(6))
        if frame.field(9) is True:
            self._control.append(self._echo(for_publisher=for_publisher, of_session=frame.field(4) is None))

    # What we send

    def _flow(self, *link_fields: bytes) -> bytes:
        session_fields = map(
            wire.uint, (self._next_incoming_id, INCOMING_WINDOW, self._next_outgoing_id, OUTGOING_WINDOW)
        )
        return wire.frame(wire.composite(wire.FLOW, *session_fields, *link_fields), channel=self._channel)

    def _echo(self, *, for_publisher: bool, of_session: bool) -> bytes:
        """The flow that answers a flow with echo set [2.7.4]."""
        if of_session:
            return self._flow()
        if for_publisher and self.publisher:
            return self._flow(wire.uint(0), wire.uint(self.publisher.sent), wire.uint(self.publisher.link_credit))
        if self.consumer is None:
            return self._flow()
        return self._link_credit_flow(self.consumer, self.consumer.link_credit)

    def _link_credit_flow(self, consumer: Consumer, link_credit: int) -> bytes:
        return self._flow(wire.uint(self._consumer_handle), wire.uint(consumer.delivery_count), wire.uint(link_credit))

    def output(self, now_ns: int) -> list[bytes | memoryview]:
        """The bytes to write now, one item per system call; the items are valid until the next call."""
        pieces, self._control = self._control, []
        if self.consumer:
            pieces += self.consumer.output()
            if (link_credit := self.consumer.top_up()) is not None:
                pieces.append(self._link_credit_flow(self.consumer, link_credit))
        written: list[bytes | memoryview] = [b"".join(pieces)] if self._bulk and pieces else [*pieces]
        if self.publisher:
            burst, frames = self.publisher.burst(self._window, now_ns)
            self._window -= frames
            self._next_outgoing_id = (self._next_outgoing_id + frames) & SERIAL_MASK
            written += burst
        return written

    def ready_to_publish(self, now_ns: int) -> bool:
        return self.publisher is not None and self.publisher.ready(self._window, now_ns) > 0

    def wake_ns(self) -> int | None:
        """When `output` must be called again although no input has arrived."""
        return self.publisher.wake_ns(self._window) if self.publisher else None
