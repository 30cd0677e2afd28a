"""The definitions that outlive the broker: virtual hosts, users, queues, exchanges, bindings and policies, in SQLite.

They change rarely and must not be lost, so every change is a transaction of its own, synced before it returns
(write-ahead log, ``synchronous=FULL``). A queue's number names its folder in the store and is never given twice, also
not after the queue is gone (``AUTOINCREMENT``). Arguments and definitions of policies are kept as CBOR, which tells a
boolean from a number and bytes from text.

The file says whose it is (``application_id``) and how it is laid out (``user_version``). A file of another's or of a
newer layout is refused before SQLite has touched it.

Only durable things are kept; who is durable, the caller knows. One instance serves one virtual host and belongs to the
thread that opened it.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cbor2

from core.errors import PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.errors import StoreRefused

SCHEMA_VERSION = 2
APPLICATION_ID = int.from_bytes(b"HGdf", "big")
"""SQLite keeps it in the file's header."""
LOCK_WAIT_S = 1.0
"""How long a change waits for another program that has locked the file; the broker stands still meanwhile."""
DEFAULT_HOST = "/"

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_VERSION_AT, _APPLICATION_AT = 60, 68
"""Places in SQLite's header, big-endian 32-bit numbers [sqlite.org/fileformat.html 1.3]."""

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

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDeclaration:
    """What an operator said that queues or exchanges are to be like."""

    name: str
    pattern: str
    """A regular expression, searched for in names."""
    priority: int = 0
    apply_to: str = "all"
    definition: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue, its number and its identity."""

    id: int
    declaration: QueueDeclaration
    identity: str
    """New at every declaration, 32 hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Everything of one virtual host, in the order in which it was made."""

    queues: Sequence[StoredQueue] = ()
    exchanges: Sequence[ExchangeDeclaration] = ()
    bindings: Sequence[Binding] = ()
    policies: Sequence[PolicyDeclaration] = ()


class DefinitionsDatabase:
    """The file. Changes raise PreconditionFailed when they cannot be kept, and have changed nothing then."""

    def __init__(
        self,
        path: Path,
        *,
        new_identity: Callable[[], str],
        host: str = DEFAULT_HOST,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        """Open the file, or make it. ``new_identity`` is for queues of a layout without. Raises StoreRefused."""
        self._path = path
        check_definitions(path)
        with ExitStack() as on_failure:
            try:
                self._connection = sqlite3.connect(path, timeout=lock_wait_s, isolation_level=None)
                on_failure.callback(self._connection.close)
                self.upgraded_from = _prepare(path, self._connection, new_identity)
                """The older layout that the file had; None for one that is new, or had today's."""
                self._host = self._host_id(host)
                self._identity = _identity(path)
            except (sqlite3.Error, OSError) as error:
                raise _refused(path, error) from None
            on_failure.pop_all()

    def close(self) -> None:
        """Nothing may be asked of it afterwards."""
        self._connection.close()

    # --- reading --------------------------------------------------------------------------------------------

    def load(self) -> Definitions:
        """Everything of this virtual host. Raises StoreRefused for a file that is damaged."""
        try:
            return Definitions(
                queues=self._select(
                    "SELECT id, name, auto_delete, arguments, identity FROM queues WHERE vhost = ? ORDER BY id", _queue
                ),
                exchanges=self._select(
                    "SELECT name, type, auto_delete, internal, arguments FROM exchanges WHERE vhost = ? ORDER BY rowid",
                    _exchange,
                ),
                bindings=self._select(
                    "SELECT source, destination, to_queue, binding_key, arguments FROM bindings WHERE vhost = ? "
                    "ORDER BY id",
                    _binding,
                ),
                policies=self._select(
                    "SELECT name, pattern, priority, apply_to, definition FROM policies WHERE vhost = ? ORDER BY rowid",
                    _policy,
                ),
            )
        except (sqlite3.Error, cbor2.CBORDecodeError, ValueError) as error:
            raise _refused(self._path, error) from None

    def hosts(self) -> Sequence[str]:
        """The virtual hosts."""
        return [name for (name,) in self._connection.execute("SELECT name FROM vhosts ORDER BY id")]

    def users(self) -> Mapping[str, str]:
        """The keys of each user's password, by name."""
        return dict(self._connection.execute("SELECT name, keys FROM users ORDER BY name"))

    def problems(self) -> Sequence[str]:
        """What SQLite finds wrong with the file; nothing, if all is well."""
        try:
            found = [text for (text,) in self._connection.execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            return [str(error)]
        return [] if found == ["ok"] else found

    # --- changing -------------------------------------------------------------------------------------------

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int:
        """Returns its number, which no other queue has or had."""
        cursor = self._change(
            f"queue '{declaration.name}'",
            "INSERT INTO queues (vhost, name, auto_delete, arguments, identity) VALUES (?, ?, ?, ?, ?)",
            (self._host, declaration.name, declaration.auto_delete, _packed(declaration.arguments), identity),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        """Keep an exchange that is new."""
        self._change(
            f"exchange '{declaration.name}'",
            "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?)",
            (
                self._host,
                declaration.name,
                declaration.type.value,
                declaration.auto_delete,
                declaration.internal,
                _packed(declaration.arguments),
            ),
        )

    def add_binding(self, binding: Binding) -> None:
        """Keep a binding. Idempotent."""
        self._change(
            f"the binding from '{binding.source}' to '{binding.destination}'",
            "INSERT OR IGNORE INTO bindings (vhost, source, destination, to_queue, binding_key, arguments) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            self._binding_row(binding),
        )

    def remove(
        self, *, queues: Sequence[str] = (), exchanges: Sequence[str] = (), bindings: Sequence[Binding] = ()
    ) -> None:
        """Remove all of these, or none; what is not there is removed already."""
        named = [f"queue '{name}'" for name in queues] + [f"exchange '{name}'" for name in exchanges]
        what = f"the removal of {' and '.join(named) or 'a binding'}"
        self._check_there(what)
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? AND to_queue = ? "
                    "AND binding_key = ? AND arguments = ?",
                    [self._binding_row(binding) for binding in bindings],
                )
                for table, names in (("queues", queues), ("exchanges", exchanges)):
                    self._connection.executemany(
                        f"DELETE FROM {table} WHERE vhost = ? AND name = ?", [(self._host, name) for name in names]
                    )
        except sqlite3.Error as error:
            raise self._not_kept(what, str(error)) from None

    def set_policy(self, policy: PolicyDeclaration) -> None:
        """Keep a policy, in the place of the one of this name."""
        self._change(
            f"policy '{policy.name}'",
            "INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?, ?, ?)",
            (self._host, policy.name, policy.pattern, policy.priority, policy.apply_to, _packed(policy.definition)),
        )

    def remove_policy(self, name: str) -> None:
        """Idempotent."""
        self._change(
            f"the removal of policy '{name}'",
            "DELETE FROM policies WHERE vhost = ? AND name = ?",
            (self._host, name),
        )

    def set_user(self, name: str, keys: str) -> None:
        """Keep a user with the keys of a password, in the place of the one of this name."""
        self._change(f"user '{name}'", "INSERT OR REPLACE INTO users VALUES (?, ?)", (name, keys))

    def remove_user(self, name: str) -> None:
        """Idempotent."""
        self._change(f"the removal of user '{name}'", "DELETE FROM users WHERE name = ?", (name,))

    # --- inside ---------------------------------------------------------------------------------------------

    def _host_id(self, name: str) -> int:
        self._connection.execute("INSERT OR IGNORE INTO vhosts (name) VALUES (?)", (name,))
        (number,) = self._connection.execute("SELECT id FROM vhosts WHERE name = ?", (name,)).fetchone()
        assert isinstance(number, int)
        return number

    def _select(self, query: str, make: Callable[..., ResultT]) -> list[ResultT]:
        return [make(*row) for row in self._connection.execute(query, (self._host,))]

    def _change(self, what: str, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        """One statement that commits itself."""
        self._check_there(what)
        try:
            return self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._not_kept(what, str(error)) from None

    def _check_there(self, what: str) -> None:
        """SQLite would go on writing a file that has no name any more."""
        try:
            found = _identity(self._path)
        except OSError as error:
            raise self._not_kept(what, error.strerror or str(error)) from None
        if found != self._identity:
            raise self._not_kept(what, "another file is in its place")

    def _not_kept(self, what: str, why: str) -> PreconditionFailed:
        return PreconditionFailed(f"{what} cannot be kept in {self._path}: {why}; nothing was changed")

    def _binding_row(self, binding: Binding) -> tuple[object, ...]:
        return (
            self._host,
            binding.source,
            binding.destination,
            binding.destination_is_queue,
            binding.binding_key,
            _packed(binding.arguments),
        )


def check_definitions(path: Path) -> None:
    """Whether the file is one of ours, if it is there. Raises StoreRefused.

    It is looked at as bytes: SQLite may change what it opens, if only by tidying up behind its last user.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreRefused(f"{path} cannot be read: {error.strerror}; check who may read it") from None
    if not header:
        return  # made, and then the process ended before the first transaction
    if not header.startswith(_SQLITE_MAGIC) or len(header) < _HEADER_BYTES:
        raise StoreRefused(f"{path} is not a database; put back the one that was here, or use another data folder")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (_VERSION_AT, _APPLICATION_AT))
    if (version, application) != (0, 0):
        _check_ours(path, version=version, application=application)


def _check_ours(path: Path, *, version: int, application: int) -> None:
    if application != APPLICATION_ID:
        raise StoreRefused(f"{path} is the database of another program; use another data folder")
    if version > SCHEMA_VERSION:
        raise StoreRefused(
            f"{path} has layout {version}, and this version of Headgate knows layouts up to {SCHEMA_VERSION}; "
            "start the version that wrote it, or use another data folder"
        )


def _prepare(path: Path, connection: sqlite3.Connection, new_identity: Callable[[], str]) -> int | None:
    """Returns the older layout that the file had. Raises StoreRefused, sqlite3.Error."""
    version, application = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables:
        _check_ours(path, version=version, application=application)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
        return None
    if version == SCHEMA_VERSION:
        return None
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        connection.execute("ALTER TABLE queues ADD COLUMN identity TEXT NOT NULL DEFAULT ''")
        numbers = connection.execute("SELECT id FROM queues ORDER BY id").fetchall()
        connection.executemany(
            "UPDATE queues SET identity = ? WHERE id = ?", [(new_identity(), number) for (number,) in numbers]
        )
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    assert isinstance(version, int)
    return version


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _refused(path: Path, error: Exception) -> StoreRefused:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return StoreRefused(f"{path} is in use by another program; end that one first")
    return StoreRefused(f"{path} cannot be used: {error}; put back a copy, or use another data folder")


def _packed(value: Mapping[str, object]) -> bytes:
    """Canonical, so that equal values are equal bytes."""
    return cbor2.dumps(dict(value), canonical=True)


def _unpacked(data: bytes) -> dict[str, object]:
    value = cbor2.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"a map was kept, and {type(value).__name__} is there")
    return value


def _queue(number: int, name: str, auto_delete: int, arguments: bytes, identity: str) -> StoredQueue:
    declaration = QueueDeclaration(name=name, auto_delete=bool(auto_delete), arguments=_unpacked(arguments))
    return StoredQueue(number, declaration, identity)


def _exchange(name: str, kind: str, auto_delete: int, internal: int, arguments: bytes) -> ExchangeDeclaration:
    return ExchangeDeclaration(
        name=name,
        type=ExchangeType(kind),
        auto_delete=bool(auto_delete),
        internal=bool(internal),
        arguments=_unpacked(arguments),
    )


def _binding(source: str, destination: str, to_queue: int, key: str, arguments: bytes) -> Binding:
    return Binding(
        source=source,
        destination=destination,
        destination_is_queue=bool(to_queue),
        binding_key=key,
        arguments=_unpacked(arguments),
    )


def _policy(name: str, pattern: str, priority: int, apply_to: str, definition: bytes) -> PolicyDeclaration:
    return PolicyDeclaration(
        name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=_unpacked(definition)
    )
