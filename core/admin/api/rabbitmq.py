"""The reading operations of RabbitMQ's management API that scripts of its users call.

Paths and fields follow RabbitMQ 4.1 (the description of its HTTP API, and its source). Rows are translated one by one
while the answer is made.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from core.admin.api.lists import ITEM, LIST, kept, listed, shown
from core.admin.api.rabbitmq_rows import (
    DEFAULT_EXCHANGE,
    binding_row,
    channel_row,
    connection_details,
    connection_row,
    consumer_row,
    default_binding_row,
    exchange_row,
    policy_row,
    queue_row,
)
from core.admin.api.refusals import not_found
from core.control_plane import BrokerControl
from core.interface import Snapshot
from core.operations import definitions
from core.operations.observed import recorded_overview
from core.operations.operation import Arguments, Handler, Operation, Parameter, Reply, Right, Shape, permits
from core.slices import Walk

DIALECT = "4.1.0"
"""The version of RabbitMQ whose API this follows; scripts compare it. AMQP clients are told the same version."""
MADE, MAKES = Reply(201), Shape("nothing", status=201)
"""The answer to what makes a thing, and its description."""
STATISTICS = {"publish": "in", "confirm": "confirmed", "deliver_get": "out", "ack": "settled"}
"""RabbitMQ's names of rates, and the names in :data:`core.observe.overview.RATES`."""
ROWS: Mapping[str, Callable[[Snapshot, str], Snapshot]] = {
    "connections": connection_row,
    "channels": channel_row,
    "consumers": consumer_row,
    "queues": queue_row,
    "exchanges": exchange_row,
    "bindings": binding_row,
    "policies": policy_row,
}
"""The translation of the rows of each kind, which needs the node's name for some."""
DESTINATIONS = {"q": "queue", "e": "exchange"}
CHOICES: Mapping[str, Sequence[str]] = {"kind": tuple(DESTINATIONS)}
SENTENCES = {
    "vhost": "The virtual host.",
    "name": "Its name, of at most 255 bytes.",
    "queue": "The queue's name.",
    "exchange": "The exchange's name.",
    "source": "The exchange that messages come from.",
    "kind": "What they go to: q, a queue, or e, an exchange.",
    "destination": "The name of what they go to.",
    "properties_key": "What tells it from other bindings between the two, as its row says.",
    "connection": "The connection's identity, for example c17.",
    "user": "The user's name.",
    "limit": "Which limit.",
    "component": "What it belongs to.",
}
"""What parameters in a path mean."""
IN_A_PATH = {"kind": ": a destination is q, a queue, or e, an exchange"}
RIGHTS_OF_KINDS: Mapping[str, Right] = dict.fromkeys(("connections", "channels", "consumers"), Right.MONITOR)
"""Of kinds that show what other users do. The others need MANAGE."""
QUEUE, EXCHANGE = "/queues/{vhost}/{name}", "/exchanges/{vhost}/{name}"
BETWEEN = "/bindings/{vhost}/e/{source}/{kind}/{destination}"


def operation(
    method: str,
    path: str,
    summary: str,
    handler: Handler,
    *,
    parameters: Sequence[Parameter] = (),
    answer: Shape | None = None,
    right: Right = Right.MONITOR,
) -> Operation:
    """Return an operation of RabbitMQ's, with the parameters in its path. ``parameters`` may give choices for those."""
    choices = {**{one.name: one.choices for one in parameters}, **CHOICES}
    in_path = [
        Parameter(
            name=name,
            sentence=SENTENCES.get(name, "In the path."),
            in_path=True,
            choices=tuple(choices.get(name, ())),
            remedy=IN_A_PATH.get(name, ""),
        )
        for name in re.findall(r"{(\w+)}", path)
    ]
    free = [parameter for parameter in parameters if f"{{{parameter.name}}}" not in path]
    return Operation(
        name=f"rabbitmq {method} {path}",
        method=method,
        path=path,
        summary=summary,
        handler=handler,
        right=right,
        parameters=(*in_path, *free),
        answer=Shape("map") if answer is None else answer,
    )


def list_operation(
    path: str,
    summary: str,
    rows: Callable[[BrokerControl, Arguments], Iterable[Snapshot | None]],
    right: Right = Right.MONITOR,
) -> Operation:
    """Return an operation that lists rows."""
    return operation(
        "GET",
        path,
        summary,
        lambda control, arguments: listed(arguments, rows(control, arguments)),
        parameters=LIST,
        right=right,
    )


def item_operation(
    path: str, summary: str, row: Callable[[BrokerControl, Arguments], Snapshot], right: Right = Right.MONITOR
) -> Operation:
    """Return an operation that shows one row."""
    return operation(
        "GET",
        path,
        summary,
        lambda control, arguments: shown(arguments, row(control, arguments)),
        parameters=ITEM,
        right=right,
    )


# --- rows ------------------------------------------------------------------------------------------------------------


