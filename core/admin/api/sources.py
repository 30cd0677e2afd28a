"""What the HTTP API reads and calls. The broker process passes it in."""

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
"""The owner in whose name the API acts; it owns no queue."""


class ControlPlane(Observable, RowSource, Control, Protocol):
    """See :class:`core.control_plane.BrokerControl`."""

    def status(self) -> Snapshot:
        """Return the main facts about the broker."""

    def why(self, kind: str, identity: str) -> Walk[Snapshot | None]:
        """Return what blocks a connection, link or address; None if it does not exist."""

    def close_connection(self, identity: str, reason: str) -> bool:
        """Close a connection. Returns False if it does not exist."""

    def drain(self, *, wanted: bool) -> Snapshot:
        """Begin or end maintenance mode. Returns its progress."""

    def draining(self) -> Snapshot:
        """Return the progress of maintenance mode."""

    def order(self, order: Order) -> None:
        """Carry out an operator's order on a link or session. Raises NotFound and Invalid."""

    def set_policy(
        self, *, name: str, pattern: str, priority: int, apply_to: str, definition: Mapping[str, object]
    ) -> None:
        """Make or change a policy. Raises Invalid, LimitReached and PreconditionFailed."""

    def clear_policy(self, name: str) -> None:
        """Remove a policy. Raises NotFound and PreconditionFailed."""

    def policy(self, name: str) -> Snapshot | None:
        """Return the row of a policy; None if it does not exist."""


class Definitions(Protocol):
    """See :class:`core.admin.api.definitions.BrokerDefinitions`."""

    def show(self) -> Walk[Snapshot]:
        """Return all definitions as one document."""

    def apply(self, value: Mapping[str, object]) -> Walk[None]:
        """Make what a document has and the broker does not have. Raises Refusal and EngineError."""


class Topology(Protocol):
    """The part of :class:`core.interface.Topology` that the API uses."""

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
    """Values that do not change while the broker runs."""

    version: str
    node: str
    users: Callable[[], Sequence[str]]
    """Returns the names of the present users."""
    limits: Mapping[str, int]
    """The configured limits, by what they limit: queues, exchanges, bindings, policies, unauthenticated."""
    flow_map_max: int
    live_clients_max: int
    queued_events_max: int = 8
    """The most events that wait for one client of the live stream: those of eight seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSources:
    """All sources of the API, and the callables that change something."""

    settled: Settled
    control: ControlPlane
    topology: Topology
    definitions: Definitions
    rows: Callable[[str], Iterator[Snapshot]]
    """Returns the engine's rows of a kind. Each row is made when the iterator reaches it."""
    server: Observable
    """Rows of the kinds ``server`` and ``descriptors``."""
    connections: Callable[[str], Iterator[Sequence[Snapshot]]]
    """Returns the rows of a kind, connection by connection."""
    stalls: Callable[[], Mapping[StallSubject, Stall]]
    lanes: Callable[[], Sequence[Snapshot]]
    """Returns the rows of the store's lanes: see :mod:`core.admin.api.store`."""
    overview: Overview
    timelines: Timelines
    uptime: Callable[[], float]
    """Returns the seconds since the start."""
    ready: Callable[[], bool]
    """Returns whether the broker accepts new connections."""
    clock: Callable[[], Now]
    turn: Callable[[], None]
    """Has to be called after a call that leaves work to the engine."""
