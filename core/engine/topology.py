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

What is durable is recorded first and done then: a change that could not be recorded does not happen, and the client
that asked for it is told so. All that one removal takes along is recorded together, up to 250 bindings. Durable are the
queues and exchanges that say so, except exclusive queues and the built-in exchanges, and the bindings whose two ends
outlive the broker.

A queue or exchange that has more bindings goes at once too, with the first of them. The others are *left over*: they
lead nowhere, no list shows them, and ``go_on_removing`` removes some at a time. Until they are gone the name cannot be
declared again, or they would lead to something new. What a crash leaves of them is removed at the start.

``version`` changes whenever a route may have changed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import Protocol, TypeVar

from core.engine.arguments import check_exchange_arguments, check_queue
from core.engine.edges import Edge, Node
from core.engine.equivalence import check_same_exchange, check_same_queue
from core.engine.routing import DEFAULT_EXCHANGE, X_MATCH_VALUES, Exchange
from core.engine.settings import EngineSettings
from core.errors import (
    Forbidden,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    StillGoing,
)
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definitions import Definitions

RESERVED_PREFIX = "amq."

BUILT_IN_EXCHANGES: Mapping[str, ExchangeType] = {
    "amq.direct": ExchangeType.DIRECT,
    "amq.fanout": ExchangeType.FANOUT,
    "amq.topic": ExchangeType.TOPIC,
    "amq.headers": ExchangeType.HEADERS,
    "amq.match": ExchangeType.HEADERS,
}


REMOVED_AT_ONCE = 250
"""Bindings that one removal takes along, or that one step removes of those left over: 1 ms, and 3 to 4 more where they
are recorded. A round of the event loop may have three such steps."""


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue as it was declared, and by whom."""

    declaration: QueueDeclaration
    owner: object
    """Who may use an exclusive queue; without meaning for others."""
    dynamic: bool
    identity: str
    """New at every declaration: a queue that is deleted and declared again has another one."""
    id: int | None = None
    """Its number in the recorded definitions, never used twice; None for a queue that does not outlive the broker."""


class DefinitionsRecorder(Protocol):
    """Keeps what is durable. Each method raises PreconditionFailed when it cannot, and has done nothing then."""

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int | None:
        """Returns the queue's number; None from a recorder that keeps nothing."""

    def add_exchange(self, declaration: ExchangeDeclaration) -> None: ...

    def add_binding(self, binding: Binding) -> None: ...

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """Remove all of these, or none."""


class NothingRecorded:
    """For a broker that keeps nothing."""

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> None:
        """See :class:`DefinitionsRecorder`."""

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        """See :class:`DefinitionsRecorder`."""

    def add_binding(self, binding: Binding) -> None:
        """See :class:`DefinitionsRecorder`."""

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """See :class:`DefinitionsRecorder`."""


def numbered_identities() -> Callable[[], str]:
    """Identities 1, 2, 3 and so on, for a broker to which no randomness is handed in."""
    numbers = count(1)
    return lambda: f"{next(numbers):032x}"


def own_alternate(declaration: ExchangeDeclaration) -> str | None:
    """The alternate exchange that an exchange names itself."""
    alternate = declaration.arguments.get("alternate-exchange")
    return alternate if isinstance(alternate, str) else None


@dataclass(slots=True)
class _Removal:
    """What goes together."""

    queues: dict[str, None] = field(default_factory=dict)
    exchanges: dict[str, None] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)


