"""The walk of one AMQP 1.0 link, hop by hop in the direction of the messages, by its figures alone.

From a publisher: publisher, session, link, queue (or exchange), store, consumers. To a consumer: publishers, queue,
link, session, consumer. Front ends decide in their own code why a link waits; this module derives the same from their
rows. tests/core/observe/test_why_reasons.py shows for every reason that both agree with each other and with the ledger.

docs/flow-reasons lists the reasons; a link that has link credit left can only wait for an alarm.
"""

from collections.abc import Collection, Iterator

from core.interface import FlowReason, Snapshot
from core.observe.advice import HopKind, WaitsFor
from core.observe.why_chain import Finding, Hop, Rows, count, figures, first_reason, known, number, text, texts
from core.observe.why_verdict import verdict

LANES = {"classic": "classic", "quorum": "quorum", "stream": "streams"}
"""The lane of the store that keeps the messages of each queue type."""
ALARM_FIGURES = ("used", "limit", "free", "free_limit")
DRAINED = Finding(reason=FlowReason.DRAIN_MODE, culprit="operator", says="the broker is being drained for a stop")
PAUSED = Finding(reason=FlowReason.PAUSED, culprit="operator", says="an operator has paused it")


def walk(rows: Rows, link: Snapshot) -> list[Hop]:
    """Return all hops of a link."""
    return list(_from_publisher(rows, link) if link.get("direction") == "in" else _to_consumer(rows, link))


def link_answer(rows: Rows, link: Snapshot) -> Snapshot:
    """Return the whole answer for a link."""
    identity = text(link, "identity")
    connection = rows.one("connections", text(link, "connection"))
    subject: Snapshot = {"kind": "links", "identity": identity}
    subject |= figures(link, "connection", "session", "name", "direction", "address")
    subject |= figures(connection, "peer", "container_id", "user")
    return {"subject": subject} | verdict(described(link), walk(rows, link), rows.one("stalls", identity))


def described(link: Snapshot) -> str:
    """A short description of a link."""
    what = "publishes to" if link.get("direction") == "in" else "consumes from"
    return f"link {link.get('identity')} ({what} {where(link)})"


def where(link: Snapshot) -> str:
    """The other end of a link inside the broker, in the terms of the ledger of stalls."""
    for kind in ("queue", "exchange"):
        if text(link, kind) is not None:
            return f"{kind} {link[kind]}"
    return text(link, "address") or "targets of its messages"


# --- from a publisher ----------------------------------------------------------------------------------------------


def _from_publisher(rows: Rows, link: Snapshot) -> Iterator[Hop]:
    queue = rows.one("queues", text(link, "queue"))
    yield _publisher_session(rows, link)
    yield _session_link(link)
    yield _link_target(link, queue)
    if text(link, "queue") is not None:
        full = bool(link.get("withheld")) and _used_up(link)
        yield store_hop(rows, queue, link)
        yield consumers_hop(rows, queue, full=full)


def _publisher_session(rows: Rows, link: Snapshot) -> Hop:
    connection = rows.one("connections", text(link, "connection"))
    session = rows.one("sessions", text(link, "session"))
    numbers = figures(session, "incoming_window", "incoming_window_closed")
    finding = alarm_finding(rows, texts(connection, "alarms"), numbers)
    says = ""
    if finding is None and number(session, "incoming_window") == 0:
        says = "the client has used up the incoming-window and has not read the flow that opens it again"
    return Hop(
        kind=HopKind.PUBLISHER_SESSION,
        numbers=numbers,
        finding=finding,
        known=known(session, "incoming_window") and not says,
        says=says,
    )


def alarm_finding(rows: Rows, alarms: tuple[str, ...], numbers: Snapshot) -> Finding | None:
    """The finding when one of these alarms is on; the alarms' figures are added to ``numbers``."""
    found = []
    if FlowReason.DRAIN_MODE.value in alarms:
        found.append(DRAINED)
    for reason in (FlowReason.MEMORY, FlowReason.DISK):
        if reason.value in alarms:
            row = rows.one("alarms", reason.value)
            numbers.update({f"{reason.value}_{key}": value for key, value in figures(row, *ALARM_FIGURES).items()})
            cause = text(row, "cause")
            says = f"no client may publish while the {reason.value} alarm is on" + (f" ({cause})" if cause else "")
            found.append(Finding(reason=reason, culprit=f"alarm {reason.value}", says=says))
    if found:
        numbers["alarms"] = list(alarms)
    return first_reason(found)


