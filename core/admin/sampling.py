"""The overview and the time lines of a broker, and the task that takes a sample for them every second.

Other tasks run between two slices of a sample.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import trio

from core.clock import Now
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.interface import Snapshot
from core.observe.overview import Overview, OverviewSources
from core.observe.timelines import INTERVAL_S, Timelines
from core.server.connections import Changes
from core.server.run import Server
from core.virtual_hosts import shown_name

AMQP10 = "amqp10"
"""The name, in metrics, of the protocol whose publishers and consumers are links."""


class Sampling:
    """Takes samples while the admin server runs."""

    def __init__(self, *, overview: Overview, timelines: Timelines) -> None:
        self._overview = overview
        self._timelines = timelines

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            due = trio.current_time() + INTERVAL_S
            self._overview.sample()
            for _ in self._timelines.sample():
                await trio.lowlevel.checkpoint()
            await trio.sleep_until(max(due, trio.current_time()))


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
            queues=control.hosts.queue_figures,
            lag_counts=lambda: control.measuring.lag_counts,
            clock=clock,
        )
    )
    timelines = Timelines(
        connections=lambda: control.serving.connection_identities,
        changed=changed_connections(control),
        rows={
            "links": partial(_rows_of, control.serving, "links"),
            "sessions": partial(_rows_of, control.serving, "sessions"),
            "channels": partial(_rows_of, control.serving, "channels"),
            "queues": lambda _: ([_shown(row)] for row in control.hosts.queue_figures()),
        },
        stalls=lambda: control.stalls.current.values(),
        clock=clock,
        things_max=settings.timelines_max,
    )
    control.overview, control.timelines = overview, timelines
    control.flow_map_max, started = settings.flow_map_max, clock().monotonic
    control.uptime = lambda: clock().monotonic - started
    return overview, timelines


def _shown(row: Snapshot) -> Snapshot:
    """The row of a queue under the name by which it stands together with those of other virtual hosts."""
    return {**row, "name": shown_name(str(row["vhost"]), str(row["name"]))}


def changed_connections(control: BrokerControl) -> Callable[[], Iterable[str]]:
    """Return a function that returns the connections that have changed since it was called last."""
    reader: list[Changes] = []

    def changed() -> Iterable[str]:
        if not reader:
            reader.append(control.serving.changes())
        return reader[0].take()

    return changed


def _rows_of(server: Server, kind: str, connections: Iterable[str]) -> Iterator[Sequence[Snapshot]]:
    """The rows of a kind on some connections, those that have gone left out."""
    return (some for connection in connections for some in server.connections(kind, connection))
