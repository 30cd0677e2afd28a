"""The operations whose cost is measured, each on queues and links of its own.

An operation acts a number of times at once. What it needs is done before, and what it leaves behind is undone after;
neither is measured.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from amqp10.load import wire
from amqp10.load.endpoint import queue_address
from bench.growth.grown_broker import EXCHANGE, EXPIRING, PURGED, SIDE, GrownBroker
from bench.growth.peer091 import Peer091
from bench.growth.peer10 import Peer10

Act = Callable[[GrownBroker, int], None]

EXPIRATION = 0x0100
"""The flag of the property expiration, the milliseconds as a text."""
EXPIRES_SECONDS = 0.02
MESSAGES_MAX = 20_000
"""Messages of one batch: 20,000 cost a broker about 40 ms."""


def _nothing(grown: GrownBroker, count: int) -> None:
    """Nothing is needed, or left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that a client asks of a broker.

    act: does it ``count`` times, and returns when the broker has answered the last.
    before, after: what is needed first, and what undoes it; not measured.
    most: how often it is done at once, at most.
    """

    name: str
    act: Act
    before: Act = _nothing
    after: Act = _nothing
    most: int = 2000


def _own(count: int) -> list[str]:
    """Names of queues that only one operation uses at a time."""
    return [f"own-{one}" for one in range(count)]


def _keys(count: int) -> list[tuple[str, dict[str, bytes]]]:
    """Bindings that only one operation uses at a time."""
    return [(f"own-{one}", {}) for one in range(count)]


# Messages


def fill(queue: str, *, durable: bool = False, properties: bytes | None = None) -> Act:
    """Publish messages to a queue."""
    return lambda grown, count: grown.peer091.publish([("", queue)] * count, durable=durable, properties=properties)


def take(queue: str) -> Act:
    """Take messages from the head of a queue, and settle them one by one."""

    def act(grown: GrownBroker, count: int) -> None:
        grown.peer091.consume(queue, "taker", prefetch_count=count)
        tags = grown.peer091.receive(count)
        grown.peer091.cancel("taker")
        grown.peer091.acknowledge(tags)

    return act


def _publish10(address: str) -> Act:
    return lambda grown, count: grown.peer10.publish(grown.sender(address), count)


def _take10(queue: str) -> Act:
    return lambda grown, count: grown.peer10.accept(grown.peer10.receive(grown.receiver(queue_address(queue)), count))


def messages(queue: str, where: str = "", *, durable: bool = False, properties: bytes | None = None) -> list[Operation]:
    """Publish to a queue, and deliver and settle from it, over both protocols; the depth stays."""
    put = fill(queue, durable=durable, properties=properties)
    most = MESSAGES_MAX
    return [
        Operation(name=f"publish and confirm{where} (0.9.1)", act=put, after=take(queue), most=most),
        Operation(
            name=f"publish and accept{where} (1.0)", act=_publish10(queue_address(queue)), after=take(queue), most=most
        ),
        Operation(name=f"deliver and settle{where} (0.9.1)", before=put, act=take(queue), most=most),
        Operation(name=f"deliver and settle{where} (1.0)", before=put, act=_take10(queue), most=most),
    ]


def publish_through(exchange: str, queue: str, key: str, properties: bytes | None = None) -> list[Operation]:
    """Publish through an exchange that routes to one queue. Over AMQP 1.0 the key is part of the link's address."""
    name = "publish and {} through this exchange ({})"
    put: Act = lambda grown, count: grown.peer091.publish([(exchange, key)] * count, properties=properties)  # noqa: E731
    purge: Act = lambda grown, count: grown.peer091.purge([queue])  # noqa: E731
    put10 = _publish10(f"/exchanges/{exchange}/{key}")
    operations = [Operation(name=name.format("confirm", "0.9.1"), act=put, after=purge, most=MESSAGES_MAX)]
    if key:
        operations.append(Operation(name=name.format("accept", "1.0"), act=put10, after=purge, most=MESSAGES_MAX))
    return operations


def _expire(grown: GrownBroker, count: int) -> None:
    properties = struct.pack(">H", EXPIRATION) + b"\x011"  # after 1 ms
    grown.peer091.publish([("", EXPIRING)] * count, properties=properties)
    while grown.management.message_count(EXPIRING):
        time.sleep(EXPIRES_SECONDS)


# Queues, bindings, links, connections


def _declare(grown: GrownBroker, count: int) -> None:
    grown.peer091.declare(_own(count))


def _declare_filled(grown: GrownBroker, count: int) -> None:
    grown.peer091.declare(_own(count))
    grown.peer091.publish([("", queue) for queue in _own(count)], durable=True)


def _delete(grown: GrownBroker, count: int) -> None:
    grown.peer091.delete(_own(count))


def _fill_purged(grown: GrownBroker, count: int) -> None:
    grown.peer091.publish([("", queue) for queue in PURGED[:count]])