def _session_link(link: Snapshot) -> Hop:
    numbers = figures(link, "link_credit", "max_link_credit", "bound_by_policy", "bound_by_operator", "unconfirmed")
    finding = None
    by_policy, by_operator = number(link, "bound_by_policy"), number(link, "bound_by_operator")
    if _used_up(link):
        if link.get("paused") is True:
            finding = PAUSED
        elif by_operator is not None:
            says = f"the {by_operator} messages of link credit that an operator allows are used up"
            finding = Finding(reason=FlowReason.POLICY, culprit="operator", says=says)
        elif by_policy is not None:
            says = f"the {by_policy} messages of link credit that a policy allows are used up"
            finding = Finding(reason=FlowReason.POLICY, culprit=f"policy of {where(link)}", says=says)
    return Hop(
        kind=HopKind.SESSION_LINK,
        numbers=numbers,
        finding=finding,
        known=known(link, "link_credit"),
        says=f"link credit for {link['link_credit']} messages" if number(link, "link_credit") else "",
    )


def _link_target(link: Snapshot, queue: Snapshot) -> Hop:
    numbers = figures(link, "link_credit", "unconfirmed", "unconfirmed_limit", "withheld")
    numbers |= figures(queue, "messages_waiting", "messages_ready", "max_length")
    if number(queue, "max_length_bytes") is not None:
        numbers |= figures(queue, "ready_bytes", "max_length_bytes")
    finding = None
    if _used_up(link) and link.get("withheld") is True:
        finding = Finding(reason=FlowReason.QUEUE_FULL, culprit=where(link), says=_full(link, queue))
    elif _used_up(link) and not count(link, "unsynced") and "unconfirmed_limit" in link:
        says = f"{where(link)} has not taken on {count(link, 'unconfirmed')} of its messages yet"
        finding = Finding(reason=FlowReason.UNCONFIRMED_LIMIT, culprit=where(link), says=says)
    return Hop(
        kind=HopKind.LINK_EXCHANGE if text(link, "exchange") else HopKind.LINK_QUEUE,
        numbers=numbers,
        finding=finding,
        known=known(link, "link_credit", "unconfirmed", "unconfirmed_limit"),
        says=f"{link.get('unconfirmed')} messages without an outcome" if known(link, "unconfirmed") else "",
    )


def _full(link: Snapshot, queue: Snapshot) -> str:
    limit = number(queue, "max_length")
    if limit is not None and count(queue, "messages_ready") >= limit:
        return f"{where(link)} has {queue.get('messages_ready')} messages ready, and its limit is {limit}"
    if number(queue, "max_length_bytes") is not None:
        limit_bytes = queue["max_length_bytes"]
        return f"{where(link)} has {queue.get('ready_bytes')} bytes ready, and its limit is {limit_bytes}"
    return f"{where(link)} is at its length limit"


def _used_up(link: Snapshot) -> bool:
    """Whether the link is known to have no link credit."""
    return number(link, "link_credit") == 0


def store_hop(rows: Rows, queue: Snapshot, link: Snapshot) -> Hop:
    """The hop to the disk: whether the messages of a link wait for it, or those of a queue (with an empty link)."""
    lane = rows.one("lanes", LANES.get(str(queue.get("type"))))
    numbers = figures(link, "unsynced")
    numbers |= figures(lane, "staged_bytes", "records_not_synced", "sync_wanted", "last_sync_seconds", "failed")
    unsynced = count(link, "unsynced")
    finding = None
    if unsynced and _used_up(link) and link.get("withheld") is not True:
        says = f"{unsynced} of its messages wait for a sync of the disk"
        if number(lane, "last_sync_seconds"):
            says += f"; the last one took {count(lane, 'last_sync_seconds') * 1000:.1f} ms"
        finding = Finding(reason=FlowReason.STORE_SLOW, culprit="store", says=says)
    return Hop(
        kind=HopKind.QUEUE_STORE,
        numbers=numbers,
        finding=finding,
        known=bool(lane) or (bool(queue) and not rows.all("lanes")),
        says="" if rows.all("lanes") else "the broker has no store: everything is kept in memory",
    )


# --- to a consumer ---------------------------------------------------------------------------------------------------


def _to_consumer(rows: Rows, link: Snapshot) -> Iterator[Hop]:
    queue = rows.one("queues", text(link, "queue"))
    yield publishers_hop(queue, rows.count("stalls", "address", text(link, "address"), _comes_in))
    yield _queue_link(link, queue)
    yield _link_session(rows, link)
    yield _session_consumer(rows, link)


def _queue_link(link: Snapshot, queue: Snapshot) -> Hop:
    numbers = figures(link, "link_credit", "queue_grant", "available", "active", "drain", "paused")
    numbers |= figures(queue, "messages_ready", "messages_unacknowledged", "consumers")
    ready = number(queue, "messages_ready") if link.get("available") is None else number(link, "available")
    finding, says = None, ""
    if number(link, "link_credit"):
        finding = _of_granted(link, ready)
        says = "" if finding is not None else f"link credit for {link['link_credit']} messages"
    elif _used_up(link) and link.get("idle") is not False and link.get("active") is not False:
        if ready:
            says = f"{ready} messages are ready, and the client has granted no link credit"
            finding = Finding(reason=FlowReason.LINK_CREDIT, culprit="client", says=says)
        elif ready == 0:
            says = "the client has granted no link credit, and no message is ready"
    return Hop(
        kind=HopKind.QUEUE_LINK,
        numbers=numbers,
        finding=finding,
        known=known(link, "link_credit") and ready is not None,
        says=says,
    )


