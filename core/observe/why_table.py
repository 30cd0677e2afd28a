"""The table of ``why``: for each kind of subject the chain of edges that its messages pass, and for each edge the
conditions under which a reason holds, by the figures of the rows alone.

Front ends decide in their own code why a link waits; this table derives the same from their rows.
tests/core/observe/test_why_reasons.py shows for every reason that both agree with each other and with the ledger.

docs/flow-reasons lists the reasons; a link that has link credit left can only wait for an alarm. What holds up the
publishing of an AMQP 0.9.1 connection is the verdict of :mod:`core.credit_flow.diagnosis`: the bottleneck is the first
stage behind the last marked one. Marks last a second, so a connection that is stopped many times a second counts as
waiting all the time.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from core.credit_flow.diagnosis import SlowStage
from core.credit_flow.flow import FlowState
from core.interface import FlowReason, Snapshot
from core.observe.advice import HopKind, WaitsFor
from core.observe.why_chain import Cause, Chain, Look, WaitEdge
from core.observe.why_rows import count, figures, known, number, text, texts

LANES = {"classic": "classic", "quorum": "quorum", "stream": "streams"}
"""The lane of the store that keeps the messages of each queue type."""
NAMES_MAX = 3
"""How many channels or queues a culprit names, as in the ledger of stalls."""


def where(link: Snapshot) -> str:
    """The other end of a link inside the broker, in the terms of the ledger of stalls."""
    for kind in ("queue", "exchange"):
        if text(link, kind) is not None:
            return f"{kind} {link[kind]}"
    if text(link, "full_queue") is not None:
        return f"queue {link['full_queue']}"
    return text(link, "address") or "targets of its messages"


def has_full_hands(link: Snapshot) -> bool:
    """Whether a consumer holds as many unsettled messages or bytes as it may."""
    return _holds_all_messages(link) or link.get("full_of_bytes") is True


def _holds_all_messages(link: Snapshot) -> bool:
    """Whether a consumer holds as many unsettled messages as an operator or a policy lets it."""
    most = number(link, "unsettled_max")
    return most is not None and count(link, "unsettled") >= most


def _where(look: Look) -> str:
    return where(look.link)


def _used_up(look: Look) -> bool:
    """Whether the link is known to have no link credit."""
    return number(look.link, "link_credit") == 0


def _held_by_bytes(look: Look) -> bool:
    """Whether a budget of bytes keeps a link from more link credit, which nothing else withholds."""
    return _used_up(look) and text(look.link, "byte_budget") is not None and look.link.get("withheld") is not True


def _credit_left(look: Look) -> str:
    return f"link credit for {look.link['link_credit']} messages" if number(look.link, "link_credit") else ""


def _room(look: Look) -> str:
    """The link credit of a publisher, and with adaptive flow control its window and what limits that."""
    left = _credit_left(look)
    limit = WINDOW_LIMITS.get(text(look.link, "limited_by") or "")
    if limit is None or number(look.link, "window") is None:
        return left
    window = f"a window of {look.link['window']} messages, {limit(look)}"
    return f"{left}, {window}" if left else window


WINDOW_LIMITS: Mapping[str, Callable[[Look], str]] = {
    "bound": lambda _: "as many as a policy or an operator allows",
    "bytes": lambda look: f"as many as the budget of bytes of the {text(look.link, 'byte_budget') or 'link'} allows",
    "queue": lambda look: f"its share of what {_where(look)} confirms, {count(look.link, 'share_per_second')} a second",
    "distance": lambda look: (
        f"which grows because the client waits for link credit over a round trip of"
        f" {count(look.link, 'round_trip_ms'):.1f} ms"
    ),
    "publisher": lambda look: f"more than the client uses: {count(look.link, 'used_per_second')} messages a second",
}
"""What limits the window of a publisher, in words."""

# --- alarms ----------------------------------------------------------------------------------------------------------


def _alarm(reason: FlowReason) -> Cause:
    def says(look: Look) -> str:
        cause = text(look.rows.one("alarms", reason.value), "cause")
        return f"no client may publish while the {reason.value} alarm is on" + (f" ({cause})" if cause else "")

    return Cause(reason, lambda look: reason.value in look.alarms, f"alarm {reason.value}", says)


UNLED = (FlowReason.LEADER_MOVING, FlowReason.NO_QUORUM)
"""What withholds link credit from publishers of a queue that its node does not lead."""
DRAINED = Cause(FlowReason.DRAIN_MODE, lambda look: FlowReason.DRAIN_MODE.value in look.alarms, "operator",
    "the broker is being drained for a stop")  # fmt: skip
ALARMS = (DRAINED, _alarm(FlowReason.MEMORY), _alarm(FlowReason.DISK))


def _alarm_figures(look: Look) -> Snapshot:
    numbers: Snapshot = {}
    for alarm in ("memory", "disk"):
        if alarm in look.alarms:
            found = figures(look.rows.one("alarms", alarm), "used", "limit", "free", "free_limit")
            numbers |= {f"{alarm}_{key}": value for key, value in found.items()}
    return numbers | ({"alarms": list(look.alarms)} if any(cause.holds(look) for cause in ALARMS) else {})


# --- a link from a publisher -----------------------------------------------------------------------------------------


def _full(look: Look) -> str:
    queue, limit = look.queue, number(look.queue, "max_length")
    if limit is not None and count(queue, "messages_ready") >= limit:
        return f"{_where(look)} has {queue.get('messages_ready')} messages ready, and its limit is {limit}"
    if number(queue, "max_length_bytes") is not None:
        limit_bytes = queue["max_length_bytes"]
        return f"{_where(look)} has {queue.get('ready_bytes')} bytes ready, and its limit is {limit_bytes}"
    return f"{_where(look)} is at its length limit"


def _withheld(look: Look) -> bool:
    return _used_up(look) and look.link.get("withheld") is True


def _client_must_settle(look: Look) -> bool:
    return _used_up(look) and look.link.get("unsettled_full") is True


def _target_figures(look: Look) -> Snapshot:
    numbers = figures(look.link, "link_credit", "unconfirmed", "unconfirmed_limit", "withheld", "full_queue")
    if look.link.get("unsettled_full") is True:
        numbers |= figures(look.link, "unsettled", "unsettled_full")
    numbers |= figures(look.queue, "messages_waiting", "messages_ready", "max_length")
    by_bytes = number(look.queue, "max_length_bytes") is not None
    return numbers | (figures(look.queue, "ready_bytes", "max_length_bytes") if by_bytes else {})


def _lane(look: Look) -> Snapshot:
    return look.rows.one("lanes", LANES.get(str(look.queue.get("type"))))


def _for_a_sync(look: Look) -> str:
    seconds = number(_lane(look), "last_sync_seconds")
    last = f"; the last one took {seconds * 1000:.1f} ms" if seconds else ""
    return f"{count(look.link, 'unsynced')} of its messages wait for a sync of the disk{last}"


STORE = WaitEdge(HopKind.QUEUE_STORE,
    lambda look: figures(look.link, "unsynced") | figures(
        _lane(look), "staged_bytes", "records_not_synced", "sync_wanted", "last_sync_seconds", "failed"),
    lambda look: bool(_lane(look)) or (bool(look.queue) and not look.rows.all("lanes")),
    lambda look: "" if look.rows.all("lanes") else "the broker has no store: everything is kept in memory",
    [Cause(FlowReason.STORE_SLOW,
        lambda look: count(look.link, "unsynced") and _used_up(look) and look.link.get("withheld") is not True,
        "store", _for_a_sync)])  # fmt: skip
TARGET = WaitEdge(HopKind.LINK_QUEUE, _target_figures,
    lambda look: known(look.link, "link_credit", "unconfirmed", "unconfirmed_limit"),
    lambda look: f"{look.link['unconfirmed']} messages without an outcome" if known(look.link, "unconfirmed") else "",
    [Cause(FlowReason.LEADER_MOVING,
        lambda look: _withheld(look) and look.link.get("withheld_for") == FlowReason.LEADER_MOVING, _where,
        lambda look: f"{_where(look)} has no leader at this moment: its group is handed over to another node"),
     Cause(FlowReason.NO_QUORUM,
        lambda look: _withheld(look) and look.link.get("withheld_for") == FlowReason.NO_QUORUM, _where,
        lambda look: f"{_where(look)} has no leader here: its group has no majority, or another node leads it"),
     Cause(FlowReason.QUEUE_FULL, _withheld, _where, _full),
     Cause(FlowReason.UNCONFIRMED_LIMIT, _client_must_settle, "client",
        lambda look: f"the client has not settled {count(look.link, 'unsettled')} of its messages, which have an"
            " outcome, and its rcv-settle-mode second leaves that to it"),
     Cause(FlowReason.UNCONFIRMED_LIMIT,
        lambda look: _used_up(look) and not count(look.link, "unsynced") and "unconfirmed_limit" in look.link
            and not _client_must_settle(look), _where,
        lambda look: f"{_where(look)} has not taken on {count(look.link, 'unconfirmed')} of its messages yet")],
    exists=lambda look: not text(look.link, "exchange"))  # fmt: skip


def _consumers_figures(look: Look) -> Snapshot:
    """The figures of all consumers of a queue: their messages, and how many of them have a queue grant."""
    numbers = figures(look.queue, "messages_ready", "messages_unacknowledged", "consumers")
    if look.queue:
        numbers["consumers_with_grant"] = look.rows.consumers_with_grant(text(look.queue, "name"))
    return numbers


def _consumers(look: Look) -> str:
    numbers = _consumers_figures(look)
    if not count(numbers, "consumers"):
        return WaitsFor.CONSUMER.value
    stand = count(look.queue, "messages_ready") and not numbers.get("consumers_with_grant")
    return f"{numbers['consumers']} consumers" + (", which take no more now" if stand else "")


PUBLISHER: Chain = (
    WaitEdge(HopKind.PUBLISHER_SESSION,
        lambda look: figures(look.session, "incoming_window", "incoming_window_closed") | _alarm_figures(look),
        lambda look: bool(number(look.session, "incoming_window")),
        lambda look: "" if number(look.session, "incoming_window") != 0 else
            "the client has used up the incoming-window and has not read the flow that opens it again",
        ALARMS),
    WaitEdge(HopKind.SESSION_LINK,
        lambda look: figures(
            look.link, "link_credit", "max_link_credit", "bound_by_policy", "bound_by_operator", "unconfirmed",
            "rate_limit", "byte_budget", "bytes_held", "window", "round_trip_ms", "used_per_second",
            "share_per_second", "limited_by"),
        lambda look: known(look.link, "link_credit"), _room,
        [Cause(FlowReason.PAUSED, lambda look: _used_up(look) and look.link.get("paused") is True,
            "operator", "an operator has paused it"),
         Cause(FlowReason.RATE_LIMIT, lambda look: _used_up(look) and text(look.link, "rate_limit") is not None,
            lambda look: f"{look.link['rate_limit']}",
            lambda look: f"as much as the publish-rate of {look.link['rate_limit']} allows has been published"),
         Cause(FlowReason.POLICY, lambda look: _used_up(look) and known(look.link, "bound_by_operator"), "operator",
            lambda look: f"the {look.link['bound_by_operator']} messages of link credit that an operator allows are"
                " used up"),
         Cause(FlowReason.MEMORY_SHARE, _held_by_bytes,
            lambda look: f"bytes of the {look.link['byte_budget']}",
            lambda look: f"its messages take up the {count(look.link, 'bytes_held')} bytes that the budget of the"
                f" {look.link['byte_budget']} leaves it"),
         Cause(FlowReason.POLICY, lambda look: _used_up(look) and known(look.link, "bound_by_policy"),
            lambda look: f"policy of {_where(look)}",
            lambda look: f"the {look.link['bound_by_policy']} messages of link credit that a policy allows are"
                " used up")]),
    TARGET,
    replace(TARGET, kind=HopKind.LINK_EXCHANGE, exists=lambda look: text(look.link, "exchange")),
    replace(STORE, exists=lambda look: text(look.link, "queue")),
    WaitEdge(HopKind.QUEUE_CONSUMER, _consumers_figures, lambda look: bool(look.queue), _consumers,
        [Cause(FlowReason.QUEUE_FULL,
            lambda look: bool(look.link.get("withheld")) and look.link.get("withheld_for") not in UNLED
                and _used_up(look),
            lambda look: f"queue {look.queue.get('name')}", _consumers)],
        exists=lambda look: text(look.link, "queue")),
)  # fmt: skip

# --- a link to a consumer --------------------------------------------------------------------------------------------


def _publishers(look: Look) -> str:
    if look.publishers_waiting:
        return f"{look.publishers_waiting} of its publishers wait"
    return "" if count(look.queue, "publishers") else "no link publishes to this queue alone"


def _ready(look: Look) -> int | float | None:
    available = look.link.get("available") is not None
    return number(look.link, "available") if available else number(look.queue, "messages_ready")


def _asks_for_none(look: Look) -> bool:
    """Whether the client has granted no link credit, and could."""
    return _used_up(look) and look.link.get("idle") is not False and look.link.get("active") is not False


def _granted(holds: Callable[[Look], bool]) -> Callable[[Look], bool]:
    """The condition, for a client that has granted link credit."""
    return lambda look: bool(number(look.link, "link_credit")) and holds(look)


def _remark(look: Look) -> str:
    if _asks_for_none(look) and _ready(look) == 0:
        return "the client has granted no link credit, and no message is ready"
    return _credit_left(look)


def _is_full(look: Look) -> bool:
    """Whether a consumer holds as much as it may, and more is ready."""
    return has_full_hands(look.link) and bool(_ready(look)) and not _stuck(look)


def _who_bounds(look: Look) -> str:
    """Whose bound on what it holds unsettled is reached."""
    if _holds_all_messages(look.link):
        by_hand = look.link.get("bound_by_operator") == look.link.get("unsettled_max")
        return "operator" if by_hand else f"policy of {_where(look)}"
    return "client" if look.link.get("bytes_bound_by") == "client" else f"policy of {_where(look)}"


def _full_hands(look: Look) -> str:
    who = {"operator": "an operator", "client": "the client itself"}.get(_who_bounds(look), "a policy")
    if not _holds_all_messages(look.link):
        return (
            f"it holds {count(look.link, 'unsettled_bytes')} bytes that it has not settled, and {who} allows"
            f" {look.link.get('unsettled_bytes_max')}, which leaves no room for the next message"
        )
    return (
        f"it holds {count(look.link, 'unsettled')} messages that it has not settled, and {who} allows"
        f" {look.link['unsettled_max']}"
    )


def _stuck(look: Look) -> bool:
    """Whether deliveries wait in the session."""
    return look.link.get("idle") is False


PUBLISHERS = WaitEdge(HopKind.PUBLISHER_QUEUE,
    lambda look: figures(look.queue, "publishers", "published", "messages_waiting") | (
        {"publishers_waiting": look.publishers_waiting} if look.queue else {}),
    lambda look: bool(look.queue), _publishers)  # fmt: skip
CONSUMER: Chain = (
    PUBLISHERS,
    WaitEdge(HopKind.QUEUE_LINK,
        lambda look: figures(
                look.link, "link_credit", "queue_grant", "available", "active", "drain", "paused", "unsettled",
                "unsettled_max", "bound_by_operator", "unsettled_bytes", "unsettled_bytes_max")
            | figures(look.queue, "messages_ready", "messages_unacknowledged", "consumers"),
        lambda look: known(look.link, "link_credit") and _ready(look) is not None, _remark,
        [replace(DRAINED, holds=_granted(lambda look: FlowReason.DRAIN_MODE.value in texts(look.link, "held_up_by"))),
         Cause(FlowReason.PAUSED, _granted(lambda look: look.link.get("paused") is True),
            "operator", "an operator has paused it"),
         Cause(FlowReason.POLICY, _granted(_is_full), _who_bounds, _full_hands),
         Cause(FlowReason.INACTIVE, _granted(lambda look: look.link.get("active") is False),
            lambda look: f"active consumer of {_where(look)}",
            lambda look: f"another consumer of {_where(look)} is the single active one"),
         Cause(FlowReason.NO_MESSAGE, _granted(lambda look: _ready(look) == 0 and not _stuck(look)), _where,
            lambda look: f"it has {_credit_left(look)}, and none is ready"),
         Cause(FlowReason.LINK_CREDIT, lambda look: _asks_for_none(look) and _ready(look), "client",
            lambda look: f"{_ready(look)} messages are ready, and the client has granted no link credit")]),
    WaitEdge(HopKind.LINK_SESSION,
        lambda look: figures(look.link, "waiting") | figures(look.session, "remote_incoming_window"),
        lambda look: known(look.session, "remote_incoming_window") and known(look.link, "waiting"),
        causes=[Cause(FlowReason.SESSION_WINDOW,
            lambda look: _stuck(look) and number(look.session, "remote_incoming_window") == 0, "client",
            lambda look: f"{count(look.link, 'waiting') or 'parts of'} deliveries wait, and the client's"
                " incoming-window is used up")]),
    WaitEdge(HopKind.SESSION_CONSUMER,
        lambda look: figures(look.link, "waiting") | figures(look.connection, "backlog_bytes", "unsent_bytes"),
        lambda look: known(look.connection, "backlog_bytes"),
        causes=[Cause(FlowReason.SOCKET,
            lambda look: _stuck(look) and count(look.connection, "backlog_bytes")
                and number(look.session, "remote_incoming_window"), "client",
            lambda look: f"the client does not read: {look.connection['backlog_bytes']} bytes wait for its socket")]),
)  # fmt: skip

# --- an AMQP 0.9.1 connection ----------------------------------------------------------------------------------------


def _stage(number: int, kind: HopKind, slow: SlowStage) -> WaitEdge:
    """The edge behind the stages of this number, where messages wait if the stage behind it is slow."""

    def numbers(look: Look) -> Snapshot:
        marked = [row for row in look.stages[number] if row.get("stage_credit_state") == FlowState.FLOW]
        held_up_by = sorted({name for row in marked for name in texts(row, "stage_credit_held_up_by")})
        return {"stages": len(look.stages[number]), "marked": len(marked), "held_up_by": held_up_by}

    def culprit(look: Look) -> str:
        names = ", ".join(look.bottleneck.names[:NAMES_MAX]) if look.bottleneck is not None else ""
        return slow.value if slow is SlowStage.STORE else f"{slow.value} {names}"

    return WaitEdge(kind, numbers, lambda look: all("stage_credit_state" in row for row in look.stages[number]),
        causes=[Cause(FlowReason.STAGE_CREDIT, lambda look: look.bottleneck and look.bottleneck.stage is slow, culprit,
            lambda look: look.bottleneck.sentence.partition(". Typical")[0] if look.bottleneck else "")])  # fmt: skip


READER: Chain = (
    WaitEdge(HopKind.PUBLISHER_READER,
        lambda look: figures(look.connection, "state", "unsent_bytes") | _alarm_figures(look),
        lambda look: "state" in look.connection, causes=ALARMS),
    _stage(0, HopKind.READER_CHANNEL, SlowStage.CHANNEL),
    _stage(1, HopKind.CHANNEL_QUEUE, SlowStage.QUEUE),
    _stage(2, HopKind.QUEUE_STORE, SlowStage.STORE),
)  # fmt: skip

# --- a queue -----------------------------------------------------------------------------------------------------

QUEUE: Chain = (
    PUBLISHERS,
    STORE,
    WaitEdge(HopKind.QUEUE_CONSUMER, _consumers_figures, lambda _: True,
        lambda look: "" if look.lacks is None else look.lacks.value,
        stands=lambda look: look.lacks not in (None, WaitsFor.MESSAGE)),
)  # fmt: skip


def waits_for(queue: Snapshot, consumers: Collection[Snapshot], links: Collection[Snapshot]) -> WaitsFor | None:
    """What a queue waits for; None while it hands messages out, and when it is not known. ``links`` are the consumers
    of AMQP 1.0 among all of them.

    A stream hands the same messages to each consumer again, so it waits for no consumer.
    """
    if not queue or queue.get("type") == "stream":
        return None
    if not count(queue, "messages_ready"):
        return WaitsFor.MESSAGE
    if not consumers:
        return WaitsFor.CONSUMER
    if any(row.get("active") is not False and count(row, "grant") for row in consumers):
        return None
    if len(consumers) > len(links):
        return WaitsFor.SETTLEMENT if count(queue, "messages_unacknowledged") else None
    if any(link.get("paused") is True for link in links):
        return WaitsFor.OPERATOR
    if any(count(link, "link_credit") and not has_full_hands(link) for link in links):
        return None
    return WaitsFor.SETTLEMENT if any(map(has_full_hands, links)) else WaitsFor.LINK_CREDIT