def _all(kind: str) -> Callable[[BrokerControl, Arguments], Iterator[Snapshot | None]]:
    def rows(control: BrokerControl, arguments: Arguments) -> Iterator[Snapshot | None]:
        if kind in ("connections", "channels"):
            named = arguments.host(control).virtual_host if "vhost" in arguments.values else None
            for row in control.rows(kind):
                host = control.host_of(str(row["identity"]))
                yield _placed(_translated(control, kind, row), host) if named in (None, host) else None
            return
        for host in _hosts(control, arguments, kind):
            own = control.hosts.named(host).rows(kind)
            if kind == "exchanges":
                own = chain([DEFAULT_EXCHANGE], own)
            if kind == "bindings":
                queues = control.hosts.named(host).rows("queues")
                yield from (default_binding_row(row["name"]) | {"vhost": host} for row in queues)
            yield from (_placed(_translated(control, kind, row), host) for row in own)

    return rows


def _hosts(control: BrokerControl, arguments: Arguments, kind: str) -> list[str]:
    """The virtual host that the path names; without one, those on which the user has the right to see this kind."""
    if "vhost" in arguments.values:
        return [arguments.host(control).virtual_host]
    right = RIGHTS_OF_KINDS.get(kind, Right.MANAGE)
    return [name for name in control.hosts.names if permits(arguments.rights.on(name), right)]


def _translated(control: BrokerControl, kind: str, row: Snapshot) -> Snapshot:
    translated = ROWS[kind](row, control.node)
    if kind == "channels":
        for connection in control.snapshot("connections", str(row["connection"])):
            translated["connection_details"] = connection_details(connection)
    return translated


def _placed(row: Snapshot, host: str) -> Snapshot:
    """Name the virtual host in a row, where the row or its queue has one."""
    queue = row.get("queue")
    return {**row, "queue": {**queue, "vhost": host}} if isinstance(queue, dict) else {**row, "vhost": host}


def _one(kind: str) -> Callable[[BrokerControl, Arguments], Snapshot]:
    def row(control: BrokerControl, arguments: Arguments) -> Snapshot:
        found = _found(control, arguments, kind, arguments.text("name"))
        host = control.host_of(str(found["identity"])) if "vhost" not in arguments.values else arguments.text("vhost")
        return _placed(_translated(control, kind, found), host)

    return row


def _found(control: BrokerControl, arguments: Arguments, kind: str, identity: str) -> Snapshot:
    source = arguments.host(control) if "vhost" in arguments.values else control
    if kind == "exchanges" and not identity:
        return DEFAULT_EXCHANGE
    for row in source.snapshot(kind, identity):
        return row
    raise not_found(f"there is no {identity!r} among the {kind}")


def _some(
    listed_kind: str, of: str, wanted: Callable[[Snapshot], Snapshot]
) -> Callable[[BrokerControl, Arguments], Iterator[Snapshot | None]]:
    """Make the rows of a kind that belong to the thing that the path names ``of``, which must exist."""

    def rows(control: BrokerControl, arguments: Arguments) -> Iterator[Snapshot | None]:
        found = _found(control, arguments, f"{of}s", arguments.text(of))
        return kept(_all(listed_kind)(control, arguments), **wanted(found))

    return rows


def _of_user(control: BrokerControl, arguments: Arguments) -> Iterator[Snapshot | None]:
    return kept(_all("connections")(control, arguments), user=arguments.text("user"))


def _between(control: BrokerControl, arguments: Arguments) -> Iterator[Snapshot | None]:
    return kept(
        _all("bindings")(control, arguments),
        source=arguments.text("source"),
        destination=arguments.text("destination"),
        destination_type=DESTINATIONS[arguments.text("kind")],
    )


