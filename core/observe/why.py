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
- ``sentence`` for a person, and ``advice``: what to do, from :mod:`core.observe.advice`.

A connection has besides ``connection``, ``protocol``, ``state``, ``links``, and ``stage`` and ``names`` of stage credit
(:mod:`core.observe.why_ends`); an address has what stands in :mod:`core.observe.why_address`. The conditions and
sentences are in :mod:`core.observe.why_table`.
"""

from core.interface import Snapshot
from core.observe.why_address import address_answer
from core.observe.why_chain import nothing
from core.observe.why_ends import has_reader, in_short, link_answer, reader_answer, worst
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
            return (yield from _connection_answer(rows, row, identity))
        case "links":
            return link_answer(rows, row)
    yield from rows.gather("stalls", "consumers")
    return (yield from address_answer(rows, row, identity))


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
