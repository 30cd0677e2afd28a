"""An AMQP 1.0 connection with one session, which carries out many equal operations and returns when all are answered.

It sends as the broker's link credit and incoming-window allow, and grants exactly the link credit for the messages that
it is asked to receive. Messages are single frames, as small as they can be.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from amqp10.load import wire
from amqp10.load.endpoint import INCOMING_WINDOW, OUTGOING_WINDOW, closing_reason
from amqp10.load.handshake import READ_BYTES, Amqp10Conversation
from amqp10.load.wire import SERIAL_MASK, Amqp10Frame, WireError, serial_difference

LINKS_AT_ONCE = 200
"""How many attaches or detaches are sent before their answers are awaited."""
DELIVERIES_AT_ONCE = 200
"""The link credit of a receiver: the default of clients."""
PAYLOAD = wire.described(wire.DATA, wire.binary(b"x" * 12))


@dataclass(slots=True)
class Link:
    """A link of ours. ``link_credit`` is the broker's, for a sender."""

    handle: int
    role: bool
    remote_handle: int = -1
    delivery_count: int = 0
    link_credit: int = 0


class Peer10:
    """A connection with a session."""

    def __init__(self, url: str, name: str = "bench-growth") -> None:
        self._conversation = Amqp10Conversation(url, max_frame_size=131_072, container_id=name)
        session = self._conversation.session
        self._buffer = self._conversation.rest
        self._at = 0
        self._window = session.remote_incoming_window
        self._next_incoming_id = session.next_incoming_id
        self._next_outgoing_id = 0
        self._attached: dict[bool, dict[int, Link]] = {wire.ROLE_SENDER: {}, wire.ROLE_RECEIVER: {}}
        """Our links by their role and the broker's handle."""
        self._delivered: list[int] = []
        """The delivery-ids of what arrived and was not asked for yet."""
        self._handles: list[int] = []
        self._next_handle = 0

    def close(self) -> None:
        """Close the connection, and wait for the broker's close."""
        self._conversation.rest = self._buffer[self._at :]
        self._conversation.close()

    def drop(self) -> None:
        """Close the socket without a word, where nothing depends on an orderly end."""
        self._conversation.socket.close()

    # --- links

    def attach(self, address: str | None, *, role: bool, count: int = 1) -> list[Link]:
        """Attach links to an address, None for the anonymous terminus, and wait until the broker has attached too;
        senders wait for link credit."""
        links: list[Link] = []
        while len(links) < count:
            part = [Link(self._handle(), role) for _ in range(min(LINKS_AT_ONCE, count - len(links)))]
            self._send(*(_attach(link, address) for link in part))
            waiting = {f"growth-{link.handle}": link for link in part}
            while waiting:
                frame = self._next_frame()
                if frame.code == wire.ATTACH:
                    link = waiting.pop(str(frame.field(0)))
                    link.remote_handle = frame.number(1)
                    link.delivery_count = frame.number(9)
                    self._attached[role][link.remote_handle] = link
            while role is wire.ROLE_SENDER and not all(link.link_credit for link in part):
                self._next_frame()
            links += part
        return links

    def detach(self, links: Sequence[Link]) -> None:
        """Detach links for good, and wait until the broker has detached too."""
        for at in range(0, len(links), LINKS_AT_ONCE):
            part = links[at : at + LINKS_AT_ONCE]
            self._send(
                *(wire.frame(wire.composite(wire.DETACH, wire.uint(link.handle), wire.boolean(True))) for link in part)
            )
            missing = len(part)
            while missing:
                missing -= self._next_frame(detaches=True).code == wire.DETACH
            for link in part:
                del self._attached[link.role][link.remote_handle]
                self._handles.append(link.handle)

    def _handle(self) -> int:
        if self._handles:
            return self._handles.pop()
        self._next_handle += 1
        return self._next_handle - 1

    # --- messages

    def publish(self, link: Link, count: int) -> None:
        """Publish messages, and wait until all are accepted."""
        self._publish(link, [PAYLOAD] * count)

    def publish_to(self, link: Link, addresses: Sequence[str]) -> None:
        """Publish a durable message to each of the addresses on a link to the anonymous terminus."""
        head = wire.composite(wire.HEADER, wire.boolean(True))
        tos = (wire.composite(wire.PROPERTIES, wire.NULL, wire.NULL, wire.string(one)) for one in addresses)
        self._publish(link, [head + to + PAYLOAD for to in tos])

    def _publish(self, link: Link, payloads: Sequence[bytes]) -> None:
        count = len(payloads)
        sent = settled = 0
        while settled < count:
            able = min(link.link_credit, self._window, count - sent)
            if able:
                first = self._next_outgoing_id
                some = enumerate(payloads[sent : sent + able])
                self._send(*(_transfer(link.handle, (first + at) & SERIAL_MASK, one) for at, one in some))
                self._next_outgoing_id = (first + able) & SERIAL_MASK
                self._window -= able
                link.link_credit -= able
                link.delivery_count = (link.delivery_count + able) & SERIAL_MASK
                sent += able
            frame = self._next_frame()
            if frame.code == wire.DISPOSITION and frame.field(0) is wire.ROLE_RECEIVER:
                state = frame.field(4)
                if not (isinstance(state, wire.DescribedValue) and state.descriptor == wire.ACCEPTED):
                    raise WireError(f"the broker did not accept a message: {state!r}")
                settled += serial_difference(frame.number(2, frame.number(1)), frame.number(1)) + 1

    def receive(self, link: Link, count: int) -> list[int]:
        """Grant a link exactly the link credit for this many deliveries, and wait for them; returns their
        delivery-ids."""
        ids: list[int] = []
        while len(ids) < count:
            part = min(DELIVERIES_AT_ONCE, count - len(ids))
            self.grant([link], part)
            ids += self.arrived(part)
            link.delivery_count = (link.delivery_count + part) & SERIAL_MASK
        return ids

    def grant(self, links: Sequence[Link], link_credit: int) -> None:
        """Grant each of the links so much link credit."""
        self._send(*(self._flow(link, link_credit) for link in links))

    def arrived(self, count: int) -> list[int]:
        """Wait for this many deliveries, on whichever links; returns their delivery-ids."""
        while len(self._delivered) < count:
            self._next_frame()
        ids, self._delivered = self._delivered[:count], self._delivered[count:]
        return ids

    def accept(self, ids: Sequence[int]) -> None:
        """Settle deliveries one by one, and wait until the broker has seen that."""
        self._send(*(wire.disposition(one, one, role=wire.ROLE_RECEIVER) for one in ids))
        self.sync()

    def sync(self) -> None:
        """Wait until the broker has read what was sent before: it answers a flow with echo."""
        self._send(self._flow(None, 0))
        while self._next_frame().code != wire.FLOW:
            pass

    # --- the wire

    def _flow(self, link: Link | None, link_credit: int) -> bytes:
        session = (self._next_incoming_id, INCOMING_WINDOW, self._next_outgoing_id, OUTGOING_WINDOW)
        fields = [wire.uint(number) for number in session]
        if link is None:
            fields += [wire.NULL] * 5 + [wire.boolean(True)]  # echo
        else:
            fields += [wire.uint(link.handle), wire.uint(link.delivery_count), wire.uint(link_credit)]
        return wire.frame(wire.composite(wire.FLOW, *fields))

    def _send(self, *frames: bytes) -> None:
        self._conversation.socket.sendall(b"".join(frames))

    def _next_frame(self, *, detaches: bool = False) -> Amqp10Frame:
        """Return the next frame. A flow and a transfer have taken effect; an end is an error, and a detach that was not
        asked for."""
        while True:
            frame = self._take_frame()
            if frame is None:
                continue
            if frame.code in (wire.END, wire.CLOSE) or (frame.code == wire.DETACH and not detaches):
                raise WireError(closing_reason(frame))
            if frame.code == wire.FLOW:
                self._flow_received(frame)
            elif frame.code == wire.TRANSFER:
                self._next_incoming_id = (self._next_incoming_id + 1) & SERIAL_MASK
                self._delivered.append(frame.number(1))
            return frame

    def _take_frame(self) -> Amqp10Frame | None:
        while True:
            rest = len(self._buffer) - self._at
            if rest >= 8 and rest >= (size := struct.unpack_from(">I", self._buffer, self._at)[0]):
                frame = wire.decode_frame(self._buffer, self._at, size)
                self._at += size
                return frame
            data = self._conversation.socket.recv(READ_BYTES)
            if not data:
                raise WireError("the broker closed the socket without a word")
            self._buffer = self._buffer[self._at :] + data
            self._at = 0

    def _flow_received(self, frame: Amqp10Frame) -> None:
        limit = (frame.number(0) + frame.number(1)) & SERIAL_MASK
        self._window = max(0, serial_difference(limit, self._next_outgoing_id))
        link = self._attached[wire.ROLE_SENDER].get(frame.number(4, -1))
        if link is not None and frame.field(6) is not None:
            until = (frame.number(5) + frame.number(6)) & SERIAL_MASK
            link.link_credit = max(0, serial_difference(until, link.delivery_count))


def _attach(link: Link, address: str | None) -> bytes:
    sending = link.role is wire.ROLE_SENDER
    node = wire.NULL if address is None else wire.string(address)
    fields = [
        wire.string(f"growth-{link.handle}"),
        wire.uint(link.handle),
        wire.boolean(link.role),
        wire.ubyte(wire.SETTLE_MODE_UNSETTLED),
        wire.ubyte(0),  # rcv-settle-mode first
        wire.composite(wire.SOURCE) if sending else wire.composite(wire.SOURCE, node),
        wire.composite(wire.TARGET, node) if sending else wire.composite(wire.TARGET),
    ]
    if sending:
        fields += [wire.NULL, wire.NULL, wire.uint(0)]  # initial-delivery-count
    return wire.frame(wire.composite(wire.ATTACH, *fields))


def _transfer(handle: int, delivery_id: int, payload: bytes) -> bytes:
    tag = wire.binary(delivery_id.to_bytes(4, "big"))
    fields = (wire.uint(handle), wire.uint(delivery_id), tag, wire.uint(0), wire.boolean(False))
    return wire.frame(wire.composite(wire.TRANSFER, *fields) + payload)
