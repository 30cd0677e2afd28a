"""What holds up the publishing of an AMQP 0.9.1 connection: stage credit and alarms, found in snapshots.

The verdict is that of :mod:`core.credit_flow.diagnosis`: the bottleneck is the first stage behind the last marked one.
Marks last a second, so a connection that is stopped many times a second counts as waiting all the time. Its answer has
three fields of its own: ``state``, ``stage`` and ``names`` (which stage is the bottleneck, and where).
"""

from collections.abc import Sequence

from core.credit_flow.diagnosis import Amqp091ConnectionState, Bottleneck, SlowStage, diagnose
from core.credit_flow.flow import FlowState, StageReading
from core.interface import FlowReason, Snapshot
from core.observe.advice import HopKind
from core.observe.why_chain import Finding, Hop, Rows, figures, text, texts
from core.observe.why_link import alarm_finding
from core.observe.why_verdict import verdict

NAMES_MAX = 3
"""How many channels or queues a culprit names, as in the ledger of stalls."""
HOP_KINDS = {
    SlowStage.CHANNEL: HopKind.READER_CHANNEL,
    SlowStage.QUEUE: HopKind.CHANNEL_QUEUE,
    SlowStage.STORE: HopKind.QUEUE_STORE,
}


def has_reader(connection: Snapshot) -> bool:
    """Whether the connection's publishing is limited by stage credit."""
    return "stage_credit_state" in connection


def reader_answer(rows: Rows, connection: Snapshot) -> Snapshot:
    """Return the whole answer."""
    identity = str(connection.get("identity"))
    channels = rows.of("channels", "connection", identity)
    targets = {name: None for row in channels for name in texts(row, "publishes_to")}
    queues = [row for name in targets if (row := rows.one("queues", name))]
    bottleneck = diagnose(
        _reading(connection, "identity"),
        [_reading(row, "identity") for row in channels],
        [_reading(row, "name") for row in queues],
    )
    alarms = texts(connection, "alarms")
    stopped = connection.get("state") == Amqp091ConnectionState.BLOCKED
    if alarms:
        bottleneck = None  # an alarm takes precedence, and the marks may be its effect
    hops = [_alarm_hop(rows, connection, alarms if stopped else ()), *_stage_hops(connection, channels, queues)]
    if bottleneck is not None:
        says = bottleneck.sentence.partition(". Typical")[0]
        finding = Finding(reason=FlowReason.STAGE_CREDIT, culprit=_culprit(bottleneck), says=says)
        hops = [hop.blamed(finding) if hop.kind is HOP_KINDS[bottleneck.stage] else hop for hop in hops]
    own: Snapshot = {
        "subject": {"kind": "connections", "identity": identity} | figures(connection, "peer", "container_id", "user"),
        "stage": None if bottleneck is None else bottleneck.stage.value,
        "names": [] if bottleneck is None else list(bottleneck.names),
    }
    answer = verdict(f"connection {identity}", hops, rows.one("stalls", identity)) | own
    return answer | {"sentence": _sentence(connection, alarms, bottleneck, answer)}


def _alarm_hop(rows: Rows, connection: Snapshot, alarms: tuple[str, ...]) -> Hop:
    numbers = figures(connection, "state", "unsent_bytes")
    return Hop(
        kind=HopKind.PUBLISHER_READER,
        numbers=numbers,
        finding=alarm_finding(rows, alarms, numbers),
        known="state" in connection,
    )


def _stage_hops(connection: Snapshot, channels: Sequence[Snapshot], queues: Sequence[Snapshot]) -> list[Hop]:
    stages = [(HopKind.READER_CHANNEL, [connection]), (HopKind.CHANNEL_QUEUE, channels), (HopKind.QUEUE_STORE, queues)]
    hops = []
    for kind, rows in stages:
        marked = [row for row in rows if row.get("stage_credit_state") == FlowState.FLOW]
        held_up_by = sorted({name for row in marked for name in texts(row, "stage_credit_held_up_by")})
        numbers: Snapshot = {"stages": len(rows), "marked": len(marked), "held_up_by": held_up_by}
        hops.append(Hop(kind=kind, numbers=numbers, known=all("stage_credit_state" in row for row in rows)))
    return hops


def _culprit(bottleneck: Bottleneck) -> str:
    """The culprit, in the terms of the ledger of stalls."""
    if bottleneck.stage is SlowStage.STORE:
        return bottleneck.stage.value
    return f"{bottleneck.stage.value} {', '.join(bottleneck.names[:NAMES_MAX])}"


def _sentence(connection: Snapshot, alarms: tuple[str, ...], bottleneck: Bottleneck | None, answer: Snapshot) -> str:
    if alarms:
        drained = FlowReason.DRAIN_MODE.value in alarms
        what = "is being drained for a stop" if drained else f"is low on {' and '.join(alarms)}"
        if connection.get("state") == Amqp091ConnectionState.BLOCKED:
            return f"The broker {what}: nothing is read from this connection."
        return f"The broker {what}: the next publish will stop this connection."
    if bottleneck is not None:
        return bottleneck.sentence
    if answer["waits"] is True:
        return str(answer["sentence"])
    return "Nothing holds it up, and nothing has within the last second."


def _reading(row: Snapshot, name: str) -> StageReading:
    in_flow = row.get("stage_credit_state") == FlowState.FLOW
    return StageReading(text(row, name) or "", in_flow, texts(row, "stage_credit_held_up_by"))
