"""What exists: the definitions of queues, exchanges and bindings, and the rules for changing them.

Everything here is names and definitions. The queues themselves belong to the broker, which asks first, and
learns which exchanges go along with what it removes. The rules are those of 0.9.1 [0-9-1 3.1], which AMQP 1.0
leaves to the broker:

- declaring what exists is fine when it is the same, down to the arguments;
- names with the prefix ``amq.`` are the broker's, names are free of line breaks;
- the default exchange cannot be declared, deleted or bound;
- a binding goes when one of its ends goes, and an auto-delete exchange goes with the last binding that leaves
  it;
- an exclusive queue is its owner's alone; to a dynamic one, which exists to be answered to, anybody may
  publish.

``version`` changes whenever a route may have changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.engine.arguments import check_exchange_arguments, check_queue_arguments, frozen, queue_type
from core.engine.routing import DEFAULT_EXCHANGE, X_MATCH_VALUES, Edge, Exchange, Node
from core.engine.settings import EngineSettings
from core.errors import Forbidden, Inequivalent, Invalid, LimitReached, Locked, NotFound
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration

RESERVED_PREFIX = "amq."

BUILT_IN_EXCHANGES: Mapping[str, ExchangeType] = {
    "amq.direct": ExchangeType.DIRECT,
    "amq.fanout": ExchangeType.FANOUT,
    "amq.topic": ExchangeType.TOPIC,
    "amq.headers": ExchangeType.HEADERS,
    "amq.match": ExchangeType.HEADERS,
}


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue as it was declared, and by whom."""

    declaration: QueueDeclaration
    owner: object
    """Who may use an exclusive queue; without meaning for others."""
    dynamic: bool


