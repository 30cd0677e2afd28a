"""The dimensions: kinds of things of which a broker may have many, how they are made, and the operations beside them.

Each dimension is one set of columns: queues, bindings, connections and so on. All of them are measured with the same
operations, and some with more of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from amqp10.load import wire
from amqp10.load.amqp091.wire import short_string
from amqp10.load.endpoint import queue_address
from bench.growth.grown_broker import GrownBroker
from bench.growth.operations import (
    STANDARD,
    Operation,
    bind_to,
    delete_bound,
    fill,
    messages,
    publish_through,
)
from bench.growth.peer091 import Arguments, Peer091, number, text
from bench.growth.peer10 import Peer10

Grow = Callable[[GrownBroker, int, int], None]
"""Add the things from a number up to another."""

HOUR_MS = 3_600_000
AMPLE_LINK_CREDIT = 2**30
"""More than all messages of a run."""
HEADERS_PROPERTIES = (0x2000).to_bytes(2, "big")
"""The flag of the property headers, which is a field table."""
CONNECTIONS_MAX = 15_000
"""Each takes a descriptor of the broker and one of the client, and a port of the machine: 28,000 by default."""


def _nothing(grown: GrownBroker) -> None:
    """Nothing is needed first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Things of one kind.

    begin: what is needed before the first thing. grow: adds things; both are not measured.
    operations: those of this dimension only; ``standard`` ones are measured beside.
    bytes_each, seconds_each: roughly what one costs in memory and in time to make; they decide what does not fit.
    most: how many there can be, and ``why_not_more``.
    """

    name: str
    grow: Grow
    begin: Callable[[GrownBroker], None] = _nothing
    operations: Sequence[Operation] = ()
    standard: Sequence[Operation] = STANDARD
    bytes_each: int
    seconds_each: float
    most: int = 10**9
    why_not_more: str = ""
    memory: bool = True

    def all_operations(self) -> list[Operation]:
        """The operations of this dimension, and those of every dimension."""
        return [*self.operations, *self.standard]


# Queues


def _names(prefix: str, start: int, stop: int) -> list[str]:
    return [f"{prefix}-{one}" for one in range(start, stop)]


def _queues(prefix: str, *, arguments: Arguments | None = None, filled: bool = False, durable: bool = True) -> Grow:
    def grow(grown: GrownBroker, start: int, stop: int) -> None:
        names = _names(prefix, start, stop)
        grown.things091.declare(names, arguments=arguments, durable=durable)
        if filled:
            grown.things091.publish((("", name) for name in names), durable=durable)

    return grow


def _one_to_each(grown: GrownBroker, count: int) -> None:
    """Publish a message to each of the queues, which are as far apart as possible, and begin again with the first."""
    names = _some_queues(grown, count)
    for at in range(0, count, len(names)):
        grown.peer091.publish((("", queue) for queue in names[: count - at]), durable=True)


def _some_queues(grown: GrownBroker, count: int) -> list[str]:
    there = grown.things
    return [f"durable-{one * there // count if count < there else one}" for one in range(min(count, there))]


_ONE_TO_EACH = Operation(
    name="publish and confirm a durable message to each of the queues (0.9.1)",
    act=_one_to_each,
    after=lambda grown, count: grown.peer091.purge(_some_queues(grown, count)),
    most=10_000,
)


# Bindings


def _direct_key(one: int) -> tuple[str, Arguments]:
    return f"key-{one}", {}


def _topic_key(one: int) -> tuple[str, Arguments]:
    """Patterns with a word that differs, and with every kind of wildcard."""
    return (f"key-{one}.*", {}) if one % 2 else (f"#.key-{one}", {})


def _headers(one: int) -> tuple[str, Arguments]:
    return "", {"x-match": text("all"), "number": number(one)}


def _bindings(
    kind: str, binding: Callable[[int], tuple[str, Arguments]], *, key: str, properties: bytes | None = None
) -> Dimension:
    """Bindings of one exchange to one queue."""
    exchange, queue = f"growth-{kind}", f"bound-{kind}"

    def others(count: int) -> Iterable[tuple[str, Arguments]]:
        """Bindings that are not among those that are there."""
        return map(binding, range(-count, 0))

    def begin(grown: GrownBroker) -> None:
        grown.things091.declare([queue])
        grown.things091.declare_exchange(exchange, kind)

    def grow(grown: GrownBroker, start: int, stop: int) -> None:
        grown.things091.bind(queue, exchange, map(binding, range(start, stop)))

    return Dimension(
        name=f"{kind} bindings of the exchange",
        begin=begin,
        grow=grow,
        operations=[
            *publish_through(exchange, queue, key, properties),
            *bind_to(exchange, queue, "this exchange", others),
            delete_bound(exchange, others),
        ],
        bytes_each=3000,
        seconds_each=7e-4,
    )


def _headers_of(one: int) -> bytes:
    name, (_, arguments) = short_string("number"), _headers(one)
    entry = name + arguments["number"]
    return HEADERS_PROPERTIES + len(entry).to_bytes(4, "big") + entry


# Connections and links


def _connections(grown: GrownBroker, start: int, stop: int) -> None:
    """Open idle connections, of both protocols by turns."""
    for one in range(start, stop):
        peer: Peer091 | Peer10 = Peer10(grown.url) if one % 2 else Peer091(grown.url)
        grown.keep(peer, peer.drop)


def _links(grown: GrownBroker, start: int, stop: int) -> None:
    grown.peer10.attach(queue_address("linked"), role=wire.ROLE_SENDER, count=stop - start)


# Consumers and unsettled messages


def _consumers(queue: str) -> Grow:
    return lambda grown, start, stop: grown.things091.consumers(queue, _names("consumer", start, stop))


def _busy_consumers(grown: GrownBroker, start: int, stop: int) -> None:
    """Consumers that have an unsettled message each, and room for no other."""
    _consumers("busy")(grown, start, stop)
    grown.things091.publish([("", "busy")] * (stop - start))
    grown.things091.receive(stop - start)


def _receivers(address: str, *, link_credit: int) -> Grow:
    """Links of AMQP 1.0 that receive from a queue, and have link credit or none."""

    def grow(grown: GrownBroker, start: int, stop: int) -> None:
        links = grown.things10.attach(address, role=wire.ROLE_RECEIVER, count=stop - start)
        if link_credit:
            grown.things10.grant(links, link_credit)
            grown.things10.sync()

    return grow


def _round10(grown: GrownBroker, count: int) -> None:
    """Publish to receivers that are there, and settle what they get."""
    fill("received")(grown, count)
    grown.things10.accept(grown.things10.arrived(count))


def _hold091(grown: GrownBroker, start: int, stop: int) -> None:
    grown.things091.publish([("", "unsettled")] * (stop - start))
    grown.things091.receive(stop - start)


def _hold10(grown: GrownBroker, start: int, stop: int) -> None:
    fill("unsettled")(grown, stop - start)
    grown.peer10.receive(grown.receiver(queue_address("unsettled")), stop - start)


def _round(grown: GrownBroker, queue: str, count: int) -> None:
    """Publish to consumers that are there, and settle what they get."""
    grown.things091.publish([("", queue)] * count)
    grown.things091.acknowledge(grown.things091.receive(count))


def _declared(*queues: str) -> Callable[[GrownBroker], None]:
    return lambda grown: grown.things091.declare(queues)


def _consuming(queue: str, *, prefetch_count: int) -> Callable[[GrownBroker], None]:
    """Declare a queue; the consumers that begin later have this prefetch count, 0 for no limit."""

    def begin(grown: GrownBroker) -> None:
        grown.things091.declare([queue])
        grown.things091.consume(queue, "first", prefetch_count=prefetch_count)
        if prefetch_count == 1:
            grown.things091.publish([("", queue)])
            grown.things091.receive(1)

    return begin


def _one_queue(name: str, queue: str, *, durable: bool = False, properties: bytes | None = None) -> Dimension:
    """Messages that wait in one queue."""
    grow: Grow = lambda grown, start, stop: grown.things091.publish(  # noqa: E731
        [("", queue)] * (stop - start), durable=durable, properties=properties
    )
    return Dimension(
        name=name,
        begin=_declared(queue),
        grow=grow,
        operations=messages(queue, " through this queue", durable=durable, properties=properties),
        bytes_each=500,
        seconds_each=3e-5,
    )


EXPIRING_PROPERTIES = (0x0100).to_bytes(2, "big") + short_string(str(HOUR_MS))

DIMENSIONS: tuple[Dimension, ...] = (
    Dimension(name="queues", grow=_queues("queue", durable=False), bytes_each=14_000, seconds_each=3e-4),
    Dimension(name="durable queues", grow=_queues("durable"), operations=[_ONE_TO_EACH],
            bytes_each=16_000, seconds_each=2e-3),
    Dimension(name="durable queues with a message", grow=_queues("filled", filled=True),
            bytes_each=16_000, seconds_each=2e-3),
    Dimension(name="queues with a message that expires in an hour",
            grow=_queues("expiring", arguments={"x-message-ttl": number(HOUR_MS)}, filled=True, durable=False),
            bytes_each=16_000, seconds_each=5e-4),
    _bindings("direct", _direct_key, key="key-0"),
    _bindings("topic", _topic_key, key="word.key-0"),
    _bindings("headers", _headers, key="", properties=_headers_of(0)),
    Dimension(name="connections", grow=_connections, bytes_each=20_000, seconds_each=5e-3,
            most=CONNECTIONS_MAX, why_not_more="descriptors and ports of one machine"),
    Dimension(name="links of the session", begin=_declared("linked"), grow=_links,
            operations=messages("linked", " through one of these links")[1::2],
            bytes_each=4000, seconds_each=3e-3),
    Dimension(name="consumers of the queue", begin=_consuming("shared", prefetch_count=0), grow=_consumers("shared"),
            operations=[
                Operation(name="publish, deliver to one of these consumers and settle (0.9.1)",
                          act=lambda grown, count: _round(grown, "shared", count)),
            ],
            bytes_each=3000, seconds_each=3e-4),
    Dimension(name="consumers of the queue without room", begin=_consuming("busy", prefetch_count=1),
            grow=_busy_consumers, operations=messages("busy", " past these consumers"),
            bytes_each=3000, seconds_each=5e-4),
    Dimension(name="receivers of the queue (1.0)", begin=_declared("received"),
            grow=_receivers(queue_address("received"), link_credit=AMPLE_LINK_CREDIT),
            operations=[
                Operation(name="publish, deliver to one of these receivers and settle (1.0)", act=_round10),
            ],
            bytes_each=4000, seconds_each=3e-3),
    Dimension(name="receivers of the queue without link credit (1.0)", begin=_declared("starved"),
            grow=_receivers(queue_address("starved"), link_credit=0),
            operations=messages("starved", " past these receivers"),
            bytes_each=4000, seconds_each=3e-3),
    Dimension(name="unsettled messages of the consumer (0.9.1)", begin=_consuming("unsettled", prefetch_count=0),
            grow=_hold091,
            operations=[
                Operation(name="publish, deliver to this consumer and settle (0.9.1)",
                          act=lambda grown, count: _round(grown, "unsettled", count)),
            ],
            bytes_each=500, seconds_each=1e-4),
    Dimension(name="unsettled messages of the link (1.0)", begin=_declared("unsettled"), grow=_hold10,
            operations=messages("unsettled", " through this link")[3:],
            bytes_each=500, seconds_each=1e-4),
    _one_queue("messages in the queue", "deep"),
    _one_queue("durable messages in the queue", "deep-durable", durable=True),
    _one_queue("messages in the queue that expire in an hour", "deep-expiring", properties=EXPIRING_PROPERTIES),
)  # fmt: skip