class Topology:
    """The definitions of one virtual host."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        recorder: DefinitionsRecorder | None = None,
        alternate: Callable[[ExchangeDeclaration], str | None] = own_alternate,
        new_identity: Callable[[], str] | None = None,
        removed_at_once: int = REMOVED_AT_ONCE,
    ) -> None:
        """``alternate`` says which alternate exchange is in force for an exchange; see :meth:`refresh_alternate`.

        ``new_identity`` gives each declared queue its identity, a name that no other declaration ever gets; without it
        identities are numbers, which another broker gives again.
        """
        self._settings = settings
        self._new_identity = new_identity or numbered_identities()
        self._recorder: DefinitionsRecorder = recorder or NothingRecorded()
        self._alternate = alternate
        self._removed_at_once = removed_at_once
        self.version = 0
        self.queues: dict[str, QueueDefinition] = {}
        self.exchanges: dict[str, Exchange] = {}
        self._owned: dict[object, dict[str, None]] = {}
        """The exclusive queues of each owner that has some."""
        self._bindings: dict[Edge, Binding] = {}
        self._leaving: dict[str, dict[Edge, None]] = {}
        """The bindings of each exchange that has some."""
        self._arriving: dict[Node, dict[Edge, None]] = {}
        self._going: dict[Node, bool] = {}
        """What is gone and has bindings left over; whether it was recorded, as they are then."""
        self._stuck: PreconditionFailed | None = None
        """Why the last step to remove them could not be recorded."""
        self._orphans: list[Binding] = []
        """Recorded bindings that a start found without one of their ends."""
        for name, kind in BUILT_IN_EXCHANGES.items():
            self._add_exchange(ExchangeDeclaration(name=name, type=kind, arguments={}))

    def restore(self, stored: Definitions) -> None:
        """Take over what was recorded before a restart, without recording or checking it again.

        A binding that has lost an end led nowhere and is left out.
        """
        for exchange in stored.exchanges:
            self._add_exchange(exchange)
        for queue in stored.queues:
            definition = QueueDefinition(
                queue.declaration, owner=None, dynamic=False, identity=queue.identity, id=queue.id
            )
            self.queues[queue.declaration.name] = definition
        for binding in stored.bindings:
            if self.leads_somewhere(binding):
                self._add_binding(binding)
            else:
                self._orphans.append(binding)
        with suppress(PreconditionFailed):  # a full disk: then before anything is recorded that they could lead to
            self._forget_orphans()
        for name in self.exchanges:
            self.refresh_alternate(name)
        self.version += 1

    # --- queues ---------------------------------------------------------------------------------------------

    def admit_queue(self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False) -> bool:
        """True for a queue that was made, False for one that exists and is the same.

        Raises Locked, Inequivalent, Invalid, PreconditionFailed, Forbidden, LimitReached.
        """
        name = declaration.name
        existing = self.queues.get(name)
        if existing is not None:
            _check_owner(name, existing, owner)
            check_same_queue(existing.declaration, declaration)
            return False
        self._check_name("queue", name)
        if not named_by_broker:
            _check_not_reserved("queue", name)
        check_queue(declaration)
        self._check_room_for_queue()
        self._check_gone(Node(True, name))
        identity = self._new_identity()
        number = self._recorder.add_queue(declaration, identity) if _is_kept_queue(declaration) else None
        self._add_queue(QueueDefinition(declaration, owner, dynamic=False, identity=identity, id=number))
        return True

    def admit_dynamic_queue(self, name: str, owner: object) -> QueueDefinition:
        """Make the queue behind a dynamic node. Raises Inequivalent for a name that exists, LimitReached."""
        if name in self.queues or Node(True, name) in self._going:
            raise Inequivalent(f"queue '{name}' exists already; a dynamic node needs a name of its own")
        declaration = QueueDeclaration(name=name, durable=False, exclusive=True, auto_delete=True, arguments={})
        self._check_room_for_queue()
        definition = QueueDefinition(declaration, owner, dynamic=True, identity=self._new_identity())
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
        """Raises NotFound, Locked. A dynamic queue takes messages from all clients, exclusive as it is."""
        definition = self.queues.get(name)
        if definition is None or not definition.dynamic:
            self.queue(name, owner)

    def queues_of(self, owner: object) -> list[str]:
        """The exclusive queues of an owner."""
        return list(self._owned.get(owner, ()))

    def forget_queue(self, name: str) -> int:
        """The queue is to be deleted, and its bindings with it. Returns how many went now. Raises
        PreconditionFailed."""
        removal = _Removal(queues={name: None})
        self._take_along(removal, self._some_edges(Node(True, name)))
        return self._remove(removal)

    def _check_room_for_queue(self) -> None:
        limit = self._settings.queues_max
        if len(self.queues) >= limit:
            raise LimitReached(f"the limit of {limit} queues (queues_max) is reached; delete queues or raise it")

    def _add_queue(self, definition: QueueDefinition) -> None:
        self.queues[definition.declaration.name] = definition
        if definition.declaration.exclusive:
            self._owned.setdefault(definition.owner, {})[definition.declaration.name] = None
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
            check_same_exchange(existing.declaration, declaration)
            return False
        self._check_name("exchange", name)
        _check_not_reserved("exchange", name)
        check_exchange_arguments(name, declaration.arguments)
        limit = self._settings.exchanges_max
        if len(self.exchanges) >= limit:
            raise LimitReached(
                f"the limit of {limit} exchanges (exchanges_max) is reached; delete exchanges or raise it"
            )
        self._check_gone(Node(False, name))
        if declaration.durable:
            self._recorder.add_exchange(declaration)
        self._add_exchange(declaration)
        self.version += 1
        return True

    def delete_exchange(self, name: str) -> int:
        """Idempotent. Returns how many bindings went with it now. Raises Forbidden, Invalid, PreconditionFailed."""
        _check_not_default(name)
        self._check_name("exchange", name)
        _check_not_reserved("exchange", name)
        if name not in self.exchanges:
            return 0
        removal = _Removal()
        self._take_along(removal, self._edges_of_exchange(removal, name))
        return self._remove(removal)

    def is_source(self, name: str) -> bool:
        """True for an exchange that bindings leave which lead somewhere."""
        edges = self._leaving.get(name, ())
        return any(self.leads_somewhere(self._bindings[edge]) for edge in edges) if self._going else bool(edges)

    def refresh_alternate(self, name: str) -> None:
        """Ask anew which alternate exchange is in force for an exchange, if there is one of this name: a policy has
        changed."""
        exchange = self.exchanges.get(name)
        if exchange is not None:
            before, exchange.alternate = exchange.alternate, self._alternate(exchange.declaration)
            self.version += exchange.alternate != before

    def _add_exchange(self, declaration: ExchangeDeclaration) -> None:
        exchange = self.exchanges[declaration.name] = Exchange(declaration)
        exchange.alternate = self._alternate(declaration)

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
        if self.bindings_count >= limit:
            raise LimitReached(f"the limit of {limit} bindings (bindings_max) is reached; unbind or raise it")
        if self._is_kept_binding(binding):
            self._recorder.add_binding(binding)
        self._add_binding(binding)
        self.version += 1

    def unbind(self, binding: Binding, owner: object) -> int:
        """Idempotent. Returns how many bindings go: auto-delete exchanges may go along. Raises Forbidden, Locked,
        PreconditionFailed."""
        self._check_ends(binding, owner)
        edge = Edge.of(binding)
        if edge not in self._bindings or not self.leads_somewhere(binding):
            return 0
        removal = _Removal()
        self._take_along(removal, [edge])
        return self._remove(removal)

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """All bindings between two nodes; every queue is bound to the default exchange by its name. Those of now are
        walked, with None for each that is none of them or gone meanwhile: others may have their turn in between."""
        if source == DEFAULT_EXCHANGE and destination_is_queue and destination in self.queues:
            return iter([_default_binding(destination)])
        if source not in self.exchanges or destination not in (self.queues if destination_is_queue else self.exchanges):
            return iter(())
        edges = list(self._arriving.get(Node(destination_is_queue, destination), ()))
        return (self._bindings.get(edge) if edge.source == source else None for edge in edges)

    def all_bindings(self) -> Sequence[Binding]:
        """Every binding that was made, those left over among them."""
        return list(self._bindings.values())

    def leads_somewhere(self, binding: Binding) -> bool:
        """Both its ends are there: it is not left over."""
        ends = self.queues if binding.destination_is_queue else self.exchanges
        return binding.source in self.exchanges and binding.destination in ends

    @property
    def bindings_count(self) -> int:
        """How many there are; of those left over, one whose ends are both gone is taken off twice."""
        arriving = sum(len(self._arriving.get(node, ())) for node in self._going)
        leaving = sum(len(self._leaving.get(node.name, ())) for node in self._going if not node.is_queue)
        return len(self._bindings) - arriving - leaving

    def _check_ends(self, binding: Binding, owner: object) -> None:
        _check_not_default(binding.source)
        if not binding.destination_is_queue:
            _check_not_default(binding.destination)
        elif binding.destination in self.queues:
            self.queue(binding.destination, owner)

    def _add_binding(self, binding: Binding) -> None:
        edge = Edge.of(binding)
        self._bindings[edge] = binding
        self._leaving.setdefault(edge.source, {})[edge] = None
        self._arriving.setdefault(edge.destination, {})[edge] = None
        self.exchanges[edge.source].matcher.add(edge, binding.arguments)

    # --- removing -------------------------------------------------------------------------------------------

    @property
    def going(self) -> bool:
        """There are bindings left over."""
        return bool(self._going)

    def go_on_removing(self) -> int:
        """Remove some of the bindings left over. Returns how many. Raises PreconditionFailed: try again later."""
        removal = _Removal()
        self._take_along(removal, self._some_edges(next(iter(self._going))))
        try:
            removed = self._remove(removal)
        except PreconditionFailed as error:
            self._stuck = error
            raise
        self._stuck = None
        return removed

    def _take_along(self, removal: _Removal, edges: list[Edge]) -> None:
        """Enter these bindings, and the auto-delete exchanges whose last binding goes with them, and so on, as far as
        one removal goes."""
        going: Counter[str] = Counter()
        while edges and len(removal.edges) < self._removed_at_once:
            edge = edges.pop()
            if edge in removal.edges:
                continue
            removal.edges[edge] = None
            source = self.exchanges.get(edge.source)
            if source is None or edge.source in removal.exchanges or not source.declaration.auto_delete:
                continue
            going[edge.source] += 1
            if going[edge.source] == len(self._leaving[edge.source]):
                edges += self._edges_of_exchange(removal, edge.source)

    def _edges_of_exchange(self, removal: _Removal, name: str) -> list[Edge]:
        """Enter the exchange. Returns bindings on either side of it."""
        removal.exchanges[name] = None
        return self._some_edges(Node(False, name))

    def _some_edges(self, node: Node) -> list[Edge]:
        """The bindings of a queue or exchange, or as many as one removal may take along."""
        leaving = () if node.is_queue else self._leaving.get(node.name, ())
        return list(islice(chain(leaving, self._arriving.get(node, ())), self._removed_at_once))

    def _remove(self, removal: _Removal) -> int:
        self._record_removal(removal)
        nodes = [*(Node(True, name) for name in removal.queues), *(Node(False, name) for name in removal.exchanges)]
        self._going |= {node: self._is_kept_end(node) for node in nodes}
        for edge in removal.edges:
            del self._bindings[edge]
            if (
                edge.source not in removal.exchanges and edge.source in self.exchanges
            ):  # else its matcher goes as a whole
                self.exchanges[edge.source].matcher.remove(edge)
            _drop(self._leaving, edge.source, edge)
            _drop(self._arriving, edge.destination, edge)
        for name in removal.exchanges:
            del self.exchanges[name]
        for name in removal.queues:
            definition = self.queues.pop(name)
            if definition.declaration.exclusive:
                owned = self._owned[definition.owner]
                del owned[name]
                if not owned:
                    del self._owned[definition.owner]
        self._going = {node: kept for node, kept in self._going.items() if self._some_edges_left(node)}
        self.version += 1
        return len(removal.edges)

    def _some_edges_left(self, node: Node) -> bool:
        return node in self._arriving or (not node.is_queue and node.name in self._leaving)

    def _check_gone(self, node: Node) -> None:
        """Raises StillGoing for a name that has bindings left over, PreconditionFailed where they cannot be removed."""
        what = f"{'queue' if node.is_queue else 'exchange'} '{node.name}'"
        if node in self._going:
            if self._stuck is not None:
                raise PreconditionFailed(f"{what} cannot be declared before its old bindings are gone: {self._stuck}")
            raise StillGoing(f"{what} is being deleted, and its bindings with it; declare it again in a moment")
        if self._orphans:
            self._forget_orphans()

    def _forget_orphans(self) -> None:
        """Raises PreconditionFailed."""
        if self._orphans:
            self._recorder.remove(queues=(), exchanges=(), bindings=self._orphans)
        sources = {binding.source: None for binding in self._orphans}
        self._orphans = []
        for name in sources:
            exchange = self.exchanges.get(name)
            if exchange is not None and exchange.declaration.auto_delete and name not in self._leaving:
                removal = _Removal()
                self._take_along(removal, self._edges_of_exchange(removal, name))
                self._remove(removal)

    def _record_removal(self, removal: _Removal) -> None:
        queues = [name for name in removal.queues if self.queues[name].id is not None]
        exchanges = [name for name in removal.exchanges if _is_kept_exchange(self.exchanges[name].declaration)]
        bindings = [self._bindings[edge] for edge in removal.edges]
        bindings = [binding for binding in bindings if self._is_kept_binding(binding)]
        if queues or exchanges or bindings:
            self._recorder.remove(queues=queues, exchanges=exchanges, bindings=bindings)

    def _is_kept_binding(self, binding: Binding) -> bool:
        ends = Node(False, binding.source), Node(binding.destination_is_queue, binding.destination)
        return all(map(self._is_kept_end, ends))

    def _is_kept_end(self, node: Node) -> bool:
        if node in self._going:
            return self._going[node]
        if node.is_queue:
            return _is_kept_queue(self.queues[node.name].declaration)
        return self.exchanges[node.name].declaration.durable

    # --- names ----------------------------------------------------------------------------------------------

    def _check_name(self, kind: str, name: str) -> None:
        if not name:
            raise Invalid(f"a {kind} needs a name that is not empty")
        if "\r" in name or "\n" in name:
            raise Invalid(f"{kind} name {name!r} contains a line break")
        limit = self._settings.name_bytes_max
        if len(name.encode()) > limit:
            raise Invalid(f"{kind} name '{name[:40]}…' is longer than {limit} bytes")


EdgeKey = TypeVar("EdgeKey")


def _drop(edges: dict[EdgeKey, dict[Edge, None]], key: EdgeKey, edge: Edge) -> None:
    """Take an edge out of its group, and the group out when it was the last one."""
    group = edges[key]
    del group[edge]
    if not group:
        del edges[key]


def _is_kept_queue(declaration: QueueDeclaration) -> bool:
    return declaration.durable and not declaration.exclusive


def _is_kept_exchange(declaration: ExchangeDeclaration) -> bool:
    return declaration.durable and declaration.name not in BUILT_IN_EXCHANGES


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
