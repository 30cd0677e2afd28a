"""How a connection of AMQP 0.9.1 reports its flow: its channels as links without link credit, and its stages.

A channel is a link for each direction of messages, from the first message or consumer on. The stages are those that the
connection's publishes pass: reader, channels, and the queues that block a channel. While flow events are recorded, the
stages are checked after each turn; their counters, which only grow, show whether one became blocked.

The names under which flow events and the ledger of stalls have a connection are here too, and its row.
"""

from collections.abc import Iterable
from functools import partial

from core.amqp091.connection import Amqp091Connection
from core.amqp091.frontend.throttle import Throttle
from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.flow_facts import ClientIdentity, FlowConnection, Settled, StageCreditState, StallSubject
from core.interface import Disposal, Outcome, Snapshot
from core.message import Return
from core.observe.flow_events.accounts import StageAccount
from core.observe.flow_events.recorder import ConnectionEvents
from core.server.frontends import PeerInfo
from core.virtual_hosts import shown_name

STAGES_MAX = 256
"""Stages of one connection that are checked: its channels and some queues. Further ones are not reported."""

ANSWERS = {
    Outcome.ACCEPTED: Settled.ACCEPTED,
    Outcome.REJECTED: Settled.REJECTED,
    Outcome.RELEASED: Settled.RELEASED,
    Outcome.UNCERTAIN: Settled.MODIFIED,
}


def settled_as(disposal: Disposal | Return) -> Settled:
    """How a consumer has settled, as flow events name it."""
    if isinstance(disposal, Return):
        return Settled.MODIFIED if disposal.delivery_failed else Settled.RELEASED
    return Settled.ACCEPTED if disposal is Disposal.ACCEPTED else Settled.REJECTED


def client_name(connection: Amqp091Connection) -> str | None:
    """The name that the client has announced; None without one."""
    name = connection.client_properties.get("connection_name") or connection.client_properties.get("product")
    return name if isinstance(name, str) else None


def client_identity(info: PeerInfo, connection: Amqp091Connection) -> ClientIdentity:
    """The client of a connection, as other nodes are told of it."""
    return ClientIdentity(
        user=connection.identity,
        connection=info.identity,
        container_id=client_name(connection) or "",
        peer=f"{info.remote_host}:{info.remote_port}",
    )


def stall_subject(info: PeerInfo, connection: Amqp091Connection) -> StallSubject:
    """The description of a connection's reader for the ledger of stalls."""
    return StallSubject(
        identity=info.identity,
        connection=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        container_id=client_name(connection) or "",
        user=connection.identity,
        direction="in",
        address=shown_name(connection.virtual_host, ""),
        virtual_host=connection.virtual_host,
    )


def flow_connection(info: PeerInfo, connection: Amqp091Connection) -> FlowConnection:
    """The description of a connection for flow events."""
    return FlowConnection(
        identity=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        protocol="amqp-0-9-1",
        container_id=client_name(connection) or "",
        user=connection.identity,
    )


def connection_snapshot(
    info: PeerInfo, connection: Amqp091Connection, channels: int, reader: CreditFlow, throttle: Throttle, now: Now
) -> Snapshot:
    """One connection: peer, settings, counts, and what holds it up."""
    reading = reader.reading(now.monotonic)
    return {
        "identity": info.identity,
        "protocol": "amqp-0-9-1",
        "peer": f"{info.remote_host}:{info.remote_port}",
        "container_id": client_name(connection),
        "user": connection.identity,
        "vhost": connection.virtual_host,
        "state": _state(connection, throttle, now),
        "channels": channels,
        "alarms": sorted(throttle.alarms),
        "stage_credit_state": reading.state.value,
        "stage_credit_held_up_by": list(reading.held_up_by),
        "stage_credit_blocks": reader.blocks,
        "stage_credit_unblocks": reader.unblocks,
        "stage_credit_blocked_seconds": reader.blocked_seconds(now.monotonic),
    }


def _state(connection: Amqp091Connection, throttle: Throttle, now: Now) -> str:
    if connection.opening:
        return "opening"
    return throttle.state(now.monotonic).value if connection.opened else "closing"


class StageReports:
    """The stages of one connection."""

    __slots__ = ("_changes", "_reader", "_recorder", "_recorders")

    def __init__(self, recorder: ConnectionEvents, reader: CreditFlow) -> None:
        self._recorder = recorder
        self._reader = reader
        self._recorders: dict[CreditFlow, StageAccount] = {}
        self._changes: dict[CreditFlow, int] = {}
        """The number of changes of each stage at the last check."""

    def observe(self, channels: Iterable[CreditFlow]) -> None:
        """Report the stages that have changed since the last call. ``channels`` are the present ones."""
        self._enter("reader", self._reader)
        for channel in channels:
            self._enter("channel", channel)
            for queue in channel.blocked_by:
                self._enter("queue", queue)
        for stage, recorder in self._recorders.items():
            changes = stage.blocks + stage.unblocks
            if changes != self._changes[stage]:
                self._changes[stage] = changes
                recorder.changed()

    def _enter(self, kind: str, stage: CreditFlow) -> None:
        if stage in self._recorders:
            return
        if len(self._recorders) >= STAGES_MAX:
            self._forget_ended()
        if len(self._recorders) < STAGES_MAX:
            self._recorders[stage] = self._recorder.stage(kind, stage.name, partial(_stage_credit_state, stage))
            self._changes[stage] = 0 if stage.blocked else stage.blocks + stage.unblocks

    def _forget_ended(self) -> None:
        for stage in [stage for stage in self._recorders if stage.ended]:
            del self._recorders[stage], self._changes[stage]


def _stage_credit_state(stage: CreditFlow) -> StageCreditState:
    return StageCreditState(stage.blocks, stage.blocked, ", ".join(party.name for party in stage.blocked_by))
