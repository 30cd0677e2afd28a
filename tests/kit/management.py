"""A client of the management node without links: encoded requests in, decoded responses out."""

from collections.abc import Iterator
from dataclasses import dataclass

from amqp10.addresses import percent_encode
from amqp10.management.node import ManagementNode
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
from core.clock import Now
from core.engine.broker import Broker
from core.engine.settings import EngineSettings
from core.errors import NotFound
from core.interface import Mailbox, Snapshot, Target
from core.message import Attributes, Run
from core.observe.why import why
from core.server.orders import Order
from core.slices import Walk, at_a_stretch


def queue_path(name: str) -> str:
    """The path of a queue."""
    return f"/queues/{percent_encode(name)}"


def exchange_path(name: str) -> str:
    """The path of an exchange."""
    return f"/exchanges/{percent_encode(name)}"


def binding_to_queue(
    source: str, queue: str, key: str = "", arguments: dict[object, object] | None = None
) -> dict[str, object]:
    """The body that makes a binding."""
    return {
        "source": source,
        "destination_queue": queue,
        "binding_key": key,
        "arguments": {} if arguments is None else arguments,
    }


def bindings_path(source: str, destination: str, key: str, kind: str = "q") -> str:
    """The path that lists bindings; kind e for an exchange as destination."""
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
    """A request message: properties and an amqp-value."""
    properties = Properties(message_id=message_id, to=to, subject=method, reply_to=reply_to)
    return encode_properties(properties) + encode_section(AMQP_VALUE, body)


def decode_answer(response: bytes) -> Answer:
    """The parts of a response message; checks that there are no others."""
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
    """The control plane: an engine, with as much of a server around it as requests can see."""

    def __init__(self, engine: Broker) -> None:
        self._engine = engine
        self.connections: list[Snapshot] = []
        self.closed: list[tuple[str, str]] = []
        """Identity and reason."""
        self.links: list[str] = []
        """And sessions."""
        self.orders: list[Order] = []

    def status(self) -> Snapshot:
        """Two fields that stand for all."""
        return {"version": "0.1.0", "connections": len(self.connections)}

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """The engine's kinds, and connections."""
        return iter(self.connections) if kind == "connections" else self._engine.rows(kind, identity)

    def set_alarm(self, name: str) -> None:
        """The engine's."""
        self._engine.set_alarm(name)

    def clear_alarm(self, name: str) -> None:
        """The engine's."""
        self._engine.clear_alarm(name)

    def peek_queue(self, queue: str, count: int) -> list[Snapshot]:
        """The engine's."""
        return self._engine.peek_queue(queue, count)

    def move_messages(self, queue: str, target: Target, count: int | None) -> int:
        """The engine's."""
        return self._engine.move_messages(queue, target, count)

    def replay_messages(self, queue: str, count: int | None) -> int:
        """The engine's."""
        return self._engine.replay_messages(queue, count)

    def why(self, kind: str, identity: str) -> Walk[Snapshot | None]:
        """As the broker's."""
        return why(self, kind, identity)

    def close_connection(self, identity: str, reason: str) -> bool:
        """Note what was asked for."""
        if all(row["id"] != identity for row in self.connections):
            return False
        self.closed.append((identity, reason))
        return True

    def order(self, order: Order) -> None:
        """Note what was ordered; only what is known can be."""
        if order.identity not in self.links:
            raise NotFound(f"there is no '{order.identity}'")
        self.orders.append(order)


class Console:
    """A broker in memory and somebody who manages it."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self.broker = Broker(settings or EngineSettings())
        self.plant = Plant(self.broker)
        self.node = ManagementNode(self.broker, self.plant)

    def ask(self, method: str, to: object, body: object = None, *, owner: object = "me") -> Answer:
        """Send a request and read its answer."""
        return decode_answer(at_a_stretch(self.node.respond(encode_request(method, to, body), owner)))

    def publish(self, target: Target, count: int) -> None:
        """Put messages where a publisher would."""
        mailbox = Mailbox(lambda: None)
        publisher = self.broker.publisher(mailbox, "publisher", target, None)
        self.broker.publish(publisher, target, Run(0, [b"message"] * count, ATTRIBUTES), NOW)
        while self.broker.turn(NOW):
            pass
        self.broker.retire(publisher)


ATTRIBUTES = Attributes()
NOW = Now(monotonic=100.0, wall=1_700_000_000.0)
