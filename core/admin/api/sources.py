"""What the HTTP API reads and asks. The process hands it in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.clock import Now
from core.interface import (
    Binding,
    Control,
    ExchangeDeclaration,
    Observable,
    QueueDeclaration,
    QueueInfo,
    Snapshot,
    StallSubject,
)
from core.observe.overview import Overview
from core.observe.stalls import Stall
from core.observe.timelines import Timelines
from core.row_walks import RowSource
from core.server.orders import Order
from core.slices import Walk

OPERATOR = object()
"""The owner of no queue."""


class ControlPlane(Observable, RowSource, Control, Protocol):
    """See :class:`core.control_plane.BrokerControl`."""

    def status(self) -> Snapshot:
        """The broker at a glance."""

    def why(self, kind: str, identity: str) -> Walk[Snapshot | None]:
        """What holds something up; None where there is none of that name."""

    def close_connection(self, identity: str, reason: str) -> bool:
        """False when there is none of that name."""

    def drain(self, *, wanted: bool) -> Snapshot:
        """Begin or end a drain. Returns how far it is."""

    def draining(self) -> Snapshot:
        """How far a drain is."""

    def order(self, order: Order) -> None:
        """Have a link or session do something. Raises NotFound, Invalid."""

    def set_policy(
        self, *, name: str, pattern: str, priority: int, apply_to: str, definition: Mapping[str, object]
    ) -> None:
        """Raises Invalid, LimitReached, PreconditionFailed."""

    def clear_policy(self, name: str) -> None:
        """Raises NotFound, PreconditionFailed."""

    def policy(self, name: str) -> Snapshot | None:
        """One policy."""


class Definitions(Protocol):
    """See :class:`core.admin.api.definitions.BrokerDefinitions`."""

    def show(self) -> Walk[Snapshot]:
        """All of them as one document."""

    def apply(self, value: Mapping[str, object]) -> Walk[None]:
        """Make what a document has and the broker has not. Raises Refusal, EngineError."""


class Topology(Protocol):
    """The part of :class:`core.interface.Topology` that is asked here."""

    def declare_queue(self, declaration: QueueDeclaration, owner: object) -> tuple[QueueInfo, bool]: ...
    def queue_info(self, name: str, owner: object) -> QueueInfo: ...
    def delete_queue(self, name: str, owner: object) -> int: ...
    def purge_queue(self, name: str, owner: object) -> Walk[int]: ...
    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool: ...
    def delete_exchange(self, name: str) -> None: ...
    def exchange_info(self, name: str) -> ExchangeDeclaration: ...
    def exchange_in_use(self, name: str) -> bool: ...
    def bind(self, binding: Binding, owner: object) -> None: ...
    def unbind(self, binding: Binding, owner: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What does not change while the broker runs."""

    version: str
    node: str
    users: Callable[[], Sequence[str]]
    """Names of those that there are now."""
    limits: Mapping[str, int]
    """Configured ones, by what they limit: queues, exchanges, bindings, policies, unauthenticated."""
    flow_map_max: int
    live_clients_max: int
    queued_events_max: int = 8
    """Events that may wait for one client of the live stream: eight seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSources:
    """Where everything is read, and what is called to change something."""

    settled: Settled
    control: ControlPlane
    topology: Topology
    definitions: Definitions
    rows: Callable[[str], Iterator[Snapshot]]
    """The engine's rows of a kind, each made when it is asked for."""
    server: Observable
    """Rows of the kinds ``server`` and ``descriptors``."""
    connections: Callable[[str], Iterator[Sequence[Snapshot]]]
    """The rows of a kind, connection by connection."""
    stalls: Callable[[], Mapping[StallSubject, Stall]]
    lanes: Callable[[], Sequence[Snapshot]]
    """Those of the store: see :mod:`core.admin.api.store`."""
    overview: Overview
    timelines: Timelines
    uptime: Callable[[], float]
    """Seconds."""
    ready: Callable[[], bool]
    """New connections are welcome."""
    clock: Callable[[], Now]
    turn: Callable[[], None]
    """To be called when something was left to the engine."""
