"""The definitions of queues, exchanges and bindings, and the rules for changing them.

This module holds names and definitions only. The queues themselves belong to the broker, which asks this module before
it makes or deletes one. The rules are those of 0.9.1 [0-9-1 3.1]; AMQP 1.0 leaves them to the broker:

- declaring an existing queue or exchange succeeds if the declaration is the same, arguments included;
- names with the prefix ``amq.`` are reserved for the broker, and names have no line breaks;
- the default exchange cannot be declared, deleted or bound;
- a binding is deleted with its source or destination, and an auto-delete exchange with the last binding from it;
- an exclusive queue can be used by its owner only; but any client may publish to a dynamic queue, made for replies.

A durable change is recorded before it is made: if it cannot be recorded, it is not made and the client gets an error.
One removal is recorded in one piece, with up to 100 bindings. Recorded are queues and exchanges declared durable,
except exclusive queues and the built-in exchanges, and bindings whose source and destination both outlive the broker.

A queue or exchange with more bindings is also removed at once, together with the first of them. The other bindings are
*left over*: they route nothing, are not listed, and are removed in steps by ``go_on_removing``. Until then the name
cannot be declared again, because they would lead to the new queue or exchange. The next start removes those that a
crash leaves.

``version`` increases whenever the routing may have changed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TYPE_CHECKING

from core.engine.options.arguments import check_exchange_arguments, check_queue, check_same_exchange, check_same_queue
from core.engine.quorum.group_numbers import size_in
from core.engine.routing.edges import BindingIndex, Edge, Node
from core.engine.routing.exchanges import DEFAULT_EXCHANGE, Exchange
from core.engine.routing.names import check_name, check_not_default, check_not_reserved, check_x_match, default_binding
from core.engine.routing.recorder import DefinitionsRecorder, NothingRecorded
from core.errors import (
    Inequivalent,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    StillGoing,
)
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definitions import Definitions
from core.work import Work

if TYPE_CHECKING:  # commands that read a definitions file import this module, and the configuration takes 150 ms
    from core.config.engine import EngineSettings

BUILT_IN_EXCHANGES: Mapping[str, ExchangeType] = {
    "amq.direct": ExchangeType.DIRECT,
    "amq.fanout": ExchangeType.FANOUT,
    "amq.topic": ExchangeType.TOPIC,
    "amq.headers": ExchangeType.HEADERS,
    "amq.match": ExchangeType.HEADERS,
}


REMOVED_AT_ONCE = 100
"""The most bindings removed in one removal or one step: 0.5 to 1 ms, and 2 ms more if they are recorded. A round of the
event loop can have three such steps, and a peer may wait for two rounds."""

RECORD_WORK = 1_000
"""The cost of recording one change, in units of :mod:`core.work`: two files are written and synced, 0.3 to 0.6 ms of
processor time and several milliseconds on a slow disk. So one peer has two such changes in its turn."""


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue's declaration, with its owner and its identity."""

    declaration: QueueDeclaration
    owner: object
    """The owner of an exclusive queue; not used for other queues."""
    dynamic: bool
    identity: str
    """New with each declaration: a queue that is deleted and declared again has another identity."""
    id: int | None = None
    """Its number in the recorded definitions, never used twice; None if the queue does not outlive the broker."""

    @property
    def group_size(self) -> int:
        """How many nodes of a cluster should keep it; see :func:`core.engine.quorum.group_numbers.size_in`."""
        return size_in(self.identity)


def numbered_identities() -> Callable[[], str]:
    """Return a generator of identities 1, 2, 3 and so on, for a broker without a source of randomness."""
    numbers = count(1)
    return lambda: f"{next(numbers):032x}"


def own_alternate(declaration: ExchangeDeclaration) -> str | None:
    """Return the alternate exchange of an exchange's own argument."""
    alternate = declaration.arguments.get("alternate-exchange")
    return alternate if isinstance(alternate, str) else None


@dataclass(slots=True)
class _Removal:
    """The queues, exchanges and bindings of one removal."""

    queues: dict[str, None] = field(default_factory=dict)
    exchanges: dict[str, None] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)


