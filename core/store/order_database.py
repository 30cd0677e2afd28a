"""The order of the changes of definitions, kept by the first of several processes on one port: the last changes, and
what all of them add up to. It is an SQLite file in that process's data folder.

Methods block for the disk, so they are for a worker thread, one at a time.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from core.store.errors import StoreDamaged, StoreFailure

FILE = "order.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS state
    (key BLOB PRIMARY KEY, value BLOB NOT NULL, made INTEGER NOT NULL, put INTEGER NOT NULL) WITHOUT ROWID;
"""
Operation = tuple[bytes, bytes, bytes | None]
"""A key, behind the last of its range or empty, and the value that is put; None for one that deletes."""


class StateKey(NamedTuple):
    """A key of the state. The revisions are numbers of changes: the one that made the key, and the last that put it."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int


class OrderDatabase:
    """The file, open."""

    def __init__(self, path: Path, *, kept: int, identity: str) -> None:
        """``kept``: how many changes are kept. ``identity``: that of a new file. Raises StoreDamaged, and StoreFailure
        where the disk fails."""
        self._path, self._kept = path, kept
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.execute("PRAGMA synchronous = EXTRA")  # a change is on the disk before any node makes it
            self._connection.executescript(SCHEMA)
            if (found := self._connection.execute("PRAGMA quick_check").fetchone()) != ("ok",):
                raise StoreDamaged(f"{path} is damaged: {found[0]}")
            self._connection.execute("INSERT OR IGNORE INTO facts VALUES ('identity', ?)", (identity,))
            facts = dict(self._connection.execute("SELECT name, value FROM facts"))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise StoreFailure("open", str(path), OSError(str(error))) from None
            raise StoreDamaged(f"{path} is damaged: {error}") from None
        self.identity = str(facts["identity"])
        """Which order this is."""
        self.latest = int(facts.get("latest", 0))
        """The number of the last change; 0 before the first."""

    def put(self, number: int, data: bytes, operations: Iterable[Operation]) -> bool:
        """Put a change, with what it does to the state, if its number is the next one. Returns whether it was. Raises
        StoreFailure; nothing has changed then."""
        if number != self.latest + 1:
            return False
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            try:
                run("INSERT INTO changes VALUES (?, ?)", (number, data))
                run("DELETE FROM changes WHERE number <= ?", (number - self._kept,))
                run("INSERT OR REPLACE INTO facts VALUES ('latest', ?)", (number,))
                for key, end, value in operations:
                    if value is not None:
                        run(
                            "INSERT INTO state VALUES (?, ?, ?, ?) "
                            "ON CONFLICT (key) DO UPDATE SET value = excluded.value, put = excluded.put",
                            (key, value, number, number),
                        )
                    elif end:
                        run("DELETE FROM state WHERE key >= ? AND key < ?", (key, end))
                    else:
                        run("DELETE FROM state WHERE key = ?", (key,))
            except BaseException:
                run("ROLLBACK")
                raise
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise StoreFailure("write", str(self._path), OSError(str(error))) from None
        self.latest = number
        return True

    def changes(self, known: int, most: int) -> Sequence[tuple[int, bytes]]:
        """The changes after the one with the number ``known``, as many as wanted; none if the next one is not kept."""
        query = "SELECT number, data FROM changes WHERE number > ? ORDER BY number LIMIT ?"
        found = self._connection.execute(query, (known, most)).fetchall()
        return found if found and found[0][0] == known + 1 else []

    def state(self) -> tuple[int, Sequence[StateKey]]:
        """The number of the last change, and every key."""
        rows = self._connection.execute("SELECT key, value, made, put FROM state ORDER BY key")
        return self.latest, [StateKey(*row) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