def bind_to(exchange: str, queue: str, where: str, bindings: Callable[[int], Iterable[tuple[str, dict[str, bytes]]]]) \
        -> list[Operation]:  # fmt: skip
    """Bind and unbind a queue. The bindings are not among those that are there."""

    def bind(grown: GrownBroker, count: int) -> None:
        grown.peer091.bind(queue, exchange, bindings(count))

    def unbind(grown: GrownBroker, count: int) -> None:
        grown.peer091.unbind(queue, exchange, list(bindings(count)))

    return [
        Operation(name=f"bind a queue to {where}", act=bind, after=unbind),
        Operation(name=f"unbind a queue from {where}", before=bind, act=unbind),
    ]


def delete_bound(exchange: str, bindings: Callable[[int], Iterable[tuple[str, dict[str, bytes]]]]) -> Operation:
    """Delete queues that are bound to an exchange, each with a binding of its own."""

    def declare(grown: GrownBroker, count: int) -> None:
        _declare(grown, count)
        for queue, binding in zip(_own(count), bindings(count), strict=True):
            grown.peer091.bind(queue, exchange, [binding])

    return Operation(name="delete a queue that is bound to this exchange", before=declare, act=_delete)


def _attach(grown: GrownBroker, count: int) -> None:
    grown.links = grown.peer10.attach(queue_address(SIDE), role=wire.ROLE_SENDER, count=count)


def _detach(grown: GrownBroker, count: int) -> None:
    grown.peer10.detach(grown.links)
    grown.links = []


def _consume(grown: GrownBroker, count: int) -> None:
    grown.peer091.consumers(SIDE, [f"consumer-{one}" for one in range(count)])


def _cancel(grown: GrownBroker, count: int) -> None:
    for one in range(count):
        grown.peer091.cancel(f"consumer-{one}")


def _open(kind: Callable[[str], Peer091 | Peer10]) -> Act:
    def act(grown: GrownBroker, count: int) -> None:
        grown.peers = [kind(grown.url) for _ in range(count)]

    return act


def _close(grown: GrownBroker, count: int) -> None:
    for peer in grown.peers:
        peer.close()
    grown.peers = []


# What operators ask


def _request(method: str, path: str, body: Callable[[int], bytes] = lambda number: wire.NULL) -> Act:
    def act(grown: GrownBroker, count: int) -> None:
        filled = path.format(link=grown.link_identity) if "{link}" in path else path
        for number in range(count):
            grown.management.request(method, filled, body(number))

    return act


def _policy(number: int) -> bytes:
    """A policy for a queue that is not there; each is another than the one before."""
    definition = wire.map_of(wire.string("max-length"), wire.uint(number + 1))
    return wire.map_of(
        wire.string("pattern"), wire.string("^no-such-queue$"), wire.string("definition"), definition
    )  # fmt: skip


def _get(path: str) -> Act:
    def act(grown: GrownBroker, count: int) -> None:
        for _ in range(count):
            grown.get(path)

    return act


_POLICY_PATH = "/headgate/policies/own"
_SET_POLICY = _request("PUT", _POLICY_PATH, _policy)
_CLEAR_POLICY = _request("DELETE", _POLICY_PATH)

STANDARD = (
    *messages(SIDE),
    *messages(SIDE, " a durable message", durable=True)[:1],
    Operation(name="declare a queue", act=_declare, after=_delete),
    Operation(name="delete an empty queue", before=_declare, act=_delete),
    Operation(name="delete a queue with a durable message", before=_declare_filled, act=_delete),
    Operation(name="purge a queue of a message", before=_fill_purged,
              act=lambda grown, count: grown.peer091.purge(PURGED[:count]), most=len(PURGED)),
    *bind_to(EXCHANGE, SIDE, "an exchange", _keys),
    Operation(name="attach a link", act=_attach, after=_detach),
    Operation(name="detach a link", before=_attach, act=_detach, most=500),
    Operation(name="begin a consumer", act=_consume, after=_cancel, most=500),
    Operation(name="cancel a consumer", before=_consume, act=_cancel),
    *(
        operation
        for kind, protocol in ((Peer091, "0.9.1"), (Peer10, "1.0"))
        for operation in (
            Operation(name=f"open a connection ({protocol})", act=_open(kind), after=_close, most=200),
            Operation(name=f"close a connection ({protocol})", before=_open(kind), act=_close, most=200),
        )
    ),
    Operation(name="read one queue (management node)", act=_request("GET", f"/queues/{SIDE}")),
    Operation(name="read one queue's own row (management node)", act=_request("GET", f"/headgate/queues/{SIDE}")),
    Operation(name="read one queue (HTTP)", act=_get(f"/api/queues/%2F/{SIDE}"), most=500),
    Operation(name="why of a link", act=_request("GET", "/headgate/links/{link}/why")),
    Operation(name="scrape the metrics", act=_get("/metrics"), most=200),
    Operation(name="set a policy that matches no queue", act=_SET_POLICY,
              after=lambda grown, count: _CLEAR_POLICY(grown, 1), most=500),
    Operation(name="publish a message that expires, and expire it", act=_expire, most=MESSAGES_MAX),
)  # fmt: skip
"""Every operation that is measured in every dimension."""
