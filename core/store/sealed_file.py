"""One file of definitions: SQLite tables with a seal that proves their contents.

The seal is one row. It has a *generation*, which increases by one with each change; the count of all other rows; the
sum of their digests, which does not depend on their order, so that the cost of a change does not depend on the number
of rows; the highest number that a queue ever had; and a digest of the seal itself. The rows of SQLite's own schema are
counted too. The seal is updated in the transaction of the change.

A file is *proven* if SQLite finds it intact and its rows match the seal. This is checked on a copy in memory before
SQLite opens the file. Changes are written in place, without a journal on disk, and synced, so a crash may leave a
broken file. Therefore there are two files (:mod:`core.store.definitions`), and the second is changed only after the
first is synced. There is no write-ahead log beside the file, because SQLite would silently ignore a damaged end of it.

This module knows tables and seals, but not the meaning of rows.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import cbor2

from core.store.errors import StoreRefused

SCHEMA_VERSION = 2
APPLICATION_ID = int.from_bytes(b"HGdf", "big")
"""SQLite stores it in the header of the file."""

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_VERSION_AT, _APPLICATION_AT = 60, 68
"""Offsets of big-endian 32-bit numbers in SQLite's header [sqlite.org/fileformat.html 1.3]."""
_DIGEST_BYTES = 16
"""128 bits: the probability that damage keeps the sum is negligible."""
_DIGEST_MODULUS = 1 << 8 * _DIGEST_BYTES

_SCHEMA = """
CREATE TABLE vhosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE users (name TEXT PRIMARY KEY, keys TEXT NOT NULL);
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT, vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL,
    auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL, identity TEXT NOT NULL, UNIQUE (vhost, name));
CREATE TABLE exchanges (
    vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL, type TEXT NOT NULL, auto_delete INTEGER NOT NULL,
    internal INTEGER NOT NULL, arguments BLOB NOT NULL, PRIMARY KEY (vhost, name));
CREATE TABLE bindings (
    id INTEGER PRIMARY KEY, vhost INTEGER NOT NULL REFERENCES vhosts, source TEXT NOT NULL, destination TEXT NOT NULL,
    to_queue INTEGER NOT NULL, binding_key TEXT NOT NULL, arguments BLOB NOT NULL,
    UNIQUE (vhost, source, destination, to_queue, binding_key, arguments));
CREATE TABLE policies (
    vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL, pattern TEXT NOT NULL, priority INTEGER NOT NULL,
    apply_to TEXT NOT NULL, definition BLOB NOT NULL, PRIMARY KEY (vhost, name));
"""
_SINCE_LAYOUT_2 = """
CREATE TABLE deleted (id INTEGER PRIMARY KEY);
CREATE TABLE seal (
    generation INTEGER NOT NULL, rows INTEGER NOT NULL, digest BLOB NOT NULL, last_number INTEGER NOT NULL,
    proof BLOB NOT NULL);
"""
_TABLES = ("vhosts", "users", "queues", "exchanges", "bindings", "policies", "deleted")
_SCHEMA_ROWS = "SELECT 'schema', type, name, tbl_name, sql FROM sqlite_master"

_SYNCED = "PRAGMA synchronous = FULL"
"""A transaction syncs the file before it returns."""

Statement = tuple[str, Sequence[object]]
"""SQL and its values."""


class Seal(NamedTuple):
    """The seal of a file, without its own digest."""

    generation: int
    rows: int
    digest: bytes
    last_number: int
    """The highest number that a queue ever had."""

    @property
    def proof(self) -> bytes:
        """The digest of the seal itself."""
        return _digest(tuple(self))


class Judged(NamedTuple):
    """A file as found by a start, with the judgement."""

    path: Path
    image: bytes
    seal: Seal | None
    """None if the file is not proven; ``why`` has the reason."""
    why: str = ""
    layout: int = SCHEMA_VERSION
    """The layout named in the header; 0 if there is none."""