class Topology:
    """The definitions of one virtual host."""

    def __init__(
        self,
        settings: "EngineSettings",
        *,
        recorder: DefinitionsRecorder | None = None,
        alternate: Callable[[ExchangeDeclaration], str | None] = own_alternate,
        new_identity: Callable[[], str] | None = None,
        removed_at_once: int = REMOVED_AT_ONCE,
        work: Work | None = None,
        beside: "Callable[[], Sequence[Topology]] | None" = None,
        lives_elsewhere: Callable[[str], bool] = lambda name: False,
        found_elsewhere: "Callable[[QueueDefinition], None]" = lambda definition: None,
    ) -> None:
        """``alternate`` returns the alternate exchange in force for an exchange; see :meth:`refresh_alternate`.

        ``new_identity`` returns an identity for each declared queue, which no other declaration ever gets. Without it
        identities are numbers, which other brokers use too. ``beside`` returns the topologies of all virtual hosts,
        this one among them, because the limits hold for their sum; None where it is the only one. A queue that is not
        declared here and ``lives_elsewhere`` is defined when it is first named, and ``found_elsewhere`` is told."""
        self._lives_elsewhere, self._found_elsewhere = lives_elsewhere, found_elsewhere
        self._settings, self._alternate, self._removed_at_once = settings, alternate, removed_at_once
        self._new_identity, self._work = new_identity or numbered_identities(), work or Work()
        self._recorder: DefinitionsRecorder = recorder or NothingRecorded()
        self._all = beside or (lambda: (self,))
        self.queues_max: int | None = None
        """The limit of this virtual host alone; None for none."""
        self.version = 0
        self.queues: dict[str, QueueDefinition] = {}
        self.exchanges: dict[str, Exchange] = {}
        self._owned: dict[object, dict[str, None]] = {}
        """The exclusive queues of each owner."""
        self._bindings = BindingIndex()
        self.going: dict[Node, bool] = {}
        """Deleted queues and exchanges with bindings left over. The value says whether the queue or exchange was
        recorded."""
        self._stuck: PreconditionFailed | None = None
        """Why the last step to remove left-over bindings failed; None if it did not."""
        self._orphans: list[Binding] = []
        """Recorded bindings whose source or destination a start did not find."""
        for name, kind in BUILT_IN_EXCHANGES.items():
            self._add_exchange(ExchangeDeclaration(name=name, type=kind, arguments={}))

    def restore(self, stored: Definitions) -> None:
        """Load definitions that were recorded before a restart, without recording or checking them again.

        A binding without its source or destination is left out.
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
        with suppress(PreconditionFailed):  # on a full disk they stay until a name is declared
            self._forget_orphans()
        for name in self.exchanges:
            self.refresh_alternate(name)
        self.version += 1

    # --- queues ---------------------------------------------------------------------------------------------

    def admit_queue(self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False) -> bool:
        """Declare a queue. Returns True if it is new, False if it exists with the same declaration.

        Raises Locked, Inequivalent, Invalid, PreconditionFailed, Forbidden, LimitReached.
        """
        name = declaration.name
        existing = self.queues.get(name)
        if existing is not None:
            _check_owner(name, existing, owner)
            check_same_queue(existing.declaration, declaration)
            return False
        definition = self.new_queue(declaration, owner, named_by_broker=named_by_broker)
        if self.keeps(declaration):
            number = self._recorder.add_queue(declaration, definition.identity)
            definition = replace(definition, id=number)
            self._work.spent += RECORD_WORK
        self.add_queue(definition)
        return True

    def new_queue(
        self,
        declaration: QueueDeclaration,
        owner: object,
        *,
        named_by_broker: bool,
        beside: int = 0,
        identity: str | None = None,
    ) -> QueueDefinition:
        """Return the definition of a queue that does not exist, without adding it. Raises as :meth:`admit_queue`.
        ``beside``: how many others are to be added first. ``identity``: None for a new one."""
        name = declaration.name
        check_name("queue", name)
        if not named_by_broker:
            check_not_reserved("queue", name)
        check_queue(declaration)
        self._check_room_for_queue(beside)
        self._check_gone(Node(True, name))
        return QueueDefinition(declaration, owner, dynamic=False, identity=identity or self._new_identity())

    def keeps(self, declaration: QueueDeclaration) -> bool:
        """Return whether a queue outlives the broker, and so is recorded."""
        return _is_kept_queue(declaration)

    def has_bindings(self, name: str) -> bool:
        """Return whether anything is bound to a queue."""
        return bool(self._bindings.arriving(Node(True, name)))

    def admit_dynamic_queue(self, name: str, owner: object) -> QueueDefinition:
        """Declare the queue of a dynamic node. Raises Inequivalent if the name exists, LimitReached."""
        if name in self.queues or Node(True, name) in self.going:
            raise Inequivalent(f"queue '{name}' exists already; a dynamic node needs a name of its own")
        declaration = QueueDeclaration(name=name, durable=False, exclusive=True, auto_delete=True, arguments={})
        self._check_room_for_queue()
        definition = QueueDefinition(declaration, owner, dynamic=True, identity=self._new_identity())
        self.add_queue(definition)
        return definition

    def queue(self, name: str, owner: object) -> QueueDefinition:
        """Return the definition of a queue that this owner may use. Raises NotFound, Locked."""
        definition = self.queues.get(name)
        if definition is None:
            definition = self.sought(name)
        _check_owner(name, definition, owner)
        return definition

    def sought(self, name: str) -> QueueDefinition:
        """Define a queue that lives on another node. Raises NotFound if there is none of the name, LimitReached."""
        if not self._lives_elsewhere(name) or Node(True, name) in self.going:
            raise NotFound(f"there is no queue '{name}'")
        self._check_room_for_queue()
        declaration = QueueDeclaration(name=name, durable=False, arguments={})
        definition = QueueDefinition(declaration, None, dynamic=False, identity=self._new_identity())
        self.add_queue(definition)
        self._found_elsewhere(definition)
        return definition

    def check_may_publish(self, name: str, owner: object) -> None:
        """Raises NotFound, Locked. A dynamic queue takes messages from all clients, although it is exclusive."""
        definition = self.queues.get(name)
        if definition is None or not (definition.dynamic or self._recorder.takes_all):  # nodes publish for any client
            self.queue(name, owner)

    def queues_of(self, owner: object) -> list[str]:
        """Return the exclusive queues of an owner."""
        return list(self._owned.get(owner, ()))

    def forget_queue(self, name: str) -> int:
        """Delete a queue's definition and its bindings. Returns how many bindings were removed now. Raises
        PreconditionFailed."""
        removal = _Removal(queues={name: None})
        self._take_along(removal, self._some_edges(Node(True, name)))
        return self._remove(removal)

    def recorded(self, definition: QueueDefinition) -> QueueDefinition:
        """Record a queue that does not exist, add it, and return its definition. Raises PreconditionFailed."""
        if self.keeps(definition.declaration):
            definition = replace(definition, id=self._recorder.add_queue(definition.declaration, definition.identity))
        self.add_queue(definition)
        return definition

    def ends_with(self, queue: str | None, binding: Binding | None = None) -> Sequence[str]:
        """Return the auto-delete exchanges that are deleted with a queue or a binding."""
        removal = _Removal()
        edges = self._some_edges(Node(True, queue)) if queue is not None else []
        self._take_along(removal, edges if binding is None else [Edge.of(binding)])
        return list(removal.exchanges)

    def remove_exactly(self, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """Remove these and no auto-delete exchange beside them. Missing ones are ignored. Raises PreconditionFailed."""
        there = [name for name in exchanges if name in self.exchanges]
        removal = _Removal(dict.fromkeys(queues), dict.fromkeys(there))
        edges = [edge for edge in map(Edge.of, bindings) if edge in self._bindings.all]
        for node in (*(Node(True, name) for name in queues), *(Node(False, name) for name in there)):
            edges += self._some_edges(node)
        removal.edges = dict.fromkeys(edges)
        self._remove(removal)

    def drop_queue(self, name: str) -> None:
        """Remove a queue without bindings whose removal is recorded."""
        self._take_out(_Removal(queues={name: None}))

    def _check_room_for_queue(self, beside: int = 0) -> None:
        if self.queues_max is not None and len(self.queues) + beside >= self.queues_max:
            raise LimitReached(f"the limit of {self.queues_max} queues in this virtual host (max-queues) is reached")
        limit = self._settings.queues_max
        if sum(len(one.queues) for one in self._all()) + beside >= limit:
            raise LimitReached(f"the limit of {limit} queues (queues_max) is reached; delete queues or raise it")

    def add_queue(self, definition: QueueDefinition) -> None:
        """Add a queue that is recorded, if it is to be recorded."""
        self.queues[definition.declaration.name] = definition
        if definition.declaration.exclusive:
            self._owned.setdefault(definition.owner, {})[definition.declaration.name] = None
        self.version += 1

    # --- exchanges ------------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """Return an exchange other than the default one. Raises NotFound."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"there is no exchange '{name}'")
        return exchange

    def admit_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """Declare an exchange. Returns True if it is new. Raises Inequivalent, Invalid, PreconditionFailed, Forbidden,
        LimitReached."""
        name = declaration.name
        check_not_default(name)
        existing = self.exchanges.get(name)
        if existing is not None:
            check_same_exchange(existing.declaration, declaration)
            return False
        check_name("exchange", name)
        check_not_reserved("exchange", name)
        check_exchange_arguments(name, declaration.arguments)
        limit = self._settings.exchanges_max
        if sum(len(one.exchanges) for one in self._all()) >= limit:
            raise LimitReached(
                f"the limit of {limit} exchanges (exchanges_max) is reached; delete exchanges or raise it"
            )
        self._check_gone(Node(False, name))
        if declaration.durable or self._recorder.takes_all:
            self._recorder.add_exchange(declaration)
            self._work.spent += RECORD_WORK
        self._add_exchange(declaration)
        self.version += 1
        return True

    def delete_exchange(self, name: str) -> int:
        """Idempotent. Returns how many bindings were removed now. Raises Forbidden, Invalid, PreconditionFailed."""
        check_not_default(name)
        check_name("exchange", name)
        check_not_reserved("exchange", name)
        if name not in self.exchanges:
            return 0
        removal = _Removal()
        self._take_along(removal, self._edges_of_exchange(removal, name))
        return self._remove(removal)

    def is_source(self, name: str) -> bool:
        """Return whether the exchange is the source of a binding that is not left over."""
        edges, known = self._bindings.leaving(name), self._bindings.all
        return any(self.leads_somewhere(known[edge]) for edge in edges) if self.going else bool(edges)

    def refresh_alternate(self, name: str) -> None:
        """Update the alternate exchange of an exchange after a policy has changed. Does nothing if the exchange does
        not exist."""
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
            check_x_match(binding)
        edge = Edge.of(binding)
        if edge in self._bindings.all:
            return
        limit = self._settings.bindings_max
        if sum(one.bindings_count for one in self._all()) >= limit:
            raise LimitReached(f"the limit of {limit} bindings (bindings_max) is reached; unbind or raise it")
        if self.keeps_binding(binding) or self._recorder.takes_all:
            self._recorder.add_binding(binding)
            self._work.spent += RECORD_WORK
        self._add_binding(binding)
        self.version += 1

    def unbind(self, binding: Binding, owner: object) -> int:
        """Idempotent. Returns how many bindings were removed, with those of auto-delete exchanges that are deleted with
        it. Raises Forbidden, Locked, PreconditionFailed."""
        self._check_ends(binding, owner)
        edge = Edge.of(binding)
        if edge not in self._bindings.all or not self.leads_somewhere(binding):
            return 0
        removal = _Removal()
        self._take_along(removal, [edge])
        return self._remove(removal)

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """Iterate over the bindings between two nodes; every queue is bound to the default exchange by its name.
        Iterates over a copy, because other tasks may run meanwhile. Yields None for a binding from another source and
        for one that was removed."""
        if source == DEFAULT_EXCHANGE and destination_is_queue and destination in self.queues:
            return iter([default_binding(destination)])
        if source not in self.exchanges or destination not in (self.queues if destination_is_queue else self.exchanges):
            return iter(())
        edges = list(self._bindings.arriving(Node(destination_is_queue, destination)))
        return (self._bindings.all.get(edge) if edge.source == source else None for edge in edges)

    def has_binding(self, binding: Binding) -> bool:
        """Return whether there is this binding, also if it is left over."""
        return Edge.of(binding) in self._bindings.all

    def leaving(self, exchange: str, most: int) -> Sequence[Binding]:
        """Return some of the bindings from an exchange."""
        return [self._bindings.all[edge] for edge in islice(self._bindings.leaving(exchange), most)]

    def all_bindings(self) -> Sequence[Binding]:
        """Return all bindings, with those left over."""
        return list(self._bindings.all.values())

    def leads_somewhere(self, binding: Binding) -> bool:
        """Return whether source and destination of a binding exist: it is not left over."""
        ends = self.queues if binding.destination_is_queue else self.exchanges
        return binding.source in self.exchanges and binding.destination in ends

    @property
    def bindings_count(self) -> int:
        """How many bindings there are without those left over. A left-over binding without both its ends is subtracted
        twice."""
        bindings = self._bindings
        arriving = sum(len(bindings.arriving(node)) for node in self.going)
        leaving = sum(len(bindings.leaving(node.name)) for node in self.going if not node.is_queue)
        return len(bindings.all) - arriving - leaving

    def _check_ends(self, binding: Binding, owner: object) -> None:
        check_not_default(binding.source)
        if not binding.destination_is_queue:
            check_not_default(binding.destination)
        elif binding.destination in self.queues:
            self.queue(binding.destination, owner)

    def _add_binding(self, binding: Binding) -> None:
        edge = Edge.of(binding)
        self._bindings.add(edge, binding)
        self.exchanges[edge.source].matcher.add(edge, binding.arguments)

    # --- removing -------------------------------------------------------------------------------------------

    def go_on_removing(self) -> int:
        """Remove some of the bindings left over, and return how many. Raises PreconditionFailed: try again later."""
        removal = _Removal()
        self._take_along(removal, self._some_edges(next(iter(self.going))))
        try:
            removed = self._remove(removal)
        except PreconditionFailed as error:
            self._stuck = error
            raise
        self._stuck = None
        return removed

    def _take_along(self, removal: _Removal, edges: list[Edge]) -> None:
        """Add these bindings to the removal, and the auto-delete exchanges whose last binding is removed, and their
        bindings, up to the limit of one removal."""
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
            if going[edge.source] == len(self._bindings.leaving(edge.source)):
                edges += self._edges_of_exchange(removal, edge.source)

    def _edges_of_exchange(self, removal: _Removal, name: str) -> list[Edge]:
        """Add the exchange to the removal. Returns the bindings from it and to it."""
        removal.exchanges[name] = None
        return self._some_edges(Node(False, name))

    def _some_edges(self, node: Node) -> list[Edge]:
        """Return the bindings of a queue or exchange, up to the limit of one removal."""
        return self._bindings.some_of(node, self._removed_at_once)

    def _remove(self, removal: _Removal) -> int:
        self._record_removal(removal)
        return self._take_out(removal)

    def _take_out(self, removal: _Removal) -> int:
        nodes = [*(Node(True, name) for name in removal.queues), *(Node(False, name) for name in removal.exchanges)]
        self.going |= {node: self._is_kept_end(node) for node in nodes}
        for edge in removal.edges:
            self._bindings.remove(edge)
            if (
                edge.source not in removal.exchanges and edge.source in self.exchanges
            ):  # else the whole matcher is removed
                self.exchanges[edge.source].matcher.remove(edge)
        for name in removal.exchanges:
            del self.exchanges[name]
        for name in removal.queues:
            definition = self.queues.pop(name)
            if definition.declaration.exclusive:
                owned = self._owned[definition.owner]
                del owned[name]
                if not owned:
                    del self._owned[definition.owner]
        self.going = {node: kept for node, kept in self.going.items() if self._bindings.has_some_of(node)}
        self.version += 1
        return len(removal.edges)

    def _check_gone(self, node: Node) -> None:
        """Raises StillGoing if the name has bindings left over, PreconditionFailed if those cannot be removed."""
        what = f"{'queue' if node.is_queue else 'exchange'} '{node.name}'"
        if node in self.going:
            if self._stuck is not None:
                raise PreconditionFailed(f"{what} cannot be declared before its old bindings are gone: {self._stuck}")
            raise StillGoing(f"{what} is being deleted, and its bindings with it; declare it again in a moment")
        if self._orphans:
            self._forget_orphans()

    def _forget_orphans(self) -> None:
        """Remove the orphans from the record. Raises PreconditionFailed."""
        if self._orphans:
            self._recorder.remove(queues=(), exchanges=(), bindings=self._orphans)
        sources = {binding.source: None for binding in self._orphans}
        self._orphans = []
        for name in sources:
            exchange = self.exchanges.get(name)
            if exchange is not None and exchange.declaration.auto_delete and not self._bindings.leaving(name):
                removal = _Removal()
                self._take_along(removal, self._edges_of_exchange(removal, name))
                self._remove(removal)

    def _record_removal(self, removal: _Removal) -> None:
        queues = [name for name in removal.queues if self.queues[name].id is not None]
        exchanges = [name for name in removal.exchanges if _is_kept_exchange(self.exchanges[name].declaration)]
        bindings = [self._bindings.all[edge] for edge in removal.edges]
        bindings = [binding for binding in bindings if self.keeps_binding(binding)]
        if queues or exchanges or bindings:
            self._recorder.remove(queues=queues, exchanges=exchanges, bindings=bindings)
            self._work.spent += RECORD_WORK

    def keeps_binding(self, binding: Binding) -> bool:
        """Return whether a binding outlives the broker, and so is recorded."""
        ends = Node(False, binding.source), Node(binding.destination_is_queue, binding.destination)
        return all(map(self._is_kept_end, ends))

    def _is_kept_end(self, node: Node) -> bool:
        if node in self.going:
            return self.going[node]
        if node.is_queue:
            return _is_kept_queue(self.queues[node.name].declaration)
        return self.exchanges[node.name].declaration.durable


def _is_kept_queue(declaration: QueueDeclaration) -> bool:
    return declaration.durable and not declaration.exclusive


def _is_kept_exchange(declaration: ExchangeDeclaration) -> bool:
    return declaration.durable and declaration.name not in BUILT_IN_EXCHANGES


def _check_owner(name: str, definition: QueueDefinition, owner: object) -> None:
    if definition.declaration.exclusive and definition.owner != owner:
        raise Locked(f"queue '{name}' is exclusive to another connection")
