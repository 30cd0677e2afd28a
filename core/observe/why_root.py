"""The root of a wait: who in the end has to do something, behind the next hop that ``culprit`` names.

A publisher waits for its full queue, and the queue for its consumers: the root is the consumer that does not settle.
The way from a publisher leads through its queue to the consumer of it that holds most. A memory alarm leads to the
queue that has most, and from there in the same way. What the client of a consumer decides has this client as its root.

A root is a map of ``kind`` and ``identity``, which ``why`` can be asked about, and ``says``, a clause for the operator.
None where the culprit is all that is known.
"""

from collections.abc import Callable, Mapping

from core.interface import FlowReason, Snapshot
from core.observe.advice import WaitsFor
from core.observe.why_chain import reason_of
from core.observe.why_ends import link_answer
from core.observe.why_rows import Rows, count, number, text
from core.observe.why_table import waits_for
from core.slices import Walk, gathered, in_order

CONSUMERS_MAX = 200
"""Consumers of one queue that are looked at, those with a stall first: 0.2 ms for each."""
NEEDED = ("stalls", "lanes", "consumers", "sessions", "connections", "links")
"""The kinds of rows that lead to the root behind a queue. None may be gathered within a connection only."""


def root_of(rows: Rows, answer: Snapshot, link: Snapshot | None = None) -> Walk[Snapshot | None]:
    """Return the root of what an answer of ``why`` says: for a link, for the reader of a connection, or for a queue.
    ``link`` is the row of the link, if it is at hand."""
    if answer["waits"] is not True:
        return None
    reason = reason_of(answer.get("reason"))
    subject = answer.get("subject")
    kind, identity = (subject.get("kind"), text(subject, "identity")) if isinstance(subject, dict) else (None, None)
    if reason is FlowReason.MEMORY:
        return (yield from _of_memory(rows))
    if kind == "addresses" and identity is not None:
        return (yield from _of_queue(rows, identity, grows=reason is FlowReason.QUEUE_FULL))
    if link is None:
        link = rows.one("links", identity)
    if link.get("direction") == "out":
        return _of_consumer(rows, link, answer)
    name = text(link, "full_queue") or text(link, "queue")
    if reason is not FlowReason.QUEUE_FULL or name is None:
        return None
    return (yield from _of_queue(rows, name, grows=True))


def _of_queue(rows: Rows, name: str, *, grows: bool) -> Walk[Snapshot | None]:
    """Return why a queue does not get empty: its consumer that waits and holds most, or that it has none. ``grows`` is
    whether messages are known to come in quicker than they go."""
    yield from rows.gather_missing(*NEEDED)
    queue, attached = rows.one("queues", name), rows.of("consumers", "queue", name)
    if not queue:
        return None
    links = [link for link in rows.of("links", "queue", name) if link.get("direction") == "out"]
    links = yield from in_order(links, key=lambda link: not rows.one("stalls", text(link, "identity")))
    looked_at = yield from gathered((link, link_answer(rows, link)) for link in links[:CONSUMERS_MAX])
    roots = [(count(link, "unsettled"), root) for link, one in looked_at if (root := _of_consumer(rows, link, one))]
    if roots:
        return max(roots, key=lambda pair: pair[0])[1]
    says = QUEUE_SAYS.get(waits_for(queue, attached, links))
    if not attached and (grows or says):
        return _root("addresses", name, f"queue {name} has no consumer")
    if says is None and not grows:
        return None
    held = f"they hold {count(queue, 'messages_unacknowledged')} messages"
    says = says or "are slower than its publishers"
    return _root("addresses", name, f"the {len(attached)} consumers of queue {name} {says}; {held}")


QUEUE_SAYS: Mapping[WaitsFor | None, str] = {
    WaitsFor.CONSUMER: "are gone",
    WaitsFor.SETTLEMENT: "do not settle",
    WaitsFor.LINK_CREDIT: "grant no link credit",
    WaitsFor.OPERATOR: "are paused by an operator",
}
"""What the consumers of a queue do not do, by what the queue waits for."""


def _of_memory(rows: Rows) -> Walk[Snapshot | None]:
    """Return the root behind the queue whose ready messages have most bytes."""
    yield from rows.gather_missing("queues")
    most = max(rows.all("queues"), key=lambda queue: count(queue, "ready_bytes"), default={})
    name = text(most, "name")
    if name is None or not count(most, "ready_bytes"):
        return None
    behind = yield from _of_queue(rows, name, grows=True)
    holds = f"queue {name} holds {count(most, 'ready_bytes')} bytes"
    return _root("addresses", name, holds) if behind is None else behind | {"says": f"{holds}: {behind['says']}"}


def _of_consumer(rows: Rows, link: Snapshot, answer: Snapshot) -> Snapshot | None:
    """Return the client of a consumer as the root, if it is for the client to do something."""
    reason = reason_of(answer.get("reason"))
    says = None if reason is None else CONSUMER_SAYS.get(reason)
    if says is None or answer.get("waits") is not True:
        return None
    connection = rows.one("connections", text(link, "connection"))
    client = link.get("client")
    named = client if isinstance(client, dict) else connection
    who = text(named, "container_id") or text(named, "peer") or text(link, "connection") or ""
    return _root("links", text(link, "identity") or "", f"consumer {who} {says(link)}")


def _settles(link: Snapshot) -> str:
    return f"does not settle: it holds {count(link, 'unsettled')} messages"


def _grants(link: Snapshot) -> str:
    if number(link, "unsettled"):
        return f"{_settles(link)} and grants no more link credit"
    return "grants no link credit"


CONSUMER_SAYS: Mapping[FlowReason, Callable[[Snapshot], str]] = {
    FlowReason.POLICY: _settles,
    FlowReason.LINK_CREDIT: _grants,
    FlowReason.SESSION_WINDOW: lambda _: "does not open its incoming-window",
    FlowReason.SOCKET: lambda _: "does not read what it is sent",
    FlowReason.PAUSED: lambda _: "is paused by an operator",
}
"""What a consumer does not do, by the reason for which it waits."""


def _root(kind: str, identity: str, says: str) -> Snapshot:
    return {"kind": kind, "identity": identity, "says": says}