class SealedFile:
    """An open, proven file. A change that raises sqlite3.Error has no effect, unless the disk failed.

    ``lock_wait_s``: how long a change waits for another program that has locked the file.
    """

    def __init__(self, path: Path, *, lock_wait_s: float) -> None:
        """Raises sqlite3.Error, OSError."""
        self.path = path
        self._place = _place(path)
        self._rows = 0
        self._sum = 0
        """The rows and digests added by this transaction minus those removed."""
        # Opened before SQLite opens the file and closed after it: a close drops the locks that SQLite has on the file.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._connection = sqlite3.connect(path, timeout=lock_wait_s, isolation_level=None)
        except BaseException:
            os.close(self._descriptor)
            raise
        try:
            _set_up(self._connection)
            self._connection.create_function("sealed", -1, self._changed)
            for table in _TABLES:
                self._watch(table)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file. The object must not be used afterwards."""
        self._connection.close()
        os.close(self._descriptor)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for reading only."""
        return self._connection

    @property
    def is_there(self) -> bool:
        """False if the file was removed or replaced, because SQLite would continue to write to the unnamed file. Raises
        OSError."""
        return _place(self.path) == self._place

    def seal(self) -> Seal:
        """Read the current seal. Raises sqlite3.Error."""
        row = self._connection.execute("SELECT generation, rows, digest, last_number FROM seal").fetchone()
        return Seal(*row)

    def write(self, statements: Iterable[Statement], numbers: int = 0) -> tuple[Seal, Seal]:
        """As :meth:`change`, but :meth:`sync` must follow: a power cut may still leave a part of the change."""
        self._connection.execute("PRAGMA synchronous = OFF")
        try:
            return self.change(statements, numbers)
        finally:
            self._connection.execute(_SYNCED)

    def sync(self) -> None:
        """Sync what was written. The only method that another thread may call. Raises OSError; then the contents of the
        file are unknown."""
        os.fdatasync(self._descriptor)

    def change(self, statements: Iterable[Statement], numbers: int = 0) -> tuple[Seal, Seal]:
        """Execute the statements in one synced transaction. Returns the seals before and after; they are equal if
        nothing has changed.

        ``numbers``: how many queue numbers the statements use. The statements see the seal's ``last_number`` from
        before.
        """
        connection = self._connection
        self._rows = self._sum = 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            before = seal = self.seal()
            for sql, values in statements:
                connection.execute(sql, values)
            if self._rows or self._sum:
                total = (int.from_bytes(seal.digest, "big") + self._sum) % _DIGEST_MODULUS
                digest = total.to_bytes(_DIGEST_BYTES, "big")
                number = before.last_number + numbers
                seal = Seal(before.generation + 1, before.rows + self._rows, digest, number)
                _put_seal(connection, seal)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return before, seal

    def _watch(self, table: str) -> None:
        """Have SQLite report each added and removed row, by temporary triggers of this connection that are not stored
        in the file."""
        columns = [name for _, name, *_ in self._connection.execute(f"PRAGMA table_info({table})")]
        new, old = (", ".join(f"{row}.{name}" for name in columns) for row in ("NEW", "OLD"))
        came, went = f"SELECT sealed(1, '{table}', {new});", f"SELECT sealed(-1, '{table}', {old});"
        for event, said in (("INSERT", came), ("DELETE", went), ("UPDATE", went + came)):
            self._connection.execute(
                f"CREATE TEMP TRIGGER {table}_{event.lower()} AFTER {event} ON {table} BEGIN {said} END"
            )

    def _changed(self, sign: int, *row: object) -> None:
        self._rows += sign
        self._sum += sign * int.from_bytes(_digest(row), "big")


# --- judging -----------------------------------------------------------------------------------------------------


def judged(path: Path) -> Judged:
    """Read and judge a file. Changes nothing. Raises StoreRefused if it cannot be read."""
    try:
        image = path.read_bytes()
    except FileNotFoundError:
        return Judged(path, b"", None, "it is missing", 0)
    except OSError as error:
        raise StoreRefused(f"{path} cannot be read: {error.strerror}; check who may read it") from None
    if not image:
        return Judged(path, image, None, "it is empty", 0)
    if not image.startswith(_SQLITE_MAGIC) or len(image) < _HEADER_BYTES:
        return Judged(path, image, None, "it is not a database", 0)
    version, application = (int.from_bytes(image[at : at + 4], "big") for at in (_VERSION_AT, _APPLICATION_AT))
    if not application:
        version, application = _numbers_in_log(path)
    if application != APPLICATION_ID:
        return Judged(path, image, None, "it is the database of another program", 0)
    if version > SCHEMA_VERSION:
        why = f"it has layout {version}, and this version of Headgate knows layouts up to {SCHEMA_VERSION}"
        return Judged(path, image, None, why, version)
    if version < SCHEMA_VERSION:
        return Judged(path, image, None, f"it has layout {version}", version)
    try:
        with closing(opened_image(image)) as connection:
            return _proven(path, image, connection)
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        return Judged(path, image, None, f"it is damaged: {error}")


def _numbers_in_log(path: Path) -> tuple[int, int]:
    """Return layout and application id of a file of layout 1 whose broker was killed before SQLite had merged its
    write-ahead log; zeros for any other file. SQLite opens a copy, because it would change the file. Raises
    StoreRefused."""
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        return 0, 0
    try:
        with TemporaryDirectory(prefix="headgate-") as folder:
            for file in (path, log):
                shutil.copyfile(file, Path(folder) / file.name)
            with closing(sqlite3.connect(Path(folder) / path.name)) as copy:
                version, application = (
                    copy.execute(f"PRAGMA {one}").fetchone()[0] for one in ("user_version", "application_id")
                )
                return version, application
    except OSError as error:
        raise StoreRefused(
            f"{path} cannot be looked at: {error.strerror}; it takes a copy in a temporary folder"
        ) from None
    except sqlite3.Error:
        return 0, 0


