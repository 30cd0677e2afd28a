"""The reading operations of RabbitMQ's management API that scripts of its users call.

Paths and fields follow RabbitMQ 4.1 (the description of its HTTP API, and its source). Rows are translated one by one
while the answer is made.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from starlette.types import ASGIApp

from core.admin.api.lists import COLUMNS, IGNORED, LIST, kept, listed, shown
from core.admin.api.operations import Answer, Call, Operation, get
from core.admin.api.rabbitmq_rows import (
    DEFAULT_EXCHANGE,
    VHOST,
    binding_row,
    channel_row,
    connection_row,
    consumer_row,
    default_binding_row,
    exchange_row,
    policy_row,
    queue_row,
)
from core.admin.api.refusals import not_found
from core.admin.api.rendering import Walked, walked
from core.admin.api.sources import ApiSources
from core.interface import Snapshot
from core.slices import Walk

DIALECT = "4.1.0"
"""The version of RabbitMQ whose API this follows; scripts compare it. AMQP clients are told the same version."""
STATISTICS = {"publish": "in", "confirm": "confirmed", "deliver_get": "out", "ack": "settled"}
"""RabbitMQ's names of rates, and the names in :data:`core.observe.overview.RATES`."""
ADMINISTRATOR, MONITORING = "administrator", "monitoring"
"""RabbitMQ's tags of users that may do everything, and of users that may see everything."""


def _list(path: str, summary: str, answer: Answer) -> Operation:
    return get(path, summary, answer, query=LIST, ignored=IGNORED)


def _item(path: str, summary: str, answer: Answer) -> Operation:
    return get(path, summary, answer, query=(COLUMNS,), ignored=IGNORED)


