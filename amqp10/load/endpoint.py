"""One session of a load process after it has begun: a sending and a receiving link, or many of both.

It keeps the session's numbers [2.5.6]: a publisher never sends beyond the broker's incoming-window, and every flow that
we send has our numbers. Our own window is practically unlimited, because link credit is what is measured. When the
broker detaches a link, ends the session or closes the connection, `WireError` is raised with the broker's reason.

Sans-IO: bytes in (`receive_data`), bytes out (`output`), and the time is handed in.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from amqp10.load import wire
from amqp10.load.consumer import LinkConsumer
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.publisher import LinkPublisher
from amqp10.load.wire import SERIAL_MASK, Amqp10Frame, WireError, serial_difference

INCOMING_WINDOW = 2**31 - 1
"""Our window, sent in every flow: the largest for which serial arithmetic is defined, so never the limit."""
OUTGOING_WINDOW = 2**32 - 1

FRAME_HEADER_BYTES = 8
LARGE_FRAME_BYTES = 32 * 1024
"""What is read behind the rest of a frame of this size is not copied to join the two parts of the frame."""

REASON_PROPERTY = "headgate:reason"
"""The property of a link's flow with which Headgate tells why the link waits, and with null that it does not."""

_CLOSING = {
    wire.DETACH: "detached a link",
    wire.END: "ended the session",
    wire.CLOSE: "closed the connection",
}
_ERROR_FIELD = {wire.DETACH: 2, wire.END: 0, wire.CLOSE: 0}


@dataclass(frozen=True, slots=True)
class BegunSession:
    """The broker's values from open and begin, and the channel on which it sends."""

    max_frame_size: int
    next_incoming_id: int
    remote_incoming_window: int
    remote_channel: int = 0


def closing_reason(frame: Amqp10Frame) -> str:
    """Why the broker ended a link, session or connection: its own text."""
    error = frame.field(_ERROR_FIELD[frame.code])
    reason = "without a reason"
    if isinstance(error, wire.DescribedValue) and isinstance(error.value, list):
        reason = ": ".join(str(part) for part in error.value if part)
    return f"the broker {_CLOSING[frame.code]}: {reason}"