def _proven(path: Path, image: bytes, connection: sqlite3.Connection) -> Judged:
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        return Judged(path, image, None, f"it is damaged: {found[0]}")
    rows = connection.execute("SELECT generation, rows, digest, last_number, proof FROM seal").fetchall()
    if len(rows) != 1:
        return Judged(path, image, None, f"it has {len(rows)} seals, and must have one")
    *facts, proof = rows[0]
    seal = Seal(*facts)
    count, digest = _counted(connection)
    if seal.proof != proof or (seal.rows, seal.digest) != (count, digest):
        return Judged(path, image, None, f"its {count} rows are not the {seal.rows} that were sealed")
    return Judged(path, image, seal)


def opened_image(image: bytes) -> sqlite3.Connection:
    """Open the bytes of a file as a database in memory. Raises sqlite3.Error."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(image)
    except BaseException:
        connection.close()
        raise
    return connection


# --- making ------------------------------------------------------------------------------------------------------


def new_image(host: str, generation: int = 1, last_number: int = 0) -> bytes:
    """Return the bytes of a new file with one virtual host."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)
        connection.execute("INSERT INTO vhosts (name) VALUES (?)", (host,))
        return _sealed(connection, generation, last_number)


def upgraded_image(path: Path, new_identity: Callable[[], str]) -> bytes:
    """Convert a file of layout 1 to the current layout. The queues get identities. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path, isolation_level=None)) as older, closing(sqlite3.connect(":memory:")) as newer:
        older.execute("PRAGMA journal_mode = DELETE")  # merges its write-ahead log into the file
        if (found := older.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        older.backup(newer)
        newer.isolation_level = None
        newer.execute("ALTER TABLE queues ADD COLUMN identity TEXT NOT NULL DEFAULT ''")
        numbers = [number for (number,) in newer.execute("SELECT id FROM queues ORDER BY id")]
        newer.executemany("UPDATE queues SET identity = ? WHERE id = ?", [(new_identity(), n) for n in numbers])
        given = newer.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'queues'").fetchone()[0]
        return _sealed(newer, 1, max(given or 0, *numbers, 0))


def amended_image(image: bytes, statements: Iterable[Statement], *, generation: int, last_number: int) -> bytes:
    """Return the file with these changes and an updated seal. Raises sqlite3.Error."""
    with closing(opened_image(image)) as connection:
        for sql, values in statements:
            connection.execute(sql, values)
        _put_seal(connection, Seal(generation, *_counted(connection), last_number))
        return connection.serialize()


def write_image(path: Path, image: bytes) -> None:
    """Write a whole file atomically. Raises OSError."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)  # it has the keys of passwords
        file.write(image)
        file.flush()
        os.fsync(file.fileno())
    for beside in ("-wal", "-shm", "-journal"):  # SQLite would use them with the new file
        with suppress(FileNotFoundError):
            os.unlink(path.with_name(path.name + beside))
    os.rename(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# --- inside ------------------------------------------------------------------------------------------------------


def _sealed(connection: sqlite3.Connection, generation: int, last_number: int) -> bytes:
    connection.executescript(
        f"{_SINCE_LAYOUT_2} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
    )
    count, digest = _counted(connection)
    connection.execute("INSERT INTO seal VALUES (0, 0, x'', 0, x'')")
    _put_seal(connection, Seal(generation, count, digest, last_number))
    return connection.serialize()


def _put_seal(connection: sqlite3.Connection, seal: Seal) -> None:
    connection.execute(
        "UPDATE seal SET generation = ?, rows = ?, digest = ?, last_number = ?, proof = ?", (*seal, seal.proof)
    )


def _counted(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return the count of all rows, and the sum of their digests. Raises sqlite3.Error."""
    count = total = 0
    for query in (_SCHEMA_ROWS, *(f"SELECT '{table}', * FROM {table}" for table in _TABLES)):
        for row in connection.execute(query):
            count += 1
            total += int.from_bytes(_digest(row), "big")
    return count, (total % _DIGEST_MODULUS).to_bytes(_DIGEST_BYTES, "big")


def _digest(row: Sequence[object]) -> bytes:
    return blake2b(cbor2.dumps(tuple(row)), digest_size=_DIGEST_BYTES).digest()


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute(_SYNCED)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")  # also report rows that INSERT OR REPLACE removes


def _place(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
