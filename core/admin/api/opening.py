"""Makes the HTTP API and its live stream over a control plane, and what they need recorded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from structlog.typing import FilteringBoundLogger

from core.admin.api import rabbitmq, rabbitmq_health, rabbitmq_users, rabbitmq_writes
from core.admin.api.application import Api
from core.admin.api.live import LiveFeed, live_operation
from core.clock import Now
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.interface import Snapshot
from core.observe.overview import Overview, OverviewSources
from core.observe.timelines import Timelines
from core.server.run import Server

AMQP10 = "amqp10"
"""The name, in metrics, of the protocol whose publishers and consumers are links."""


def record(
    control: BrokerControl, settings: AdminSettings, *, traffic: Mapping[str, Traffic], clock: Callable[[], Now]
) -> tuple[Overview, Timelines]:
    """Give a control plane its overview and time lines, and return both; the admin server's samples fill them."""
    links = traffic.get(AMQP10, Traffic())
    overview = Overview(
        OverviewSources(
            counts=lambda: [one.counts() for one in traffic.values()],
            connections=lambda: control.serving.sockets[0],
            links=lambda: links.publishers + links.consumers,
            alarms=lambda: control.snapshot("alarms"),
            stalls=lambda: control.stalls.current.values(),
            queues=control.broker.queue_figures,
            lag_counts=lambda: control.measuring.lag_counts,
            clock=clock,
        )
    )
    timelines = Timelines(
        connections=lambda: control.serving.connection_identities,
        rows={
            "links": partial(_rows_of, control.serving, "links"),
            "sessions": partial(_rows_of, control.serving, "sessions"),
            "channels": partial(_rows_of, control.serving, "channels"),
            "queues": lambda _: ([row] for row in control.broker.queue_figures()),
        },
        stalls=lambda: control.stalls.current.values(),
        clock=clock,
        things_max=settings.timelines_max,
    )
    control.overview, control.timelines = overview, timelines
    control.flow_map_max, started = settings.flow_map_max, clock().monotonic
    control.uptime = lambda: clock().monotonic - started
    return overview, timelines


def live_feed(control: BrokerControl, overview: Overview, *, clients_max: int, clock: Callable[[], Now]) -> LiveFeed:
    """Return the live stream of a broker."""
    return LiveFeed(
        overview=overview.read,
        stalls=lambda: control.stalls.current.values(),
        clock=clock,
        clients_max=clients_max,
    )


def make_api(control: BrokerControl, live: LiveFeed, *, body_max: int, log: FilteringBoundLogger) -> Api:
    """Return the application over a control plane."""
    rabbit = (rabbitmq, rabbitmq_writes, rabbitmq_users, rabbitmq_health)
    own = [live_operation(live), *(one for module in rabbit for one in module.OPERATIONS)]
    return Api(control, own, body_max=body_max, log=log)


def _rows_of(server: Server, kind: str, connections: Iterable[str]) -> Iterator[Sequence[Snapshot]]:
    """The rows of a kind on some connections, those that have gone left out."""
    return (some for connection in connections for some in server.connections(kind, connection))
