"""Walks over rows: find one row by its identity, or a page of rows. Used over AMQP and over HTTP.

There may be a hundred thousand rows of a kind. So a source of rows makes each one when it is asked for, and other tasks
may run between any two of them.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from core.interface import Snapshot
from core.rows import IDENTITY_FIELDS
from core.slices import Walk


class RowSource(Protocol):
    """A source of rows."""

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """All rows of a kind, each made when it is asked for; none for an unknown kind.

        With an identity, the row that has it is among them, if there is one, and as few others as possible.
        """


def identity_of(row: Snapshot) -> str:
    """The value that tells a row from the others of its kind."""
    return next(str(row[field]) for field in IDENTITY_FIELDS if field in row)


def row_of(source: RowSource, kind: str, identity: str) -> Walk[Snapshot | None]:
    """Return the row that has this identity; None where there is none."""
    for row in source.rows(kind, identity):
        if identity_of(row) == identity:
            return row
        yield None
    return None


def page_of(rows: Iterable[Snapshot], *, after: str | None, limit: int) -> Walk[tuple[list[Snapshot], str | None]]:
    """Return the first ``limit`` rows behind an identity, in the order of identities, and the identity after which the
    next page begins; None for the last page. Rows of one identity are never split, so a page may have more.

    It keeps no more than about twice as many rows at a time: all rows of a large broker would take too much memory.
    """
    kept: list[Snapshot] = []
    room = 2 * limit
    last: str | None = None
    more = False
    for row in rows:
        identity = identity_of(row)
        if last is not None and identity > last:
            more = True
        elif after is None or identity > after:
            kept.append(row)
            if len(kept) >= room:
                kept, cut = _first(kept, limit)
                more |= cut
                last, room = identity_of(kept[-1]), max(room, 2 * len(kept))
        yield None
    kept, cut = _first(kept, limit)
    return kept, identity_of(kept[-1]) if more or cut else None


def _first(rows: list[Snapshot], limit: int) -> tuple[list[Snapshot], bool]:
    """Return the first rows in the order of identities, with all rows of the last identity, and whether any are left
    out."""
    rows.sort(key=identity_of)
    end = min(limit, len(rows))
    while 0 < end < len(rows) and identity_of(rows[end]) == identity_of(rows[end - 1]):
        end += 1
    return rows[:end], end < len(rows)
