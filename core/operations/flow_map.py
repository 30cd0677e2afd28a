"""The flow map: publishers, addresses and consumers as nodes, links as edges, and how much of the time each is blocked.

A queue is one node, whichever form of address a client uses: either version of AMQP 1.0 addresses, or a name in AMQP
0.9.1. For AMQP 0.9.1 the map has only publishing: an edge from a channel's connection to each queue that the channel
publishes to. The rows of channels do not say from which queues a channel consumes.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nsmallest
from itertools import islice
from urllib.parse import quote, unquote

from core.control_plane import BrokerControl
from core.host_rows import host_of_row
from core.interface import Snapshot
from core.observe.stalls import Stall
from core.observe.timelines import Timelines
from core.slices import Walk, gathered

EDGES_LOOKED_AT_MAX = 10_000
QUEUE_PREFIXES = ("/queues/", "/queue/", "/amq/queue/")
"""The prefixes of AMQP 1.0 addresses that name queues."""


def flow_map(control: BrokerControl, timelines: Timelines, host: str) -> Walk[Snapshot]:
    """Return the nodes and edges of one virtual host; of many edges, those that are blocked for longest and busiest."""
    queues = {str(row["name"]): row for row in (yield from gathered(control.on(host).rows("queues")))}
    stalls = {who.identity: stall for who, stall in control.stalls.current.items()}
    waited = {str(row["identity"]): row for row in (yield from gathered(control.stalls.last_minute()))}
    edges: list[Snapshot] = []
    for kind in ("links", "channels"):
        for rows in control.connections(kind):
            room = EDGES_LOOKED_AT_MAX - len(edges)
            edges += yield from gathered(
                islice(
                    _edges(kind, [row for row in rows if host_of_row(row) == host], timelines, stalls, queues.keys()),
                    room,
                )
            )
            yield None
    shown = nsmallest(control.flow_map_max, edges, key=_rank)
    for edge in shown:
        edge["last_minute"] = waited.get(str(edge["identity"]), {}).get("by_reason", [])
    return {**_nodes(shown, control, queues), "edges": shown, "edges_total": len(edges)}


def _edges(
    kind: str,
    rows: Sequence[Snapshot],
    timelines: Timelines,
    stalls: Mapping[str, Stall],
    queues: AbstractSet[str],
) -> Iterator[Snapshot]:
    for row in rows:
        identity, connection = str(row["identity"]), str(row["connection"])
        stalled = identity if kind == "links" else connection
        figures: Snapshot = {
            "identity": stalled,
            "why_kind": "links" if kind == "links" else "connections",
            "rate": round(timelines.rate(kind, identity), 1),
            "blocked_share": round(timelines.blocked_share(kind, identity), 3),
            **_stall(stalls.get(stalled)),
        }
        if kind == "links":
            address = node_of(str(row["address"] or ""), queues)
            outgoing = row["direction"] == "out"
            ends = (address, connection) if outgoing else (connection, address)
            yield {**figures, "direction": row["direction"], "from": ends[0], "to": ends[1]}
        else:
            targets = row["publishes_to"]
            for queue in targets if isinstance(targets, list) else []:
                yield {**figures, "direction": "in", "from": connection, "to": node_of(str(queue), queues)}


def _stall(stall: Stall | None) -> Snapshot:
    if stall is None:
        return {"blocked": False, "reason": None, "culprit": None}
    return {"blocked": True, "reason": stall.reason.value, "culprit": stall.culprit}


def _rank(edge: Snapshot) -> tuple[float, float, str]:
    share, rate = edge["blocked_share"], edge["rate"]
    assert isinstance(share, float)
    assert isinstance(rate, float)
    return -share, -rate, str(edge["identity"])


def _nodes(edges: list[Snapshot], control: BrokerControl, queues: Mapping[str, Snapshot]) -> Snapshot:
    publishers = dict.fromkeys(str(edge["from"]) for edge in edges if edge["direction"] == "in")
    consumers = dict.fromkeys(str(edge["to"]) for edge in edges if edge["direction"] == "out")
    addresses = dict.fromkeys(str(edge["to" if edge["direction"] == "in" else "from"]) for edge in edges)
    wanted = publishers | consumers
    known = {
        str(row["identity"]): row
        for rows in control.connections("connections")
        for row in rows
        if row["identity"] in wanted
    }
    return {
        "publishers": [_connection(identity, known.get(identity, {})) for identity in publishers],
        "addresses": [_address(identity, queues) for identity in addresses],
        "consumers": [_connection(identity, known.get(identity, {})) for identity in consumers],
    }


def _connection(identity: str, row: Snapshot) -> Snapshot:
    return {
        "identity": identity,
        "connection": identity,
        "container_id": row.get("container_id"),
        "peer": row.get("peer"),
    }


def _address(identity: str, queues: Mapping[str, Snapshot]) -> Snapshot:
    name = queue_of(identity, queues.keys())
    row = {} if name is None else queues[name]
    return {
        "identity": identity,
        "address": identity,
        "queue": name,
        "messages_ready": row.get("messages_ready"),
        "messages_unacknowledged": row.get("messages_unacknowledged"),
    }


def node_of(address: str, queues: AbstractSet[str]) -> str:
    """Return one name for all addresses of a queue: ``/queues/:name``. Other addresses are returned unchanged."""
    queue = queue_of(address, queues)
    return address if queue is None else "/queues/" + quote(queue, safe="")


def queue_of(address: str, queues: AbstractSet[str]) -> str | None:
    """Return the name of the queue that an address names; None if there is no such queue."""
    for prefix in QUEUE_PREFIXES:
        if address.startswith(prefix):
            rest = address.removeprefix(prefix)
            name = unquote(rest) if prefix == QUEUE_PREFIXES[0] else rest
            if name in queues:
                return name
    return address if address in queues else None