class Topology:
    """The definitions of one virtual host."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self.version = 0
        self.queues: dict[str, QueueDefinition] = {}
        self.exchanges: dict[str, Exchange] = {}
        self._bindings: dict[Edge, Binding] = {}
        self._leaving: dict[str, dict[Edge, None]] = {}
        """The bindings of each exchange that has some."""
        self._arriving: dict[Node, dict[Edge, None]] = {}
        for name, kind in BUILT_IN_EXCHANGES.items():
            self.exchanges[name] = Exchange(ExchangeDeclaration(name=name, type=kind, arguments={}))

    # --- queues ---------------------------------------------------------------------------------------------

    def admit_queue(self, declaration: QueueDeclaration, owner: object) -> bool:
        """True for a queue that was made, False for one that exists and is the same.

        Raises Locked, Inequivalent, Invalid, PreconditionFailed, Forbidden, LimitReached.
        """
        name = declaration.name
        existing = self.queues.get(name)
        if existing is not None:
            _check_owner(name, existing, owner)
            _check_same_queue(existing.declaration, declaration)
            return False
        self._check_name("queue", name)
        _check_not_reserved("queue", name)
        check_queue_arguments(name, declaration.arguments)
        self._add_queue(QueueDefinition(declaration, owner, dynamic=False))
        return True

    def admit_dynamic_queue(self, name: str, owner: object) -> QueueDefinition:
        """Make the queue behind a dynamic node. Raises Inequivalent for a name that exists, LimitReached."""
        if name in self.queues:
            raise Inequivalent(f"queue '{name}' exists already; a dynamic node needs a name of its own")
        declaration = QueueDeclaration(name=name, durable=False, exclusive=True, auto_delete=True, arguments={})
        definition = QueueDefinition(declaration, owner, dynamic=True)
        self._add_queue(definition)
        return definition

    def queue(self, name: str, owner: object) -> QueueDefinition:
        """The definition of a queue that this owner may use. Raises NotFound, Locked."""
        definition = self.queues.get(name)
        if definition is None:
            raise NotFound(f"there is no queue '{name}'")
        _check_owner(name, definition, owner)
        return definition

    def check_may_publish(self, name: str, owner: object) -> None:
        """Raises NotFound, Locked. A dynamic queue takes messages from everybody, exclusive as it is."""
        definition = self.queues.get(name)
        if definition is None or not definition.dynamic:
            self.queue(name, owner)

    def queues_of(self, owner: object) -> list[str]:
        """The exclusive queues of an owner."""
        return [
            name
            for name, definition in self.queues.items()
            if definition.declaration.exclusive and definition.owner == owner
        ]

    def forget_queue(self, name: str) -> None:
        """The queue is deleted, and its bindings with it."""
        del self.queues[name]
        self._forget_arriving(Node(True, name))
        self.version += 1

    def _add_queue(self, definition: QueueDefinition) -> None:
        limit = self._settings.queues_max
        if len(self.queues) >= limit:
            raise LimitReached(f"the limit of {limit} queues (queues_max) is reached; delete queues or raise it")
        self.queues[definition.declaration.name] = definition
        self.version += 1

    # --- exchanges ------------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """Any exchange but the default one. Raises NotFound."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"there is no exchange '{name}'")
        return exchange

    def admit_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """True for an exchange that was made. Raises Inequivalent, Invalid, PreconditionFailed, Forbidden,
        LimitReached."""
        name = declaration.name
        _check_not_default(name)
        existing = self.exchanges.get(name)
        if existing is not None:
            _check_same_exchange(existing.declaration, declaration)
            return False
        self._check_name("exchange", name)
        _check_not_reserved("exchange", name)
        check_exchange_arguments(name, declaration.arguments)
        limit = self._settings.exchanges_max
        if len(self.exchanges) >= limit:
            raise LimitReached(
                f"the limit of {limit} exchanges (exchanges_max) is reached; delete exchanges or raise it"
            )
        self.exchanges[name] = Exchange(declaration)
        self.version += 1
        return True

    def delete_exchange(self, name: str) -> None:
        """Idempotent. Raises Forbidden, Invalid."""
        _check_not_default(name)
        self._check_name("exchange", name)
        _check_not_reserved("exchange", name)
        if name in self.exchanges:
            self._forget_exchange(name)
            self.version += 1

    def _forget_exchange(self, name: str) -> None:
        del self.exchanges[name]
        for edge in self._leaving.pop(name, {}):
            del self._bindings[edge]
            self._forget_arrival(edge)
        self._forget_arriving(Node(False, name))

    # --- bindings -------------------------------------------------------------------------------------------

    def bind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises NotFound, Locked, Forbidden, Invalid, LimitReached."""
        self._check_ends(binding, owner)
        source = self.exchange(binding.source)
        if binding.destination_is_queue:
            self.queue(binding.destination, owner)
        else:
            self.exchange(binding.destination)
        if source.declaration.type is ExchangeType.HEADERS:
            _check_x_match(binding)
        edge = Edge.of(binding)
        if edge in self._bindings:
            return
        limit = self._settings.bindings_max
        if len(self._bindings) >= limit:
            raise LimitReached(f"the limit of {limit} bindings (bindings_max) is reached; unbind or raise it")
        self._bindings[edge] = binding
        self._leaving.setdefault(edge.source, {})[edge] = None
        self._arriving.setdefault(edge.destination, {})[edge] = None
        source.matcher.add(edge, binding.arguments)
        self.version += 1

    def unbind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises Forbidden, Locked."""
        self._check_ends(binding, owner)
        edge = Edge.of(binding)
        if edge in self._bindings:
            self._forget_arrival(edge)
            self._forget_departure(edge)
            self.version += 1

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Sequence[Binding]:
        """All bindings between two nodes; every queue is bound to the default exchange by its name."""
        if source == DEFAULT_EXCHANGE and destination_is_queue and destination in self.queues:
            return [_default_binding(destination)]
        edges = self._arriving.get(Node(destination_is_queue, destination), {})
        return [self._bindings[edge] for edge in edges if edge.source == source]

    def all_bindings(self) -> Sequence[Binding]:
        """Every binding that was made."""
        return list(self._bindings.values())

    def _check_ends(self, binding: Binding, owner: object) -> None:
        _check_not_default(binding.source)
        if not binding.destination_is_queue:
            _check_not_default(binding.destination)
        elif binding.destination in self.queues:
            self.queue(binding.destination, owner)

    def _forget_arriving(self, node: Node) -> None:
        for edge in self._arriving.pop(node, {}):
            self._forget_departure(edge)

    def _forget_arrival(self, edge: Edge) -> None:
        edges = self._arriving.get(edge.destination, {})
        edges.pop(edge, None)
        if not edges:
            self._arriving.pop(edge.destination, None)

    def _forget_departure(self, edge: Edge) -> None:
        """Take a binding out of its source, which goes too if it is auto-delete and this was the last one."""
        self._bindings.pop(edge, None)
        source = self.exchanges.get(edge.source)
        edges = self._leaving.get(edge.source)
        if source is None or edges is None:
            return
        del edges[edge]
        source.matcher.remove(edge)
        if not edges:
            del self._leaving[edge.source]
            if source.declaration.auto_delete:
                self._forget_exchange(edge.source)

    # --- names ----------------------------------------------------------------------------------------------

    def _check_name(self, kind: str, name: str) -> None:
        if not name:
            raise Invalid(f"a {kind} needs a name that is not empty")
        if "\r" in name or "\n" in name:
            raise Invalid(f"{kind} name {name!r} contains a line break")
        limit = self._settings.name_bytes_max
        if len(name.encode()) > limit:
            raise Invalid(f"{kind} name '{name[:40]}…' is longer than {limit} bytes")


