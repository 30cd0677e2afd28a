"""The rows that ``why`` reads.

Rows come from other parts of the broker and may be of another version or incomplete. A field that is missing or of
another type counts as not known, and nothing here raises for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from core.interface import Snapshot
from core.row_walks import RowSource
from core.slices import Walk, run_at_once

ENGINE_KINDS = ("queues", "lanes", "alarms")
"""Kinds whose rows have a name; rows of other kinds have an identity."""
KEYS = {
    "stalls": ("connection", "address"),
    "links": ("connection", "queue"),
    "channels": ("connection",),
    "consumers": ("queue",),
    "bindings": ("destination",),
}
"""The fields by which rows of a kind are found, besides their own name or identity."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one look. None is read twice; of kinds that may have many rows, all are gathered first."""

    source: RowSource
    _kinds: dict[str, list[Snapshot]] = field(default_factory=dict)
    _ones: dict[tuple[str, str], Snapshot] = field(default_factory=dict)
    _found: dict[tuple[str, str], dict[str, list[Snapshot]]] = field(default_factory=dict)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def gather(self, *kinds: str, within: str | None = None) -> Walk[None]:
        """Read all rows of these kinds, or those of the connection ``within``."""
        for kind in kinds:
            rows = self._kinds[kind] = []
            indexes: dict[str, dict[str, list[Snapshot]]] = {key: {} for key in (_own_key(kind), *KEYS.get(kind, ()))}
            self._found.update({(kind, key): index for key, index in indexes.items()})
            for row in self.source.rows(kind, within):
                rows.append(row)
                for key, index in indexes.items():
                    index.setdefault(str(row.get(key)), []).append(row)
                yield None

    def gather_missing(self, *kinds: str) -> Walk[None]:
        """Read all rows of those of these kinds that are not gathered."""
        yield from self.gather(*(kind for kind in kinds if kind not in self._kinds))

    def keeping(self, *kinds: str) -> "Rows":
        """The same source, of which only these kinds are gathered: others were gathered within a connection."""
        found = {key: index for key, index in self._found.items() if key[0] in kinds}
        return Rows(self.source, {kind: self._kinds[kind] for kind in kinds if kind in self._kinds}, _found=found)

    def all(self, kind: str) -> list[Snapshot]:
        """All rows of a gathered kind."""
        return self._kinds[kind]

    def of(self, kind: str, key: str, value: str | None) -> list[Snapshot]:
        """The rows of a gathered kind that have this value in one of its :data:`KEYS`."""
        return [] if value is None else self._found[kind, key].get(value, [])

    def publishers_waiting(self, address: str | None) -> int:
        """How many publishers of an address have a stall."""
        return self._counted("stalls", "address", address, "waiting_publishers", _comes_in)

    def consumers_with_grant(self, queue: str | None) -> int:
        """How many consumers of a queue have a queue grant."""
        return self._counted("consumers", "queue", queue, "consumers_with_grant", _has_grant)

    def _counted(self, kind: str, key: str, value: str | None, counts: str, wanted: Callable[[Snapshot], bool]) -> int:
        """How many rows of a kind with this value are wanted: counted once, however many links need the number. Where
        the kind is not gathered, the broker has the number in a row of the kind ``counts``."""
        if value is None:
            return 0
        counted = self._counts.get((counts, value))
        if counted is None:
            if kind in self._kinds:
                counted = sum(map(wanted, self.of(kind, key, value)))
            else:
                counted = sum(int(count(row, "count")) for row in self.source.rows(counts, value))
            self._counts[counts, value] = counted
        return counted

    def one(self, kind: str, identity: str | None) -> Snapshot:
        """The row of this name; an empty one when there is none. Cheap for a kind that is not gathered only if it has
        few rows."""
        if identity is None:
            return {}
        if kind in self._kinds:
            return next(iter(self.of(kind, _own_key(kind), identity)), {})
        if (kind, identity) not in self._ones:
            self._ones[kind, identity] = run_at_once(self.find(kind, identity))
        return self._ones[kind, identity]

    def find(self, kind: str, identity: str) -> Walk[Snapshot]:
        """The same for a kind that may have many rows, in slices."""
        for row in self.source.rows(kind, identity):
            if row.get(_own_key(kind)) == identity:
                return row
            yield None
        return {}


def _comes_in(stall: Snapshot) -> bool:
    return stall.get("direction") == "in"


def _has_grant(consumer: Snapshot) -> bool:
    return bool(count(consumer, "grant"))


def _own_key(kind: str) -> str:
    return "name" if kind in ENGINE_KINDS else "identity"


def number(row: Snapshot, key: str) -> int | float | None:
    """A figure of a row; None when it is not known."""
    value = row.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(row: Snapshot, key: str) -> int | float:
    """A figure of a row; 0 when it is not known."""
    return number(row, key) or 0


def text(row: Snapshot, key: str) -> str | None:
    """A text of a row; None when it is not known, or empty."""
    value = row.get(key)
    return value if isinstance(value, str) and value else None


def texts(row: Snapshot, key: str) -> tuple[str, ...]:
    """A list of texts of a row; empty when it is not known."""
    value = row.get(key)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def figures(row: Snapshot, *keys: str) -> Snapshot:
    """Those of these fields that the row has."""
    return {key: row[key] for key in keys if row.get(key) is not None}


def known(row: Snapshot, *keys: str) -> bool:
    """Whether all of these fields are numbers."""
    return all(number(row, key) is not None for key in keys)
