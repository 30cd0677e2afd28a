"""Declares, inspects and deletes queues through the `/management` link pair (HTTP over AMQP), on any broker that has
it.

One blocking connection; requests are settled, in one frame, and answered in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.load import wire
from bench.load.endpoint import closing_reason
from bench.load.handshake import Conversation
from bench.load.wire import Described, Frame, Value, WireError

_ADDRESS = "/management"
_SEND_HANDLE, _RECEIVE_HANDLE = 0, 1
_REQUESTS, _ANSWERS = "requests", "answers"
_LINK_CREDIT = 100
_REQUESTS_AT_ONCE = 50
"""Requests before the answers to them are read: fewer than the link credit for answers."""


class Management:
    """An open link pair; use it as a context manager."""

    def __init__(self, url: str) -> None:
        self._conversation = Conversation(url, max_frame_size=131072, container_id="bench-management")
        self._requests = 0
        self.broker = self._conversation.properties
        self._conversation.send(self._half(_SEND_HANDLE), self._half(_RECEIVE_HANDLE))
        self._transfers_seen = 0
        self._delivery_count = 0
        self._allowed = 0  # requests that the broker's link credit allows, from the first one on
        self._remote_handles: dict[str, int] = {}
        self._payload = b""
        self._answers: deque[bytes] = deque()
        while len(self._remote_handles) < 2:
            self._read()

    @staticmethod
    def _half(handle: int) -> bytes:
        sending = handle == _SEND_HANDLE
        paired = wire.map_of(wire.symbol("paired"), wire.boolean(True))
        return wire.frame(
            wire.composite(
                wire.ATTACH, wire.string("management-link-pair"), wire.uint(handle),
                wire.boolean(wire.ROLE_SENDER if sending else wire.ROLE_RECEIVER),
                wire.ubyte(wire.SETTLE_MODE_SETTLED), wire.ubyte(0),
                wire.composite(wire.SOURCE, wire.string(_ADDRESS)),
                wire.composite(wire.TARGET, wire.string(_ADDRESS)),
                wire.NULL, wire.NULL, wire.uint(0) if sending else wire.NULL, wire.NULL, wire.NULL, wire.NULL,
                paired,
            )
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conversation.close()

    def declare_queue(self, queue: str, *, queue_type: str = "classic") -> None:
        """Declare a durable queue of the given type, without other arguments."""
        self.declare_queue_with(queue, wire.map_of(wire.string("x-queue-type"), wire.string(queue_type)))

    def declare_queue_with(self, queue: str, arguments: bytes) -> None:
        """Declare a durable queue with these arguments, an encoded map."""
        self._request("PUT", f"/queues/{queue}", wire.map_of(wire.string("arguments"), arguments))

    def purge_queue(self, queue: str) -> None:
        """Remove the ready messages of the queue."""
        self._request("DELETE", f"/queues/{queue}/messages", wire.NULL)

    def delete_queue(self, queue: str) -> None:
        """Delete the queue; a missing queue is no error."""
        self._request("DELETE", f"/queues/{queue}", wire.NULL)

    def declare_exchange(self, exchange: str, exchange_type: str) -> None:
        """Declare a durable exchange."""
        self._request("PUT", f"/exchanges/{exchange}", wire.map_of(wire.string("type"), wire.string(exchange_type)))

    def delete_exchange(self, exchange: str) -> None:
        """Delete the exchange; a missing exchange is no error."""
        self._request("DELETE", f"/exchanges/{exchange}", wire.NULL)

    def bind(self, exchange: str, queue: str, keys: Sequence[str]) -> None:
        """Bind the queue to the exchange with each of these keys, many requests at a time."""
        bodies = [
            wire.map_of(
                *(wire.string("source"), wire.string(exchange), wire.string("destination_queue"), wire.string(queue)),
                *(wire.string("binding_key"), wire.string(key), wire.string("arguments"), wire.map_of()),
            )
            for key in keys
        ]
        for first in range(0, len(bodies), _REQUESTS_AT_ONCE):
            some = bodies[first : first + _REQUESTS_AT_ONCE]
            for body in some:
                self._send("POST", "/bindings", body)
            for _ in some:
                self._answer("POST", "/bindings")

    def counter(self, queue: str, name: str) -> int:
        """Read one of Headgate's own counters of a queue."""
        match self._request("GET", f"/headgate/queues/{queue}", wire.NULL):
            case {**counters} if isinstance(value := counters.get(name), int):
                return value
        raise WireError(f"no {name} in what the broker says about queue {queue}")

    def rows(self, kind: str) -> list[dict[str, Value]]:
        """Read Headgate's rows about its connections, or things of another kind."""
        match self._request("GET", f"/headgate/{kind}", wire.NULL):
            case {"items": list(items)}:
                return [one for one in items if isinstance(one, dict)]
        raise WireError(f"no items in what the broker says about its {kind}")

    def set_alarm(self, name: str, *, on: bool) -> None:
        """Raise or clear one of Headgate's alarms by hand."""
        self._request("PUT" if on else "DELETE", f"/headgate/alarms/{name}", wire.NULL)

    def message_count(self, queue: str) -> int:
        """How many messages are ready in the queue."""
        match self._request("GET", f"/queues/{queue}", wire.NULL):
            case {"message_count": int(count)}:
                return count
        raise WireError(f"no message_count in what the broker says about queue {queue}")

    def _request(self, method: str, path: str, body: bytes) -> Value:
        self._send(method, path, body)
        return self._answer(method, path)

    def _send(self, method: str, path: str, body: bytes) -> None:
        while self._requests >= self._allowed:
            self._read()
        self._requests += 1
        properties = wire.composite(
            wire.PROPERTIES, wire.ulong(self._requests), wire.NULL, wire.string(path), wire.string(method),
            wire.string("$me"),
        )  # fmt: skip
        tag = str(self._requests).encode()
        transfer = wire.composite(
            wire.TRANSFER, wire.uint(_SEND_HANDLE), wire.uint(self._requests), wire.binary(tag), wire.uint(0),
            wire.boolean(True),
        )  # fmt: skip
        payload = properties + wire.described(wire.AMQP_VALUE, body)
        self._conversation.send(self._grant(), wire.frame(transfer + payload))

    def _answer(self, method: str, path: str) -> Value:
        while not self._answers:
            self._read()
        status, answer = _parse_response(self._answers.popleft())
        if not 200 <= status < 300:
            raise WireError(f"{method} {path} was answered with {status}: {answer!r}")
        return answer

    def _grant(self) -> bytes:
        """Encode the link credit for responses, granted anew before each request."""
        next_incoming_id = self._conversation.session.next_incoming_id + self._transfers_seen
        return wire.frame(
            wire.composite(
                wire.FLOW,
                wire.uint(next_incoming_id & wire.SERIAL_MASK),
                wire.uint(2**31 - 1),
                wire.uint(self._requests - 1),  # next-outgoing-id: the request comes after this flow
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
            of = _ANSWERS if frame.field(2) is wire.ROLE_SENDER else _REQUESTS
            self._remote_handles[of] = frame.number(1)
            self._delivery_count = frame.number(9) if of == _ANSWERS else self._delivery_count
        elif frame.code == wire.FLOW and frame.field(4) == self._remote_handles.get(_REQUESTS):
            self._allowed = frame.number(5) + frame.number(6)
        elif frame.code == wire.TRANSFER:
            self._payload += frame.payload
            self._transfers_seen += 1
            if frame.field(5) is not True:
                self._delivery_count = (self._delivery_count + 1) & wire.SERIAL_MASK
                self._answers.append(self._payload)
                self._payload = b""


def _parse_response(payload: bytes) -> tuple[int, Value]:
    status, body = 0, None
    at = 0
    while at < len(payload):
        section, at = wire.decode(payload, at)
        match section:
            case Described(descriptor=wire.PROPERTIES, value=list(fields)):
                status = int(str(Frame(0, fields, b"").field(3)))
            case Described(descriptor=wire.AMQP_VALUE, value=value):
                body = value
    return status, body
