"""Makes the sources of the API from the parts of a broker process.

This module knows the broker, the server, the lanes and the sampler; the other modules of the admin server know only
:mod:`core.admin.api.sources`, apart from ``definitions.py``, which uses the broker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from core.admin.api.definitions import BrokerDefinitions
from core.admin.api.sources import ApiSources, ConstantValues
from core.admin.api.store import lane_row
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.interface import Snapshot
from core.observe.overview import Overview, OverviewSources
from core.observe.stalls import Stalls
from core.observe.timelines import Timelines
from core.server.run import Server, read_clocks
from core.server.sampler import Sampler
from core.store.lane import Lane

AMQP10 = "amqp10"
"""The name, in metrics, of the protocol whose publishers and consumers are links."""


def api_sources(
    settings: AdminSettings,
    *,
    control: BrokerControl,
    broker: Broker,
    server: Server,
    stalls: Stalls,
    traffic: Mapping[str, Traffic],
    lanes: Sequence[Lane],
    sampler: Sampler,
    users: Callable[[], Sequence[str]],
    limits: Mapping[str, int],
    version: str,
    node: str,
) -> ApiSources:
    """Return the sources of the API for one broker process."""
    started = read_clocks().monotonic
    links = traffic.get(AMQP10, Traffic())
    overview = Overview(
        OverviewSources(
            counts=lambda: [one.counts() for one in traffic.values()],
            connections=lambda: server.sockets[0],
            links=lambda: links.publishers + links.consumers,
            alarms=lambda: broker.snapshot("alarms"),
            stalls=lambda: stalls.current.values(),
            queues=broker.queue_figures,
            lag_counts=lambda: sampler.lag_counts,
            clock=read_clocks,
        )
    )
    timelines = Timelines(
        connections=lambda: server.connection_identities,
        rows={
            "links": partial(_rows_of, server, "links"),
            "sessions": partial(_rows_of, server, "sessions"),
            "channels": partial(_rows_of, server, "channels"),
            "queues": lambda _: ([row] for row in broker.queue_figures()),
        },
        stalls=lambda: stalls.current.values(),
        clock=read_clocks,
        things_max=settings.timelines_max,
    )
    return ApiSources(
        constants=ConstantValues(
            version=version,
            node=node,
            users=users,
            limits=limits,
            flow_map_max=settings.flow_map_max,
            live_clients_max=settings.live_clients_max,
        ),
        control=control,
        topology=broker,
        definitions=BrokerDefinitions(broker, version=version),
        rows=broker.rows,
        server=server,
        connections=server.connections,
        stalls=lambda: stalls.current,
        lanes=lambda: [lane_row(lane) for lane in lanes],
        overview=overview,
        timelines=timelines,
        uptime=lambda: read_clocks().monotonic - started,
        clock=read_clocks,
        ready=lambda: bool(server.listening_on) and not server.leaving,
        turn=server.turn,
    )


def _rows_of(server: Server, kind: str, connections: Iterable[str]) -> Iterator[Sequence[Snapshot]]:
    """The rows of a kind on some connections, those that have gone left out."""
    return (some for connection in connections for some in server.connections(kind, connection))
