"""Why traffic is held up: a walk along publisher, session, link, queue, store and consumer to the first hop that
blocks.

The walk uses the rows of snapshots and starts at a connection, a link or an address. Every answer is a map of

- ``subject``: a map of what was asked about, with its ``kind`` and ``identity``;
- ``waits``: whether something holds it up now (an AMQP 0.9.1 connection: or has within the last second);
- ``reason`` of the closed list and ``culprit``, what has to change; None where nothing holds it up. With the reason
  ``no-message`` it does not wait: it is idle;
- ``since`` (wall-clock seconds) and ``seconds``, None for a wait that the ledger of stalls does not have;
- ``edge``, the hop where it is, for example ``link -> queue``, and ``numbers``, the figures that show it;
- ``also``: the other reasons that hold;
- ``chain``: every hop that was looked at, with ``verdict`` (ok, blocking, unknown), ``reason``, ``says``, ``numbers``;
- ``sentence`` for a person, and ``advice``: what to do, from :mod:`core.observe.advice`;
- ``root``, who in the end has to do something, or None (:mod:`core.observe.why_root`);
- ``last_minute``: the shares of the last minute for which it has waited, by reason, or None
  (:mod:`core.observe.why_minute`).

A connection has besides ``connection``, ``protocol``, ``state``, ``links``, and ``stage`` and ``names`` of stage credit
(:mod:`core.observe.why_ends`); an address has what stands in :mod:`core.observe.why_address`. The conditions and
sentences are in :mod:`core.observe.why_table`.
"""

from core.interface import Snapshot
from core.observe.why_address import address_answer
from core.observe.why_chain import nothing
from core.observe.why_ends import has_reader, in_short, link_answer, reader_answer, worst
from core.observe.why_minute import minute_of
from core.observe.why_root import root_of
from core.observe.why_rows import Rows, figures, text
from core.row_walks import RowSource
from core.slices import Walk, gathered, in_order

LINKS_MAX = 200
"""Links of one connection that are walked, links with a stall first: 0.2 ms for each."""


def why(source: RowSource, kind: str, identity: str) -> Walk[Snapshot | None]:
    """Return the answer; None where there is no such thing, and for a kind that is not in :data:`core.rows.WHY_KINDS`.

    An address is the name of a queue.
    """
    asked = {"connections": "connections", "links": "links", "addresses": "queues"}.get(kind)
    if asked is None:
        return None
    rows = Rows(source)
    row = yield from rows.find(asked, identity)
    if not row:
        return None
    yield from rows.gather("lanes")
    match kind:
        case "connections":
            answer = yield from _connection_answer(rows, row, identity)
            root = yield from _root_of_worst(rows.keeping("lanes"), answer)
        case "links":
            answer = link_answer(rows, row)
            root = yield from root_of(rows, answer, row)
        case _:
            yield from rows.gather("stalls", "consumers")
            answer = yield from address_answer(rows, row, identity)
            root = yield from root_of(rows, answer)
    return answer | {"root": root, "last_minute": (yield from minute_of(rows, kind, identity))}


def _root_of_worst(rows: Rows, answer: Snapshot) -> Walk[Snapshot | None]:
    """Return the root of the answer for a connection: that of the link that it waits for, if it has links."""
    links = answer.get("links")
    who = links.get("who") if isinstance(links, dict) else None
    if isinstance(who, list) and who:
        first = next((one for one in who if one.get("sentence") == answer["sentence"]), who[0])
        answer = answer | {"subject": {"kind": "links", "identity": first["identity"]}}
    return (yield from root_of(rows, answer))


def _connection_answer(rows: Rows, connection: Snapshot, identity: str) -> Walk[Snapshot]:
    own: Snapshot = {
        "connection": identity,
        "protocol": connection.get("protocol"),
        "state": connection.get("state"),
        "stage": None,
        "names": [],
    }
    if has_reader(connection):
        yield from rows.gather("channels", within=identity)
        return own | reader_answer(rows, connection)
    return own | (yield from _of_links(rows, connection, identity))


def _of_links(rows: Rows, connection: Snapshot, identity: str) -> Walk[Snapshot]:
    """Return the answer for an AMQP 1.0 connection: it waits when one of its links does."""
    yield from rows.gather("sessions", "links", within=identity)
    links = yield from in_order(
        rows.of("links", "connection", identity), key=lambda link: not rows.one("stalls", text(link, "identity"))
    )
    answers = yield from gathered(link_answer(rows, link) for link in links[:LINKS_MAX])
    found = worst(answers) or nothing(f"Nothing holds up connection {identity}: none of its {len(links)} links waits.")
    subject = {"kind": "connections", "identity": identity} | figures(connection, "peer", "container_id", "user")
    return found | {"subject": subject, "links": {"count": len(links), **in_short(answers)}}