class RabbitmqReads:
    """RabbitMQ's operations that change nothing."""

    def __init__(self, sources: ApiSources) -> None:
        self._sources = sources
        self._control = sources.control
        self._node = sources.constants.node

    def operations(self) -> Sequence[Operation]:
        """Return all operations."""
        return [*self._whole(), *self._clients(), *self._topology(), *self._access()]

    def _whole(self) -> Sequence[Operation]:
        return [
            _item("/api/overview", "The broker in numbers.", self._overview),
            _list("/api/nodes", "The one node.", lambda call: listed(call, [self._node_row()])),
            _item("/api/nodes/{name}", "The one node.", self._one_node),
            _list("/api/vhosts", "The one virtual host.", lambda call: listed(call, [self._vhost_row()])),
            _item("/api/vhosts/{vhost}", "The one virtual host.", self._in_vhost(self._vhost)),
            get("/api/definitions", "What is durable, for RabbitMQ to read.", self._definitions),
            get("/api/definitions/{vhost}", "The same.", self._in_vhost(self._definitions)),
        ]

    def _clients(self) -> Sequence[Operation]:
        return [
            _list("/api/connections", "Connections.", self._connections),
            _list("/api/vhosts/{vhost}/connections", "Connections.", self._in_vhost(self._connections)),
            _item("/api/connections/{name}", "One connection.", self._connection),
            _list("/api/connections/{name}/channels", "Its channels.", self._channels_of),
            _list("/api/channels", "Channels of AMQP 0.9.1.", self._channels),
            _list("/api/vhosts/{vhost}/channels", "Channels of AMQP 0.9.1.", self._in_vhost(self._channels)),
            _item("/api/channels/{name}", "One channel.", self._channel),
            _list("/api/consumers", "Consumers.", self._consumers),
            _list("/api/consumers/{vhost}", "Consumers.", self._in_vhost(self._consumers)),
        ]

    def _topology(self) -> Sequence[Operation]:
        queue, exchange = "/api/queues/{vhost}/{name}", "/api/exchanges/{vhost}/{name}"
        between = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
        return [
            _list("/api/queues", "Queues.", self._queues),
            _list("/api/queues/{vhost}", "Queues.", self._in_vhost(self._queues)),
            _item(queue, "One queue.", self._in_vhost(self._queue)),
            _list(f"{queue}/bindings", "What it is bound to.", self._in_vhost(self._bindings_of_queue)),
            _list("/api/exchanges", "Exchanges.", self._exchanges),
            _list("/api/exchanges/{vhost}", "Exchanges.", self._in_vhost(self._exchanges)),
            _item(exchange, "One exchange.", self._in_vhost(self._exchange)),
            _list(f"{exchange}/bindings/source", "What leaves it.", self._in_vhost(self._bindings_from)),
            _list(f"{exchange}/bindings/destination", "What arrives at it.", self._in_vhost(self._bindings_to)),
            _list("/api/bindings", "Bindings.", self._bindings),
            _list("/api/bindings/{vhost}", "Bindings.", self._in_vhost(self._bindings)),
            _list(between, "Those between two ends.", self._in_vhost(self._bindings_between)),
            _item(f"{between}/{{properties_key}}", "One binding.", self._in_vhost(self._binding)),
            _list("/api/policies", "Policies.", self._policies),
            _list("/api/policies/{vhost}", "Policies.", self._in_vhost(self._policies)),
            _item("/api/policies/{vhost}/{name}", "One policy.", self._in_vhost(self._policy)),
        ]

    def _access(self) -> Sequence[Operation]:
        return [
            _list("/api/users", "Who may connect.", lambda call: listed(call, self._user_rows())),
            _item("/api/users/{name}", "One user.", self._user),
            _item("/api/whoami", "Whose token it is.", self._whoami),
        ]

    def _in_vhost(self, answer: Answer) -> Answer:
        def checked(call: Call) -> ASGIApp:
            check_vhost(call)
            return answer(call)

        return checked

    # --- the whole ---------------------------------------------------------------------------------------------------

    def _overview(self, call: Call) -> ASGIApp:
        def walk() -> Walk[Snapshot]:
            return self._overview_row((yield from self._sources.overview.read()))

        return walked(walk())

    def _overview_row(self, facts: Snapshot) -> Snapshot:
        rates, totals = self._sources.overview.rates(), self._sources.overview.totals()
        stats: Snapshot = {}
        for name, rate in STATISTICS.items():
            stats[name] = totals[rate]
            stats[f"{name}_details"] = {"rate": rates[rate]}
        ready, unacked = facts["ready"], facts["unacked"]
        assert isinstance(ready, int)
        assert isinstance(unacked, int)
        engine = self._control.snapshot("totals")[0]
        return {
            "management_version": DIALECT,
            "rabbitmq_version": DIALECT,
            "product_name": "Headgate",
            "product_version": self._sources.constants.version,
            "rates_mode": "basic",
            "cluster_name": self._node,
            "node": self._node,
            "message_stats": stats,
            "queue_totals": {
                "messages": ready + unacked,
                "messages_ready": ready,
                "messages_unacknowledged": unacked,
            },
            "object_totals": {
                "connections": facts["connections"],
                "channels": facts["channels"],
                "consumers": facts["consumers"],
                "queues": facts["queues"],
                "exchanges": engine["exchanges"],
            },
            "listeners": self._listeners(),
        }

    def _listeners(self) -> list[Snapshot]:
        return [
            {"node": self._node, "protocol": "amqp", "ip_address": row["host"], "port": row["port"]}
            for row in self._sources.server.snapshot("listeners")
        ]

    def _one_node(self, call: Call) -> ASGIApp:
        if call.path["name"] != self._node:
            raise not_found(f"there is no node {call.path['name']!r}; this is {self._node!r}")
        return shown(call, self._node_row())

    def _node_row(self) -> Snapshot:
        alarms = {row["name"]: row for row in self._control.snapshot("alarms")}
        descriptors = self._sources.server.snapshot("descriptors")[0]
        memory, disk = alarms.get("memory", {}), alarms.get("disk", {})
        return {
            "name": self._node,
            "type": "disc",
            "running": True,
            "uptime": round(self._sources.uptime() * 1000),
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
            "partitions": [],
        }

    def _vhost(self, call: Call) -> ASGIApp:
        return shown(call, self._vhost_row())

    def _vhost_row(self) -> Snapshot:
        return {
            "name": VHOST,
            "description": "The only virtual host.",
            "tags": [],
            "tracing": False,
            "cluster_state": {self._node: "running"},
        }

    def _definitions(self, call: Call) -> ASGIApp:
        return walked(self._sources.definitions.show())

    # --- clients -----------------------------------------------------------------------------------------------------

    def _connections(self, call: Call) -> ASGIApp:
        rows = (row for rows in self._sources.connections("connections") for row in rows)
        return listed(call, (connection_row(row, self._node) for row in rows))

    def _connection(self, call: Call) -> ASGIApp:
        return shown(call, connection_row(self._found("connections", call.path["name"]), self._node))

    def _channels(self, call: Call) -> ASGIApp:
        rows = (row for rows in self._sources.connections("channels") for row in rows)
        return listed(call, (channel_row(row, self._node) for row in rows))

    def _channels_of(self, call: Call) -> ASGIApp:
        name = call.path["name"]
        self._found("connections", name)
        rows = kept((row for rows in self._sources.connections("channels") for row in rows), connection=name)
        return listed(call, (None if row is None else channel_row(row, self._node) for row in rows))

    def _channel(self, call: Call) -> ASGIApp:
        return shown(call, channel_row(self._found("channels", call.path["name"]), self._node))

    def _consumers(self, call: Call) -> ASGIApp:
        return listed(call, map(consumer_row, self._sources.rows("consumers")))

    # --- topology ----------------------------------------------------------------------------------------------------

    def _queues(self, call: Call) -> ASGIApp:
        return listed(call, (queue_row(row, self._node) for row in self._sources.rows("queues")))

    def _queue(self, call: Call) -> ASGIApp:
        return shown(call, queue_row(self._found("queues", call.path["name"]), self._node))

    def _exchanges(self, call: Call) -> ASGIApp:
        return listed(call, map(exchange_row, chain([DEFAULT_EXCHANGE], self._sources.rows("exchanges"))))

    def _exchange(self, call: Call) -> ASGIApp:
        return shown(call, exchange_row(self._exchange_found(call)))

    def _exchange_found(self, call: Call) -> Snapshot:
        name = call.path["name"]
        return self._found("exchanges", name) if name else DEFAULT_EXCHANGE

    def _binding_rows(self) -> Iterator[Snapshot]:
        for row in self._sources.rows("queues"):
            yield default_binding_row(row["name"])
        yield from map(binding_row, self._sources.rows("bindings"))

    def _bindings(self, call: Call) -> ASGIApp:
        return listed(call, self._binding_rows())

    def _bindings_of_queue(self, call: Call) -> ASGIApp:
        name = call.path["name"]
        self._found("queues", name)
        return listed(call, kept(self._binding_rows(), destination=name, destination_type="queue"))

    def _bindings_from(self, call: Call) -> ASGIApp:
        self._exchange_found(call)
        return listed(call, kept(self._binding_rows(), source=call.path["name"]))

    def _bindings_to(self, call: Call) -> ASGIApp:
        self._exchange_found(call)
        return listed(call, kept(self._binding_rows(), destination=call.path["name"], destination_type="exchange"))

    def _bindings_between(self, call: Call) -> ASGIApp:
        return listed(call, self._between(call))

    def _binding(self, call: Call) -> ASGIApp:
        def walk() -> Walk[ASGIApp]:
            key = call.path["properties_key"]
            for row in self._between(call):
                if row is not None and row["properties_key"] == key:
                    return shown(call, row)
                yield
            raise not_found(f"there is no binding {key!r} between these")

        return Walked(walk())

    def _between(self, call: Call) -> Iterator[Snapshot | None]:
        return kept(
            self._binding_rows(),
            source=call.path["source"],
            destination=call.path["destination"],
            destination_type=destination_type(call),
        )

    def _policies(self, call: Call) -> ASGIApp:
        return listed(call, map(policy_row, self._control.snapshot("policies")))

    def _policy(self, call: Call) -> ASGIApp:
        return shown(call, policy_row(self._found("policies", call.path["name"])))

    # --- access ------------------------------------------------------------------------------------------------------

    def _user_rows(self) -> list[Snapshot]:
        return [{"name": name, "tags": [ADMINISTRATOR], "limits": {}} for name in self._sources.constants.users()]

    def _user(self, call: Call) -> ASGIApp:
        for row in self._user_rows():
            if row["name"] == call.path["name"]:
                return shown(call, row)
        raise not_found(f"there is no user {call.path['name']!r}")

    def _whoami(self, call: Call) -> ASGIApp:
        tag = ADMINISTRATOR if call.may_write else MONITORING
        return shown(call, {"name": tag, "tags": [tag], "is_internal_user": True})

    def _found(self, kind: str, identity: str) -> Snapshot:
        found = self._control.snapshot(kind, identity)
        if not found:
            raise not_found(f"there is no {identity!r} among the {kind}")
        return found[0]


def check_vhost(call: Call) -> None:
    """Raise HttpRefusal for a virtual host other than ``/``."""
    if call.path["vhost"] != VHOST:
        raise not_found(f"there is no virtual host {call.path['vhost']!r}; there is '/', in a path %2F")


def destination_type(call: Call) -> str:
    """Return what ``q`` or ``e`` in a path means. Raises HttpRefusal for anything else."""
    kinds = {"q": "queue", "e": "exchange"}
    if call.path["kind"] not in kinds:
        raise not_found("a destination is q, a queue, or e, an exchange")
    return kinds[call.path["kind"]]
