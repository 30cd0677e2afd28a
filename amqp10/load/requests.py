"""Requests and their answers over two links: settled, one message each, answered in order. One blocking connection."""

from __future__ import annotations

from collections import deque

from amqp10.load import wire
from amqp10.load.endpoint import closing_reason
from amqp10.load.handshake import Amqp10Conversation
from amqp10.load.wire import Amqp10Frame, DescribedValue, WireError

_SEND_HANDLE, _RECEIVE_HANDLE = 0, 1
_REQUESTS, _ANSWERS = "requests", "answers"
_LINK_CREDIT = 400
AT_ONCE_MAX = 200
"""The most requests whose answers have not been read: less than the link credit for answers, which is granted anew when
half of it is used."""


class RequestLinks:
    """The links of one connection.

    With `paired` both are attached to `address`, as a pair of RabbitMQ's kind, and `reply_to` is "$me". Otherwise
    answers come to a dynamic node, whose address is `reply_to`.
    """

    def __init__(self, url: str, address: str, *, paired: bool) -> None:
        self._conversation = Amqp10Conversation(url, max_frame_size=131072, container_id="bench-management")
        self._count = 0
        self._delivered = self._granted = 0  # answers that have come; the number of the last one that may come
        self._allowed = 0  # requests that the broker's link credit allows, from the first one on
        self.reply_to = "$me"
        self._paired = paired
        halves = [self._half(handle, address, paired=paired) for handle in (_SEND_HANDLE, _RECEIVE_HANDLE)]
        self._conversation.send(*halves)
        self._transfers_seen = 0
        self._delivery_count = 0
        self._remote_handles: dict[str, int] = {}
        self._payload = b""
        self._answers: deque[bytes] = deque()
        while len(self._remote_handles) < 2:
            self._read()

    @staticmethod
    def _half(handle: int, address: str, *, paired: bool) -> bytes:
        sending = handle == _SEND_HANDLE
        dynamic = wire.composite(wire.SOURCE, wire.NULL, wire.uint(0), wire.NULL, wire.uint(0), wire.boolean(True))
        name = "management-link-pair" if paired else f"management-{handle}"
        fields = [
            wire.string(name), wire.uint(handle),
            wire.boolean(wire.ROLE_SENDER if sending else wire.ROLE_RECEIVER),
            wire.ubyte(wire.SETTLE_MODE_SETTLED), wire.ubyte(0),
            wire.composite(wire.SOURCE, wire.string(address)) if sending or paired else dynamic,
            wire.composite(wire.TARGET, wire.string(address)) if sending or paired else wire.composite(wire.TARGET),
            wire.NULL, wire.NULL, wire.uint(0) if sending else wire.NULL,
        ]  # fmt: skip
        if paired:
            pair = wire.map_of(wire.symbol("paired"), wire.boolean(True))
            fields += [wire.NULL, wire.NULL, wire.NULL, pair]
        return wire.frame(wire.composite(wire.ATTACH, *fields))

    def ask(self, payload: bytes) -> bytes:
        """Send a message of these sections, and return the sections of the answer."""
        self.send(payload)
        return self.answer()

    def send(self, payload: bytes) -> None:
        """Send a message of these sections, as soon as link credit allows; `answer` returns its answer. At most
        `AT_ONCE_MAX` of them may be without an answer."""
        while self._count >= self._allowed:
            self._read()
        self._count += 1
        transfer = wire.composite(
            wire.TRANSFER, wire.uint(_SEND_HANDLE), wire.uint(self._count), wire.binary(str(self._count).encode()),
            wire.uint(0), wire.boolean(True),
        )  # fmt: skip
        frame = wire.frame(transfer + payload)
        if self._granted - self._count < _LINK_CREDIT // 2:
            self._conversation.send(self._grant(), frame)
        else:
            self._conversation.send(frame)

    def answer(self) -> bytes:
        """The sections of the next answer."""
        while not self._answers:
            self._read()
        return self._answers.popleft()

    def _grant(self) -> bytes:
        """Encode new link credit for answers."""
        self._granted = self._delivered + _LINK_CREDIT
        next_incoming_id = self._conversation.session.next_incoming_id + self._transfers_seen
        return wire.frame(
            wire.composite(
                wire.FLOW,
                wire.uint(next_incoming_id & wire.SERIAL_MASK),
                wire.uint(2**31 - 1),
                wire.uint(self._count - 1),  # next-outgoing-id: the request comes after this flow
                wire.uint(2**32 - 1),
                wire.uint(_RECEIVE_HANDLE),
                wire.uint(self._delivery_count),
                wire.uint(_LINK_CREDIT),
            )
        )

    def _read(self) -> None:
        """Take one frame from the broker."""
        frame = self._conversation.next_frame()
        if frame is None:
            return
        if frame.code in (wire.DETACH, wire.END, wire.CLOSE):
            raise WireError(closing_reason(frame))
        if frame.code == wire.ATTACH:
            self._attached(frame)
        elif frame.code == wire.FLOW and frame.field(4) == self._remote_handles.get(_REQUESTS, -1):
            self._allowed = frame.number(5) + frame.number(6)
        elif frame.code == wire.TRANSFER:
            self._payload += frame.payload
            self._transfers_seen += 1
            if frame.field(5) is not True:
                self._delivery_count = (self._delivery_count + 1) & wire.SERIAL_MASK
                self._delivered += 1
                self._answers.append(self._payload)
                self._payload = b""

    def _attached(self, frame: Amqp10Frame) -> None:
        answers = frame.field(2) is wire.ROLE_SENDER
        self._remote_handles[_ANSWERS if answers else _REQUESTS] = frame.number(1)
        if answers:
            self._delivery_count = frame.number(9)
            if not self._paired:
                self.reply_to = _source_address(frame)

    def close(self) -> None:
        """Close the connection."""
        self._conversation.close()


def _source_address(attached: Amqp10Frame) -> str:
    match attached.field(5):
        case DescribedValue(value=[str(address), *_]):
            return address
    raise WireError("the broker gave no address for answers")


def sections(payload: bytes) -> dict[int, wire.Value]:
    """The sections of a message, by descriptor [3.2]."""
    found: dict[int, wire.Value] = {}
    at = 0
    while at < len(payload):
        section, at = wire.decode(payload, at)
        if isinstance(section, DescribedValue) and isinstance(section.descriptor, int):
            found[section.descriptor] = section.value
    return found