def _binding(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    key = arguments.text("properties_key")
    for row in _between(control, arguments):
        if row is not None and row["properties_key"] == key:
            return shown(arguments, row)
        yield
    raise not_found(f"there is no binding {key!r} between these")


# --- the whole -------------------------------------------------------------------------------------------------------


def _overview(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    overview = recorded_overview(control)
    facts = yield from overview.read()
    rates, totals = overview.rates(), overview.totals()
    stats: Snapshot = {}
    for name, rate in STATISTICS.items():
        stats[name] = totals[rate]
        stats[f"{name}_details"] = {"rate": rates[rate]}
    ready, unacked = facts["ready"], facts["unacked"]
    assert isinstance(ready, int)
    assert isinstance(unacked, int)
    row: Snapshot = {
        "management_version": DIALECT,
        "rabbitmq_version": DIALECT,
        "product_name": "Headgate",
        "product_version": control.version,
        "rates_mode": "basic",
        "cluster_name": control.node,
        "node": control.node,
        "message_stats": stats,
        "queue_totals": {
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
        },
        "object_totals": {
            **{kind: facts[kind] for kind in ("connections", "channels", "consumers", "queues")},
            "exchanges": control.snapshot("totals")[0]["exchanges"],
        },
        "listeners": [
            {"node": control.node, "protocol": "amqp", "ip_address": row["host"], "port": row["port"]}
            for row in control.snapshot("listeners")
        ],
    }
    return shown(arguments, row)


def _node_row(control: BrokerControl) -> Snapshot:
    alarms = {row["name"]: row for row in control.snapshot("alarms")}
    descriptors = control.snapshot("descriptors")[0]
    memory, disk = alarms.get("memory", {}), alarms.get("disk", {})
    return {
        "name": control.node,
        "type": "disc",
        "running": True,
        "uptime": round(control.uptime() * 1000),
        "fd_used": descriptors["total_used"],
        "fd_total": descriptors["total_limit"],
        "sockets_used": descriptors["sockets_used"],
        "sockets_total": descriptors["sockets_limit"],
        "mem_used": memory.get("used"),
        "mem_limit": memory.get("limit"),
        "mem_alarm": memory.get("on", False),
        "disk_free": disk.get("free"),
        "disk_free_limit": disk.get("limit"),
        "disk_free_alarm": disk.get("on", False),
        "being_drained": control.draining()["draining"],
        "partitions": [],
    }


def _one_node(control: BrokerControl, arguments: Arguments) -> Snapshot:
    name = arguments.text("name")
    if name != control.node:
        raise not_found(f"there is no node {name!r}; this is {control.node!r}")
    return _node_row(control)


def _vhost_row(control: BrokerControl, name: str) -> Snapshot:
    return {
        "name": name,
        "description": "",
        "tags": [],
        "tracing": False,
        "cluster_state": {control.node: "running"},
    }


def _whoami(control: BrokerControl, arguments: Arguments) -> Snapshot:
    rights = arguments.rights
    return {"name": rights.user, "tags": sorted(rights.tags), "is_internal_user": True}


OPERATIONS = (
    operation("GET", "/overview", "The broker in numbers.", _overview, parameters=ITEM, right=Right.MANAGE),
    list_operation("/nodes", "The one node.", lambda control, arguments: [_node_row(control)]),
    item_operation("/nodes/{name}", "The one node.", _one_node),
    list_operation(
        "/vhosts",
        "The virtual hosts.",
        lambda control, arguments: [_vhost_row(control, name) for name in _hosts(control, arguments, "queues")],
        Right.MANAGE,
    ),
    item_operation(
        "/vhosts/{vhost}",
        "One virtual host.",
        lambda control, arguments: _vhost_row(control, arguments.host(control).virtual_host),
        Right.MANAGE,
    ),
    *(
        replace(
            operation(
                "GET",
                path,
                "What is durable, for RabbitMQ to read.",
                definitions.export.handler,
                parameters=[definitions.ONE_HOST],
            ),
            is_audited=True,
        )
        for path in ("/definitions", "/definitions/{vhost}")
    ),
    *(
        list_operation(path.format(kind), f"The {kind}.", _all(kind), RIGHTS_OF_KINDS.get(kind, Right.MANAGE))
        for kind in ROWS
        for path in ("/{}", "/vhosts/{{vhost}}/{}" if kind in ("connections", "channels") else "/{}/{{vhost}}")
    ),
    item_operation("/connections/{name}", "One connection.", _one("connections")),
    list_operation("/connections/username/{user}", "Those of a user.", _of_user),
    list_operation(
        "/connections/{connection}/channels",
        "Its channels.",
        _some("channels", "connection", lambda row: {"connection_details": connection_details(row)}),
    ),
    item_operation("/channels/{name}", "One channel of AMQP 0.9.1.", _one("channels")),
    item_operation(QUEUE, "One queue.", _one("queues"), Right.MANAGE),
    list_operation(
        "/queues/{vhost}/{queue}/bindings",
        "What it is bound to.",
        _some("bindings", "queue", lambda row: {"destination": row["name"], "destination_type": "queue"}),
        Right.MANAGE,
    ),
    item_operation(EXCHANGE, "One exchange.", _one("exchanges"), Right.MANAGE),
    list_operation(
        "/exchanges/{vhost}/{exchange}/bindings/source",
        "What leaves it.",
        _some("bindings", "exchange", lambda row: {"source": row["name"]}),
        Right.MANAGE,
    ),
    list_operation(
        "/exchanges/{vhost}/{exchange}/bindings/destination",
        "What arrives at it.",
        _some("bindings", "exchange", lambda row: {"destination": row["name"], "destination_type": "exchange"}),
        Right.MANAGE,
    ),
    *(
        list_operation(path, "There are none.", lambda control, arguments: (), Right.MANAGE)
        for path in (
            *("/operator-policies", "/operator-policies/{vhost}", "/parameters", "/global-parameters"),
            *("/feature-flags", "/deprecated-features", "/deprecated-features/used"),
        )
    ),
    list_operation(BETWEEN, "Those between two ends.", _between, Right.MANAGE),
    operation("GET", f"{BETWEEN}/{{properties_key}}", "One binding.", _binding, parameters=ITEM, right=Right.MANAGE),
    item_operation("/policies/{vhost}/{name}", "One policy.", _one("policies"), Right.MANAGE),
    item_operation("/whoami", "Who the client is.", _whoami, Right.MANAGE),
)
