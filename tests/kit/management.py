"""A client of the management node without links: encoded requests in, decoded responses out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from amqp10.addresses import percent_encode
from amqp10.management.node import ManagementNode
from amqp10.serve import management_node
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.sections import (
    AMQP_VALUE,
    Properties,
    decode_map_section,
    decode_properties,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Described, ULong, plain
from core.access.checked_engine import CheckedEngine
from core.access.rights import Rights, all_rights
from core.clock import Now
from core.config.settings import Settings
from core.control_plane import BrokerControl
from core.engine.broker import Broker
from core.errors import NotFound
from core.interface import Mailbox, Snapshot, Target
from core.message import Attributes, Run
from core.observe.stalls import Stalls
from core.server.orders import Order
from core.server.run import Server


def queue_path(name: str) -> str:
    """The path of a queue in requests."""
    return f"/queues/{percent_encode(name)}"


def exchange_path(name: str) -> str:
    """The path of an exchange in requests."""
    return f"/exchanges/{percent_encode(name)}"


def binding_to_queue(
    source: str, queue: str, key: str = "", arguments: dict[object, object] | None = None
) -> dict[str, object]:
    """The body of a request that makes a binding."""
    return {
        "source": source,
        "destination_queue": queue,
        "binding_key": key,
        "arguments": {} if arguments is None else arguments,
    }


def bindings_path(source: str, destination: str, key: str, kind: str = "q") -> str:
    """The path that lists bindings; a ``kind`` of e is for an exchange as destination."""
    return f"/bindings?src={percent_encode(source)}&dst{kind}={percent_encode(destination)}&key={percent_encode(key)}"


@dataclass(frozen=True)
class Answer:
    """A response as its sections say. ``value`` is the body with its AMQP types."""

    status: int
    value: object
    correlation_id: object
    application_properties: dict[object, object]

    @property
    def body(self) -> object:
        """The body as plain values."""
        return plain(self.value)


def encode_request(
    method: str | None,
    to: object,
    body: object = None,
    *,
    message_id: object = ULong(1),
    reply_to: object = "$me",
) -> bytes:
    """Encode a request message: properties and an amqp-value."""
    properties = Properties(message_id=message_id, to=to, subject=method, reply_to=reply_to)
    return encode_properties(properties) + encode_section(AMQP_VALUE, body)


def decode_answer(response: bytes) -> Answer:
    """Decode a response message, and check that it has no section besides properties, application properties and
    body."""
    bounds = scan(response)
    assert bounds.properties is not None
    assert bounds.application_properties is not None
    assert bounds.body is not None
    assert bounds.body_code == AMQP_VALUE
    assert (bounds.header, bounds.delivery_annotations, bounds.message_annotations, bounds.footer) == (None,) * 4
    properties = decode_properties(response, *bounds.properties)
    body, _ = decode_value(response, *bounds.body, DEPTH_MAX)
    assert isinstance(body, Described)
    assert properties.subject is not None
    return Answer(
        status=int(properties.subject),
        value=body.value,
        correlation_id=properties.correlation_id,
        application_properties=decode_map_section(response, *bounds.application_properties),
    )


class Plant:
    """A stand-in for the server: as much of it as requests can see."""

    drained_since = None

    def __init__(self) -> None:
        self.rows: list[Snapshot] = []
        """The rows of connections."""
        self.closed: list[tuple[str, str]] = []
        """The identity of each connection that a request closed, and the reason given."""
        self.links: list[str] = []
        """The identities of links and sessions that exist."""
        self.orders: list[Order] = []

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """No rows: neither of listeners nor of descriptors."""
        return []

    def connections(self, kind: str, identity: str | None = None) -> Iterator[Sequence[Snapshot]]:
        """The rows of connections."""
        return iter([self.rows] if kind == "connections" else [])

    def close_connection(self, identity: str, reason: str) -> bool:
        """Note the request; False when there is no such connection."""
        if all(row["id"] != identity for row in self.rows):
            return False
        self.closed.append((identity, reason))
        return True

    def order(self, order: Order) -> None:
        """Note the order. Raises NotFound when there is no such link or session."""
        if order.identity not in self.links:
            raise NotFound(f"there is no '{order.identity}'")
        self.orders.append(order)


def respond(
    node: ManagementNode,
    broker: Broker,
    request: bytes,
    *,
    owner: object = "me",
    rights: Rights | None = None,
    turn: Callable[[], object] = lambda: None,
) -> bytes:
    """Return the node's response to an encoded request; without ``rights``, of a user who may do everything. ``turn``
    takes a turn of the broker, in which it records what it keeps."""
    walk = node.respond(request, CheckedEngine(broker, rights or all_rights("me")), owner)
    while True:
        try:
            next(walk)
        except StopIteration as end:
            return cast("bytes", end.value)
        turn()


class Console:
    """A broker in memory, and a client that manages it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.broker = Broker(settings or Settings())
        self.plant = Plant()
        control = BrokerControl(self.broker, version="0.1.0", pid=1, stalls=Stalls(clock=lambda: NOW))
        control.server = cast("Server", self.plant)
        self.node = management_node(self.broker, control)

    def ask(
        self, method: str, to: object, body: object = None, *, owner: object = "me", rights: Rights | None = None
    ) -> Answer:
        """Send a request and return its decoded response; without ``rights``, of a user who may do everything."""
        return decode_answer(self.respond(encode_request(method, to, body), owner=owner, rights=rights))

    def respond(self, request: bytes, *, owner: object = "me", rights: Rights | None = None) -> bytes:
        """Return the response to an encoded request."""
        return respond(self.node, self.broker, request, owner=owner, rights=rights)

    def publish(self, target: Target, count: int) -> None:
        """Publish messages through the engine, as a front end does."""
        mailbox = Mailbox(lambda: None)
        publisher = self.broker.publisher(mailbox, "publisher", target, None)
        self.broker.publish(publisher, target, Run(0, [b"message"] * count, ATTRIBUTES), NOW)
        while self.broker.turn(NOW):
            pass
        self.broker.retire(publisher)


ATTRIBUTES = Attributes()
NOW = Now(monotonic=100.0, wall=1_700_000_000.0)
