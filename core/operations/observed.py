"""Operations that show the broker in figures: the overview, the store's lanes, limits, the flow map and time lines.

The overview and the time lines are recorded while the admin server is on, and only then.
"""

from collections.abc import Sequence

from core.control_plane import BrokerControl
from core.errors import NotFound, PreconditionFailed
from core.interface import Snapshot
from core.observe.overview import Overview
from core.observe.timelines import KINDS, Timelines
from core.operations.flow_map import flow_map
from core.operations.operation import VHOST, AnswerField, Arguments, Parameter, Reply, Shape, operation, quoted
from core.slices import Walk
from core.store.lane import BATCH_RECORDS, SYNC_SECONDS, Lane

KIND = Parameter("kind", "What it is.", in_path=True, choices=tuple(KINDS))
IDENTITY = Parameter("identity", "Its identity, or the queue's name.", in_path=True)
OVERVIEW = Shape(
    "map",
    (
        AnswerField("time", "number", "The present time, in seconds since 1970."),
        AnswerField("rates", "map", "Messages a second: ``in``, ``out``, ``confirmed`` and ``settled``."),
        AnswerField("connections", "number", "The number of connections."),
        AnswerField("channels", "number", "The number of channels of AMQP 0.9.1."),
        AnswerField("links", "number", "The number of links of AMQP 1.0."),
        AnswerField("links_blocked", "map", "The number of present stalls by reason."),
        AnswerField("alarms", "list", "The names of the alarms that are on."),
        AnswerField("queues", "number", "The number of queues."),
        AnswerField("ready", "number", "Ready messages of all queues."),
        AnswerField("unacked", "number", "Messages that consumers hold."),
        AnswerField("consumers", "number", "The number of consumers."),
        AnswerField("loop_lag_p99", "number", "How late the event loop is, in seconds, in 1 of 100 cases."),
    ),
)
LANES = Shape("map", (AnswerField("lanes", "list", "A row for each lane."),))
LIMITS = Shape("map", (AnswerField("limits", "list", "Maps of ``name``, ``used`` and ``max``."),))
FLOW_MAP = Shape(
    "map",
    (
        AnswerField("publishers", "list", "Connections that publish."),
        AnswerField("addresses", "list", "Queues and exchanges."),
        AnswerField("consumers", "list", "Connections that consume."),
        AnswerField("edges", "list", "Links between them, those that were blocked most first."),
        AnswerField("edges_total", "number", "The number of all edges."),
    ),
)
TIME_LINES = Shape(
    "map",
    (
        AnswerField("kind", "text", "What it is."),
        AnswerField("identity", "text", "Its identity."),
        AnswerField("interval", "number", "Seconds between two values."),
        AnswerField("times", "list", "The times of the values, in seconds since 1970."),
        AnswerField("series", "map", "The values by series, the oldest first."),
    ),
)


HISTORY = Shape(
    "map",
    (
        AnswerField("interval", "number", "Seconds between two values."),
        AnswerField("times", "list", "The times of the values, in seconds since 1970."),
        AnswerField(
            "series", "map", "``in``, ``out``, ``confirmed`` and ``settled`` in messages a second, and ``waiting``."
        ),
    ),
)


def recorded_overview(control: BrokerControl) -> Overview:
    """Return the overview. Raises PreconditionFailed where none is recorded."""
    if control.overview is None:
        raise PreconditionFailed("no overview is recorded, because the admin server is off: admin.enabled")
    return control.overview


def _timelines(control: BrokerControl) -> Timelines:
    if control.timelines is None:
        raise PreconditionFailed("no time lines are recorded, because the admin server is off: admin.enabled")
    return control.timelines


@operation("overview", "GET", "/overview", answer=OVERVIEW, gives={"queues": 2, "ready": 3})
def overview(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show the broker's rates and counts, as the live stream does each second."""
    return Reply(200, (yield from recorded_overview(control).read()))


@operation("timelines.overview", "GET", "/timelines", answer=HISTORY, gives={"interval": 10.0})
def history(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the last hour of the broker, with a value for each ten seconds: its rates, and the links that wait."""
    return Reply(200, recorded_overview(control).history())


@operation("flow-map", "GET", "/flow-map", VHOST, answer=FLOW_MAP, gives={"edges_total": 1})
def show_flow_map(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show who publishes where and who consumes, and what is blocked."""
    return Reply(200, (yield from flow_map(control, _timelines(control), arguments.text("vhost"))))


@operation(
    "timelines.show",
    "GET",
    "/timelines/{kind}/{identity}",
    *(KIND, IDENTITY),
    answer=TIME_LINES,
    example={"kind": "queues", "identity": "orders"},
    gives={"interval": 1.0},
)
def time_lines(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the last five minutes of a link, session, channel or queue, with a value for each second."""
    kind, identity = arguments.text("kind"), arguments.text("identity")
    lines = _timelines(control).times_and_series(kind, identity)
    if lines is None:
        raise NotFound(f"there are no time lines of {quoted(identity)} among the {kind}")
    return Reply(200, lines)


@operation("store.status", "GET", "/store", answer=LANES, gives={})
def store(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the lanes of the store."""
    return Reply(200, {"lanes": [lane_row(lane) for lane in control.lanes]})


def lane_row(lane: Lane) -> Snapshot:
    """Return the row of one lane: the records that wait, those written and synced, and how long that took."""
    return {
        "name": lane.name,
        "staged_bytes": lane.staged_bytes,
        "written_bytes": lane.written_bytes,
        "records_staged": lane.staged,
        "records_written": lane.written,
        "records_synced": lane.synced,
        "batches": lane.batches,
        "write_seconds": lane.write_seconds,
        "syncs": lane.syncs,
        "sync_seconds": lane.sync_seconds,
        "last_sync_seconds": lane.last_sync_seconds,
        "failed": None if lane.failed is None else str(lane.failed),
        "sync_histogram": _histogram(SYNC_SECONDS, lane.sync_counts),
        "batch_histogram": _histogram(BATCH_RECORDS, lane.batch_counts),
    }


def _histogram(bounds: Sequence[float], counts: Sequence[int]) -> list[Snapshot]:
    return [{"le": bound, "count": count} for bound, count in zip([*bounds, None], counts, strict=True)]


@operation("limits", "GET", "/limits", answer=LIMITS, gives={})
def limits(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show every limit, and how much of it is used."""
    descriptors = control.serving.snapshot("descriptors")[0]
    used = {
        **control.snapshot("totals")[0],
        "unauthenticated": control.serving.snapshot("server")[0]["unauthenticated"],
        "connections": descriptors["sockets_used"],
        "descriptors": descriptors["total_used"],
    }
    most = {
        **control.limits,
        "connections": descriptors["sockets_limit"],
        "descriptors": descriptors["total_limit"],
    }
    return Reply(200, {"limits": [{"name": name, "used": used[name], "max": limit} for name, limit in most.items()]})


OPERATIONS = (overview, history, store, limits, show_flow_map, time_lines)