def _of_granted(link: Snapshot, ready: float | None) -> Finding | None:
    """Why a client that has granted link credit gets no message for it; None when there is no such reason."""
    if FlowReason.DRAIN_MODE.value in texts(link, "held_up_by"):
        return DRAINED
    if link.get("paused") is True:
        return PAUSED
    if link.get("active") is False:
        return Finding(
            reason=FlowReason.INACTIVE,
            culprit=f"active consumer of {where(link)}",
            says=f"another consumer of {where(link)} is the single active one",
        )
    if ready == 0 and link.get("idle") is not False:
        says = f"it has link credit for {link.get('link_credit')} messages, and none is ready"
        return Finding(reason=FlowReason.NO_MESSAGE, culprit=where(link), says=says)
    return None


def _link_session(rows: Rows, link: Snapshot) -> Hop:
    session = rows.one("sessions", text(link, "session"))
    numbers = figures(link, "waiting") | figures(session, "remote_incoming_window")
    finding = None
    if link.get("idle") is False and number(session, "remote_incoming_window") == 0:
        waiting = count(link, "waiting") or "parts of"
        says = f"{waiting} deliveries wait, and the client's incoming-window is used up"
        finding = Finding(reason=FlowReason.SESSION_WINDOW, culprit="client", says=says)
    return Hop(
        kind=HopKind.LINK_SESSION,
        numbers=numbers,
        finding=finding,
        known=known(session, "remote_incoming_window") and known(link, "waiting"),
    )


def _session_consumer(rows: Rows, link: Snapshot) -> Hop:
    session = rows.one("sessions", text(link, "session"))
    connection = rows.one("connections", text(link, "connection"))
    numbers = figures(link, "waiting") | figures(connection, "backlog_bytes", "unsent_bytes")
    finding = None
    if link.get("idle") is False and count(connection, "backlog_bytes") and number(session, "remote_incoming_window"):
        says = f"the client does not read: {connection['backlog_bytes']} bytes wait for its socket"
        finding = Finding(reason=FlowReason.SOCKET, culprit="client", says=says)
    return Hop(
        kind=HopKind.SESSION_CONSUMER,
        numbers=numbers,
        finding=finding,
        known=known(connection, "backlog_bytes"),
    )


# --- all publishers or consumers of a queue ------------------------------------------------------------------------


def publishers_hop(queue: Snapshot, waiting: int) -> Hop:
    """The hop of the messages that come into a queue; ``waiting`` of its publishers wait."""
    numbers = figures(queue, "publishers", "published", "messages_waiting")
    says = "" if count(queue, "publishers") else "no link publishes to this queue alone"
    if queue:
        numbers["publishers_waiting"] = waiting
    if waiting:
        says = f"{waiting} of its publishers wait"
    return Hop(kind=HopKind.PUBLISHER_QUEUE, numbers=numbers, known=bool(queue), says=says)


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
    return None if any(count(link, "link_credit") for link in links) else WaitsFor.LINK_CREDIT


def consumers_hop(rows: Rows, queue: Snapshot, *, full: bool) -> Hop:
    """The hop of the messages that leave a queue, as its publishers see it. ``full``: the queue is at its limit because
    of it."""
    numbers = consumers_figures(rows, queue)
    consumers = count(numbers, "consumers")
    says = f"{consumers} consumers" if consumers else WaitsFor.CONSUMER.value
    if consumers and count(queue, "messages_ready") and not numbers.get("consumers_with_grant"):
        says += ", which take no more now"
    finding = None
    if full:
        finding = Finding(reason=FlowReason.QUEUE_FULL, culprit=f"queue {queue.get('name')}", says=says)
    return Hop(kind=HopKind.QUEUE_CONSUMER, numbers=numbers, finding=finding, known=bool(queue), says=says)


def consumers_figures(rows: Rows, queue: Snapshot) -> Snapshot:
    """The figures of all consumers of a queue: their messages, and how many of them have a queue grant."""
    numbers = figures(queue, "messages_ready", "messages_unacknowledged", "consumers")
    if queue:
        numbers["consumers_with_grant"] = rows.count("consumers", "queue", text(queue, "name"), _has_grant)
    return numbers


def _comes_in(stall: Snapshot) -> bool:
    return stall.get("direction") == "in"


def _has_grant(consumer: Snapshot) -> bool:
    return bool(count(consumer, "grant"))
