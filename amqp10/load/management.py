"""Declares, inspects and deletes queues and exchanges through the `/management` link pair (HTTP over AMQP), on any
broker that has it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from amqp10.load import wire
from amqp10.load.requests import AT_ONCE_MAX, RequestLinks, sections
from amqp10.load.wire import Amqp10Frame, Value, WireError

_ADDRESS = "/management"


class ManagementPair:
    """An open link pair; use it as a context manager."""

    def __init__(self, url: str) -> None:
        self._links = RequestLinks(url, _ADDRESS, paired=True)
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._links.close()

    def declare_queue(self, queue: str, *, queue_type: str = "classic") -> None:
        """Declare a durable queue of the given type. A quorum queue is led by the node of this connection."""
        arguments = {"x-queue-type": queue_type}
        if queue_type == "quorum":
            arguments["x-queue-leader-locator"] = "client-local"
        texts = [wire.string(text) for pair in arguments.items() for text in pair]
        self.declare_queue_with(queue, wire.map_of(*texts))

    def declare_queue_with(self, queue: str, arguments: bytes) -> None:
        """Declare a durable queue with these arguments, an encoded map."""
        self.request("PUT", f"/queues/{queue}", wire.map_of(wire.string("arguments"), arguments))

    def purge_queue(self, queue: str) -> None:
        """Remove the ready messages of the queue."""
        self.request("DELETE", f"/queues/{queue}/messages", wire.NULL)

    def delete_queue(self, queue: str) -> None:
        """Delete the queue; a missing queue is no error."""
        self.request("DELETE", f"/queues/{queue}", wire.NULL)

    def declare_exchange(self, exchange: str, exchange_type: str) -> None:
        """Declare a durable exchange."""
        self.request("PUT", f"/exchanges/{exchange}", wire.map_of(wire.string("type"), wire.string(exchange_type)))

    def delete_exchange(self, exchange: str) -> None:
        """Delete the exchange; a missing exchange is no error."""
        self.request("DELETE", f"/exchanges/{exchange}", wire.NULL)

    def bind(self, exchange: str, queue: str, keys: Sequence[str]) -> None:
        """Bind the queue to the exchange with each of these keys, many requests at a time."""
        for first in range(0, len(keys), AT_ONCE_MAX):
            some = keys[first : first + AT_ONCE_MAX]
            for key in some:
                binding = {"source": exchange, "destination_queue": queue, "binding_key": key}
                texts = [wire.string(text) for pair in binding.items() for text in pair]
                self._send("POST", "/bindings", wire.map_of(*texts, wire.string("arguments"), wire.map_of()))
            for _ in some:
                self._answer("POST", "/bindings")

    def counter(self, queue: str, name: str) -> int:
        """Read one of Headgate's own counters of a queue."""
        match self.request("GET", f"/headgate/queues/{queue}", wire.NULL):
            case {**counters} if isinstance(value := counters.get(name), int):
                return value
        raise WireError(f"no {name} in what the broker says about queue {queue}")

    def rows(self, kind: str) -> list[dict[str, Value]]:
        """Read Headgate's rows about its connections, or things of another kind."""
        match self.request("GET", f"/headgate/{kind}", wire.NULL):
            case {"items": list(items)}:
                return [one for one in items if isinstance(one, dict)]
        raise WireError(f"no items in what the broker says about its {kind}")

    def set_alarm(self, name: str, *, on: bool) -> None:
        """Raise or clear one of Headgate's alarms by hand."""
        self.request("PUT" if on else "DELETE", f"/headgate/alarms/{name}", wire.NULL)

    def message_count(self, queue: str) -> int:
        """How many messages are ready in the queue."""
        match self.request("GET", f"/queues/{queue}", wire.NULL):
            case {"message_count": int(count)}:
                return count
        raise WireError(f"no message_count in what the broker says about queue {queue}")

    def request_all(self, method: str, paths: Sequence[str], body: bytes) -> None:
        """Make a request for each path. `AT_ONCE_MAX` of them are without an answer all the time."""
        for number, path in enumerate(paths):
            if number >= AT_ONCE_MAX:
                self._answer(method, paths[number - AT_ONCE_MAX])
            self._send(method, path, body)
        for path in paths[-AT_ONCE_MAX:]:
            self._answer(method, path)

    def begin(self, method: str, path: str, body: bytes) -> None:
        """Send a request, for whose answer :meth:`end` waits."""
        self._send(method, path, body)

    def end(self) -> None:
        """Wait for the answer to a request that was begun. Raises WireError for a refusal."""
        self._answer("the request", "that was begun")

    def request(self, method: str, path: str, body: bytes) -> Value:
        """Make a request with this encoded body; returns the body of the answer. Raises WireError for a refusal."""
        self._send(method, path, body)
        return self._answer(method, path)

    def _send(self, method: str, path: str, body: bytes) -> None:
        self._requests += 1
        properties = wire.composite(
            wire.PROPERTIES, wire.ulong(self._requests), wire.NULL, wire.string(path), wire.string(method),
            wire.string(self._links.reply_to),
        )  # fmt: skip
        self._links.send(properties + wire.described(wire.AMQP_VALUE, body))

    def _answer(self, method: str, path: str) -> Value:
        answer = sections(self._links.answer())
        fields, said = answer.get(wire.PROPERTIES), answer.get(wire.AMQP_VALUE)
        status = int(str(Amqp10Frame(0, fields, b"").field(3))) if isinstance(fields, list) else 0
        if not 200 <= status < 300:
            raise WireError(f"{method} {path} was answered with {status}: {said!r}")
        return said