def _check_owner(name: str, definition: QueueDefinition, owner: object) -> None:
    if definition.declaration.exclusive and definition.owner != owner:
        raise Locked(f"queue '{name}' is exclusive to another connection")


def _check_not_reserved(kind: str, name: str) -> None:
    if name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"{kind} '{name}': the prefix '{RESERVED_PREFIX}' is reserved for the broker")


def _check_not_default(exchange: str) -> None:
    if exchange == DEFAULT_EXCHANGE:
        raise Forbidden("the default exchange cannot be declared, deleted, bound or unbound")


def _check_x_match(binding: Binding) -> None:
    how = binding.arguments.get("x-match", "all")
    if how not in X_MATCH_VALUES:
        raise Invalid(f"binding argument x-match is {how!r}, it must be one of {', '.join(X_MATCH_VALUES)}")


def _default_binding(queue: str) -> Binding:
    return Binding(
        source=DEFAULT_EXCHANGE, destination=queue, destination_is_queue=True, binding_key=queue, arguments={}
    )


def _check_same_queue(existing: QueueDeclaration, wanted: QueueDeclaration) -> None:
    about = f"queue '{existing.name}'"
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "exclusive", existing.exclusive, wanted.exclusive)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same_arguments(
        about,
        {**existing.arguments, "x-queue-type": queue_type(existing.arguments)},
        {**wanted.arguments, "x-queue-type": queue_type(wanted.arguments)},
    )


def _check_same_exchange(existing: ExchangeDeclaration, wanted: ExchangeDeclaration) -> None:
    about = f"exchange '{existing.name}'"
    _check_same(about, "type", existing.type.value, wanted.type.value)
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same(about, "internal", existing.internal, wanted.internal)
    _check_same_arguments(about, existing.arguments, wanted.arguments)


def _check_same_arguments(about: str, existing: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    for name in sorted(existing.keys() | wanted.keys()):
        _check_same(about, f"argument {name}", existing.get(name), wanted.get(name))


def _check_same(about: str, field: str, existing: object, wanted: object) -> None:
    if frozen(existing) != frozen(wanted):
        raise Inequivalent(f"{about}: {field} is {_shown(existing)}, the declaration asks for {_shown(wanted)}")


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
