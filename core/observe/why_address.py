"""What holds up the traffic of a queue: which publishers wait, which consumers wait, and what the queue itself waits
for.

The answer is that of the publisher or consumer whose reason takes precedence. It also has ``waits_for``
(:class:`core.observe.advice.WaitsFor`, or None), ``publishers`` and ``consumers``: maps of ``count``, ``waiting`` and
``who``, which lists those that have waited for longest. A queue that has messages and hands none out ``waits``, without
a reason.

Publishers through an exchange count when a binding leads from it to the queue, whatever their routing keys. Consumers
of AMQP 0.9.1 are counted only; what they wait for shows in ``waits_for``.
"""

from collections.abc import Sequence
from dataclasses import replace

from core.interface import Snapshot
from core.observe.advice import QUEUE_ADVICE, HopKind, WaitsFor
from core.observe.why_chain import Hop, Look, nothing, reason_of, walk
from core.observe.why_ends import in_short, link_answer, reader_answer, worst
from core.observe.why_rows import Rows, count, figures, text, texts
from core.observe.why_table import QUEUE, waits_for
from core.slices import Walk, gathered, in_order

ENDS_MAX = 200
"""Links of one queue that are walked in each direction, links with a stall first: 0.2 ms for each."""


def address_answer(rows: Rows, queue: Snapshot, name: str) -> Walk[Snapshot]:
    """Return the whole answer. ``rows`` must have gathered lanes, stalls and consumers."""
    yield from rows.gather("sessions", "connections", "links", "channels")
    through_exchanges = yield from _through_exchanges(rows, name)
    links = yield from in_order(
        [*rows.of("links", "queue", name), *through_exchanges],
        key=lambda link: not rows.one("stalls", text(link, "identity")),
    )
    incoming = [link for link in links if link.get("direction") == "in"]
    outgoing = [link for link in links if link.get("direction") == "out"]
    readers = yield from _readers(rows, name)
    publishers = yield from gathered(link_answer(rows, link) for link in incoming[:ENDS_MAX])
    publishers += yield from gathered(reader_answer(rows, connection) for connection in readers[:ENDS_MAX])
    consumers = yield from gathered(link_answer(rows, link) for link in outgoing[:ENDS_MAX])
    attached = rows.of("consumers", "queue", name)
    lacks = waits_for(queue, attached, outgoing)
    look = Look(rows=rows, queue=queue, publishers_waiting=_waiting(publishers), lacks=lacks)
    first, store, last = walk(QUEUE, look)
    hops = [_blamed(first, publishers), store, _blamed(last, consumers)]
    found = worst([*publishers, *consumers]) or _of_queue(queue, lacks, hops)
    return found | {
        "subject": {"kind": "addresses", "identity": name} | figures(queue, "type", "policy"),
        "chain": [hop.shown() for hop in hops],
        "sentence": _sentence(queue, lacks, publishers, consumers, found),
        "waits_for": None if lacks is None else lacks.value,
        "publishers": {"count": len(incoming) + len(readers), **in_short(publishers)},
        "consumers": {"count": len(attached), **in_short(consumers)},
    }


def _readers(rows: Rows, name: str) -> Walk[list[Snapshot]]:
    """The AMQP 0.9.1 connections that publish to this queue."""
    found: dict[str, Snapshot] = {}
    for channel in rows.all("channels"):
        connection = str(channel.get("connection"))
        if connection not in found and name in texts(channel, "publishes_to"):
            found[connection] = rows.one("connections", connection)
        yield None
    return [connection for connection in found.values() if connection]


def _through_exchanges(rows: Rows, name: str) -> Walk[list[Snapshot]]:
    """The links to exchanges from which bindings lead to this queue."""
    links = [link for link in rows.all("links") if text(link, "exchange") is not None]
    if not links:
        return []
    yield from rows.gather("bindings")
    bound: dict[str, None] = {}
    names, of_queues = [name], True
    while names:
        sources: dict[str, None] = {}
        for target in names:
            for row in rows.of("bindings", "destination", target):
                source = text(row, "source")
                if row.get("destination_is_queue") is of_queues and source is not None:
                    sources[source] = None
                yield None
        names, of_queues = [source for source in sources if source not in bound], False
        bound |= sources
    return [link for link in links if link["exchange"] in bound]


def _blamed(hop: Hop, answers: Sequence[Snapshot]) -> Hop:
    """Return the hop with the reason of the first of these publishers or consumers that waits, if any waits."""
    found = worst(answers)
    reason = None if found is None else reason_of(found["reason"])
    if found is None or reason is None:
        return hop
    what = "publishers" if hop.kind is HopKind.PUBLISHER_QUEUE else "consumers"
    says = f"{_waiting(answers)} of {len(answers)} {what} wait"
    return replace(hop, reason=reason, culprit=str(found["culprit"]), says=says)


def _of_queue(queue: Snapshot, lacks: WaitsFor | None, hops: Sequence[Hop]) -> Snapshot:
    """Return the answer where no link is blocked: the queue itself may wait, for example for a consumer."""
    answer = nothing("", hops)
    if lacks is None:
        return answer
    answer["advice"] = QUEUE_ADVICE[lacks][1]
    if lacks is WaitsFor.MESSAGE:
        return answer
    outgoing = hops[-1]
    blame: Snapshot = {"waits": True, "culprit": f"consumers of queue {queue.get('name')}"}
    return answer | blame | {"edge": outgoing.kind.value, "numbers": outgoing.numbers}


def _waiting(answers: Sequence[Snapshot]) -> int:
    return sum(answer["waits"] is True for answer in answers)


def _sentence(
    queue: Snapshot,
    lacks: WaitsFor | None,
    publishers: Sequence[Snapshot],
    consumers: Sequence[Snapshot],
    found: Snapshot,
) -> str:
    parts = [f"Queue {queue.get('name')} has {count(queue, 'messages_ready')} messages ready."]
    for what, answers in (("publishers", publishers), ("consumers", consumers)):
        if _waiting(answers):
            parts.append(f"{_waiting(answers)} of its {len(answers)} {what} wait.")
    if lacks not in (None, WaitsFor.MESSAGE):
        parts.append(f"It hands nothing out: {lacks}.")
    if found["reason"] is not None:
        parts.append(str(found["sentence"]))
    elif found["waits"] is False:
        parts.append("Nothing holds it up.")
    return " ".join(parts)