def attach(handle: int, name: str, address: str, *, role: bool, settled: bool, channel: int = 0) -> bytes:
    """The attach of a link that sends to or receives from `address` [2.7.3]; an empty one is the anonymous terminus."""
    sending = role is wire.ROLE_SENDER
    node = wire.string(address) if address else wire.NULL
    fields = [
        wire.string(name),
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
    """The v2 address of a queue. What begins with a slash is an address already."""
    return queue if queue.startswith("/") else f"/queues/{quote(queue, safe='')}"


class SentDeliveries:
    """The deliveries of a session by delivery-id: which publisher's they are. With one publisher, its sequence numbers
    are the delivery-ids."""

    def __init__(self, publishers: Sequence[LinkPublisher]) -> None:
        self._only = publishers[0] if len(publishers) == 1 else None
        self._first_ids: list[int] = []
        self._bursts: list[tuple[LinkPublisher, int]] = []
        self.next_id = 0

    def add(self, publisher: LinkPublisher, count: int) -> None:
        """Note that the publisher has sent so many messages, the last ones that it counts."""
        if count and self._only is None:
            self._first_ids.append(self.next_id)
            self._bursts.append((publisher, publisher.sent - count))
        self.next_id += count

    def settled(self, first: int, last: int, *, accepted: bool, now_ns: int) -> None:
        """Tell the publishers that these deliveries are settled."""
        if self._only is not None:
            self._only.settled(first, last, accepted=accepted, now_ns=now_ns)
            return
        if last >= self.next_id:
            raise WireError(f"delivery-id {last} was settled, the last one sent was {self.next_id - 1}")
        while first <= last:
            index = bisect_right(self._first_ids, first) - 1
            start, (publisher, sequence) = self._first_ids[index], self._bursts[index]
            behind = self._first_ids[index + 1] if index + 1 < len(self._first_ids) else self.next_id
            upto = min(last, behind - 1)
            publisher.settled(sequence + first - start, sequence + upto - start, accepted=accepted, now_ns=now_ns)
            first = upto + 1


@dataclass(slots=True)
class AttachedLink:
    """One link by its handles, ours and the broker's: a publisher's or a consumer's."""

    handle: int
    publisher: LinkPublisher | None = None
    consumer: LinkConsumer | None = None


class SessionEndpoint:
    """The session and its links. Link names begin with their handle, so they are unique on the connection with the
    channel."""

    def __init__(
        self, applications: Sequence[Application], traffic: PlannedTraffic, session: BegunSession, *, channel: int = 0
    ) -> None:
        self._channel = channel
        self._bulk = traffic.shape == "bulk"
        self._next_incoming_id = session.next_incoming_id
        self._next_outgoing_id = 0
        self._window = session.remote_incoming_window
        self._rest = b""
        self._control: list[bytes] = []
        self._unanswered: dict[str, AttachedLink] = {}
        self._by_remote_handle: dict[int, AttachedLink] = {}
        self._sending: list[AttachedLink] = []
        self._receiving: list[AttachedLink] = []
        for one in applications:
            if one.publishes:
                handle = len(self._sending) + len(self._receiving)
                publisher = LinkPublisher(one, traffic, session.max_frame_size, channel=channel, handle=handle)
                self._sending.append(AttachedLink(handle, publisher=publisher))
                address = "" if one.exchange else queue_address(one.publish_to)
                self._attach(self._sending[-1], address, role=wire.ROLE_SENDER, settled=traffic.settled)
            if one.consume_from:
                handle = len(self._sending) + len(self._receiving)
                self._receiving.append(
                    AttachedLink(handle, consumer=LinkConsumer(traffic, one.link_credit, channel=channel))
                )
                address = queue_address(one.consume_from)
                self._attach(self._receiving[-1], address, role=wire.ROLE_RECEIVER, settled=traffic.settled)
        self.publishers = [link.publisher for link in self._sending if link.publisher]
        self.consumers = [link.consumer for link in self._receiving if link.consumer]
        self._sent = SentDeliveries(self.publishers)

    def _attach(self, link: AttachedLink, address: str, *, role: bool, settled: bool) -> None:
        name = f"{self._channel}.{link.handle} {'to' if role is wire.ROLE_SENDER else 'from'} {address}"
        self._control.append(attach(link.handle, name, address, role=role, settled=settled, channel=self._channel))
        self._unanswered[name] = link

    @property
    def attached(self) -> bool:
        return not self._unanswered

    def start(self, now_ns: int) -> None:
        """Begin to publish and consume."""
        for publisher in self.publishers:
            publisher.start(now_ns)
        for consumer in self.consumers:
            consumer.start(now_ns)

    # What the broker sends

    def receive_data(self, data: bytes, now_ns: int) -> None:
        """Take the bytes of one read; an incomplete frame waits for the next read."""
        at = 0
        if self._rest:
            at = len(data)
            size = int.from_bytes(self._rest[:4], "big") if len(self._rest) >= FRAME_HEADER_BYTES else 0
            if size >= LARGE_FRAME_BYTES:
                at = size - len(self._rest)
            self._rest = self._take(self._rest + memoryview(data)[:at], 0, now_ns)
        if at < len(data):
            self._rest = self._take(data, at, now_ns)

    def _take(self, data: bytes, at: int, now_ns: int) -> bytes:
        """Take the whole frames from `at` on; returns what is left."""
        end = len(data)
        while end - at >= FRAME_HEADER_BYTES:
            size: int = struct.unpack_from(">I", data, at)[0]
            if at + size > end:
                break
            body = at + 4 * data[at + 4]
            if self._receiving and data[body : body + 3] == b"\x00\x53\x14":
                at = self._transfers(self._receiver(data, body), data, at, now_ns)
                continue
            frame = wire.decode_frame(data, at, size)
            at += size
            if frame is not None:
                self._frame_received(frame, now_ns)
        return data[at:]

    def _receiver(self, data: bytes, body: int) -> LinkConsumer:
        """The consumer of the transfer whose performative is at `body`: its first field is the handle."""
        if len(self.consumers) == 1:
            return self.consumers[0]
        handle, _ = wire.decode(data, body + (6 if data[body + 3] == 0xC0 else 12))
        link = self._by_remote_handle.get(handle) if isinstance(handle, int) else None
        if link is None or link.consumer is None:
            raise WireError(f"the broker sent a transfer with handle {handle!r}, where it has no link")
        return link.consumer

    def _transfers(self, consumer: LinkConsumer, data: bytes, at: int, now_ns: int) -> int:
        before = consumer.frames
        at = consumer.transfers(data, at, now_ns)
        self._next_incoming_id = (self._next_incoming_id + consumer.frames - before) & SERIAL_MASK
        return at

    def _frame_received(self, frame: Amqp10Frame, now_ns: int) -> None:
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

    def _attach_received(self, frame: Amqp10Frame) -> None:
        link = self._unanswered.pop(str(frame.field(0)), None)
        if link is None:
            raise WireError(f"the broker attached a link {frame.field(0)!r}, which was not asked for")
        self._by_remote_handle[frame.number(1)] = link
        if link.consumer:
            link.consumer.delivery_count = frame.number(9)

    def _disposition_received(self, frame: Amqp10Frame, now_ns: int) -> None:
        if frame.field(0) is not wire.ROLE_RECEIVER or not self.publishers or frame.field(3) is not True:
            return
        first = frame.number(1)
        state = frame.field(4)
        accepted = isinstance(state, wire.DescribedValue) and state.descriptor == wire.ACCEPTED
        self._sent.settled(first, frame.number(2, first), accepted=accepted, now_ns=now_ns)

    def _flow_received(self, frame: Amqp10Frame) -> None:
        limit = frame.number(0) + frame.number(1)
        self._window = max(0, serial_difference(limit & SERIAL_MASK, self._next_outgoing_id))
        link = self._by_remote_handle.get(frame.number(4, -1))
        properties = frame.field(10)
        if link and link.publisher and isinstance(properties, dict) and REASON_PROPERTY in properties:
            told = properties[REASON_PROPERTY]
            link.publisher.told = told if isinstance(told, str) else None
        if link and link.publisher and frame.field(6) is not None:
            delivery_count = frame.field(5)
            seen = delivery_count if isinstance(delivery_count, int) else None
            link.publisher.flow_received(seen, frame.number(6))
        if frame.field(9) is True:
            self._control.append(self._echo(link))

    # What we send

    def _flow(self, *link_fields: bytes) -> bytes:
        session_fields = map(
            wire.uint, (self._next_incoming_id, INCOMING_WINDOW, self._next_outgoing_id, OUTGOING_WINDOW)
        )
        return wire.frame(wire.composite(wire.FLOW, *session_fields, *link_fields), channel=self._channel)

    def _echo(self, link: AttachedLink | None) -> bytes:
        """The flow that answers a flow with echo set [2.7.4]: of a link, or of the session."""
        if link and link.publisher:
            numbers = link.handle, link.publisher.sent, link.publisher.link_credit
            return self._flow(*map(wire.uint, numbers))
        if link and link.consumer:
            return self._link_credit_flow(link, link.consumer, link.consumer.link_credit)
        return self._flow()

    def _link_credit_flow(self, link: AttachedLink, consumer: LinkConsumer, link_credit: int) -> bytes:
        return self._flow(wire.uint(link.handle), wire.uint(consumer.delivery_count), wire.uint(link_credit))

    def output(self, now_ns: int) -> list[bytes | memoryview]:
        """The bytes to write now, one item per system call; the items are valid until the next call."""
        pieces, self._control = self._control, []
        for link in self._receiving:
            if (consumer := link.consumer) is None:
                continue
            pieces += consumer.output()
            if (link_credit := consumer.top_up()) is not None:
                pieces.append(self._link_credit_flow(link, consumer, link_credit))
        written: list[bytes | memoryview] = [b"".join(pieces)] if self._bulk and pieces else [*pieces]
        for publisher in self.publishers:
            first_id, first_sequence = self._sent.next_id, publisher.sent
            burst, frames = publisher.burst(self._window, now_ns, first_id)
            self._sent.add(publisher, publisher.sent - first_sequence)
            self._window -= frames
            self._next_outgoing_id = (self._next_outgoing_id + frames) & SERIAL_MASK
            written += burst
        if len(self.publishers) > 1:  # each of them is the first one in its turn
            self.publishers.append(self.publishers.pop(0))
        return written

    def ready_to_publish(self, now_ns: int) -> bool:
        return any(publisher.ready(self._window, now_ns) > 0 for publisher in self.publishers)

    def held_up(self, now_ns: int, *, socket: bool) -> list[str]:
        """What holds up each publisher that has a message to send. ``socket``: it takes no bytes, because the broker
        does not read, or the network is slow."""
        if socket:
            return ["socket" for publisher in self.publishers if not publisher.finished]
        window = self._window
        return [why for publisher in self.publishers if (why := publisher.held_up(window, now_ns)) is not None]

    def wake_ns(self) -> int | None:
        """When `output` must be called again although no input has arrived."""
        times = [time for publisher in self.publishers if (time := publisher.wake_ns(self._window)) is not None]
        return min(times, default=None)
