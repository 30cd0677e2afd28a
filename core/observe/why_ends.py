"""The answers for one publisher or consumer: a link, or the publishing of an AMQP 0.9.1 connection, which the broker
reads or does not; and the answers for many of them in short."""

from collections.abc import Iterable

from core.credit_flow.diagnosis import Amqp091ConnectionState, Bottleneck, diagnose
from core.credit_flow.flow import FlowState, StageReading
from core.interface import FlowReason, Snapshot
from core.observe.why_chain import Look, verdict, walk
from core.observe.why_rows import Rows, count, figures, text, texts
from core.observe.why_table import CONSUMER, PUBLISHER, READER, where

SHOWN_MAX = 20
"""How many links are listed one by one in the answer for their connection or queue."""


def link_answer(rows: Rows, link: Snapshot) -> Snapshot:
    """Return the whole answer for a link."""
    identity, publishes = text(link, "identity"), link.get("direction") == "in"
    connection = rows.one("connections", text(link, "connection"))
    waiting = 0 if publishes else rows.publishers_waiting(text(link, "address"))
    look = Look(
        rows=rows,
        link=link,
        session=rows.one("sessions", text(link, "session")),
        connection=connection,
        queue=rows.one("queues", text(link, "queue")),
        alarms=texts(connection, "alarms"),
        publishers_waiting=waiting,
    )
    who = f"link {link.get('identity')} ({'publishes to' if publishes else 'consumes from'} {where(link)})"
    subject: Snapshot = {"kind": "links", "identity": identity}
    subject |= figures(link, "connection", "session", "name", "direction", "address")
    subject |= figures(connection, "peer", "container_id", "user")
    if isinstance(client := link.get("client"), dict):  # of another node, which attached the link
        subject |= figures(client, "peer", "container_id", "user", "node")
    hops = walk(PUBLISHER if publishes else CONSUMER, look)
    return {"subject": subject} | verdict(who, hops, rows.one("stalls", identity))


def has_reader(connection: Snapshot) -> bool:
    """Whether the connection's publishing is limited by stage credit."""
    return "stage_credit_state" in connection


def reader_answer(rows: Rows, connection: Snapshot) -> Snapshot:
    """Return the whole answer for an AMQP 0.9.1 connection. Its own fields ``stage`` and ``names`` say which stage is
    the bottleneck, and where."""
    identity = str(connection.get("identity"))
    channels = rows.of("channels", "connection", identity)
    targets = {name: None for row in channels for name in texts(row, "publishes_to")}
    queues = [row for name in targets if (row := rows.one("queues", name))]
    alarms = texts(connection, "alarms")
    bottleneck = None
    if not alarms:  # an alarm takes precedence, and the marks may be its effect
        bottleneck = diagnose(
            _reading(connection, "identity"),
            [_reading(row, "identity") for row in channels],
            [_reading(row, "name") for row in queues],
        )
    stopped = connection.get("state") == Amqp091ConnectionState.BLOCKED
    look = Look(
        rows=rows,
        connection=connection,
        alarms=alarms if stopped else (),
        stages=([connection], channels, queues),
        bottleneck=bottleneck,
    )
    answer = verdict(f"connection {identity}", walk(READER, look), rows.one("stalls", identity))
    return answer | {
        "subject": {"kind": "connections", "identity": identity} | figures(connection, "peer", "container_id", "user"),
        "stage": None if bottleneck is None else bottleneck.stage.value,
        "names": [] if bottleneck is None else list(bottleneck.names),
        "sentence": _sentence(alarms, bottleneck, answer, stopped=stopped),
    }


def _reading(row: Snapshot, name: str) -> StageReading:
    in_flow = row.get("stage_credit_state") == FlowState.FLOW
    return StageReading(text(row, name) or "", in_flow, texts(row, "stage_credit_held_up_by"))


def _sentence(alarms: tuple[str, ...], bottleneck: Bottleneck | None, answer: Snapshot, *, stopped: bool) -> str:
    if alarms:
        drained = FlowReason.DRAIN_MODE.value in alarms
        state = "is being drained for a stop" if drained else f"is low on {' and '.join(alarms)}"
        effect = "nothing is read from" if stopped else "the next publish will stop"
        return f"The broker {state}: {effect} this connection."
    if bottleneck is not None:
        return bottleneck.sentence
    if answer["waits"] is True:
        return str(answer["sentence"])
    return "Nothing holds it up, and nothing has within the last second."


def worst(answers: Iterable[Snapshot]) -> Snapshot | None:
    """The answer whose reason takes precedence, and of several with that reason the one that has waited for longest;
    None when none waits."""
    order = [reason.value for reason in FlowReason]
    waiting = (answer for answer in answers if answer["waits"] is True)
    return min(waiting, key=lambda one: (order.index(str(one["reason"])), -count(one, "seconds")), default=None)


def in_short(answers: Iterable[Snapshot]) -> Snapshot:
    """How many wait, and a line for each of those that have waited for longest."""
    waiting = sorted((answer for answer in answers if answer["waits"] is True), key=lambda one: -count(one, "seconds"))
    keys = ("reason", "culprit", "since", "seconds", "edge", "sentence")
    who = [{"identity": _identity(answer), **{key: answer[key] for key in keys}} for answer in waiting[:SHOWN_MAX]]
    return {"waiting": len(waiting), "who": who}


def _identity(answer: Snapshot) -> object:
    subject = answer.get("subject")
    return subject.get("identity") if isinstance(subject, dict) else None
