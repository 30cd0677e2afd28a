"""What the HTTP API reads and calls. The broker process passes it in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.clock import Now
from core.interface import Observable, Snapshot, StallSubject, TopologyVerbs
from core.observe.overview import Overview
from core.observe.stalls import Stall
from core.observe.timelines import Timelines

if TYPE_CHECKING:  # both load the engine, of which the admin server knows nothing
    from core.admin.api.definitions import BrokerDefinitions
    from core.control_plane import BrokerControl


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantValues:
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

    constants: ConstantValues
    control: "BrokerControl"
    topology: TopologyVerbs
    definitions: "BrokerDefinitions"
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
