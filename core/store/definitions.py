"""The definitions that outlive the broker: virtual hosts, users, queues, exchanges, bindings and policies, kept twice.

They must not be lost, so every change is synced before it counts: to ``definitions.db`` and then to
``definitions.copy.db``, two files of the same layout. Changes that come together are one transaction, because the syncs
take longer than the changes (:meth:`DefinitionsDatabase.together`). Where the caller can go on meanwhile, other threads
wait for the syncs (:mod:`core.store.definition_record`). Each file proves itself by its seal
(:mod:`core.store.sealed_file`). A start uses the newer proven file, and rewrites the other from it. It refuses if
neither is proven, or if both are older than a :class:`Witness` says.

A queue's number names its folder in the store and is never used twice, even after the queue is deleted. The number of a
deleted queue stays in the table *deleted* until none of its data is on disk: with it a start distinguishes data that
may be removed from data of unknown queues. Arguments and definitions of policies are kept as CBOR, which distinguishes
booleans from numbers and bytes from text.

Only durable definitions are kept; the caller decides what is durable. One instance serves one virtual host;
:meth:`DefinitionsDatabase.for_host` makes those of the others, over the same files. All must be used in the thread that
opened the files; only steps of records wait for the disk in others.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import cbor2

from core.errors import PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.definition_record import DefinitionRecord, Steps
from core.store.definition_rows import Definitions as Definitions
from core.store.definition_rows import PolicyDeclaration as PolicyDeclaration
from core.store.definition_rows import StoredQueue as StoredQueue
from core.store.definition_rows import loaded, packed
from core.store.definitions_found import COPY_FILE as COPY_FILE
from core.store.definitions_found import DEFAULT_HOST as DEFAULT_HOST
from core.store.definitions_found import DEFINITIONS_FILE as DEFINITIONS_FILE
from core.store.definitions_found import Chosen, Witness, choose_definitions
from core.store.errors import StoreRefused, StoreUnavailable, refusal
from core.store.sealed_file import (
    Seal,
    SealedFile,
    Statement,
    judged,
    upgraded_image,
    write_image,
)
from core.work import Work

LOCK_WAIT_S = 1.0
"""How long a change waits for another program that has locked the file. The broker is blocked meanwhile."""
SETTINGS_HOST = ""
"""A virtual host that no client can name: its policies are the settings of the virtual hosts that have any. So the
layout is the same, and a version that knows one virtual host reads nothing of them."""
CHECKED_EACH = 2
"""How many deleted queues each removal of a queue checks, to forget those without data on disk: 10 us for each."""

_REMOVE_BINDING = (
    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? AND to_queue = ? AND binding_key = ? "
    "AND arguments = ?"
)


CHANGE_WORK, STATEMENT_WORK = 700, 30
"""The cost of a change in units of :mod:`core.work`: two transactions, each synced, take 0.6 to 0.8 ms of CPU. Each
further statement of one transaction takes 15 us in each file."""


@dataclass(slots=True)
class _Together:
    """Changes that are to be one transaction."""

    last_number: int
    """The highest number that a queue had before them."""
    statements: list[Statement] = field(default_factory=list)
    what: list[str] = field(default_factory=list)
    """What each change is, for error messages."""
    queues: list[StoredQueue] = field(default_factory=list)
    """The new queues."""
    removed: int = 0
    """How many queues are removed."""


@dataclass(slots=True)
class _Underway:
    """The record that is on its way to the disk, of any virtual host."""

    record: DefinitionRecord | None = None
    """None while both files are synced."""
    begun: Callable[[DefinitionRecord], None] | None = None
    """Called with each record that is begun; None while each record is finished at once."""


class DefinitionsDatabase:
    """Both files of definitions. A change that cannot be recorded raises PreconditionFailed and has no effect."""

    takes_all = False

    def __init__(
        self,
        folder: Path,
        chosen: Chosen,
        *,
        new_identity: Callable[[], str],
        host: str = DEFAULT_HOST,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        """Open both files, after rewriting those in ``chosen.anew``. ``new_identity`` is for queues of a layout without
        identities.

        Raises StoreRefused.
        """
        self.work = Work()
        """Counts each change, because the event loop waits for it."""
        self.changed: Callable[[int], None] = lambda generation: None
        """Called with the generation of each change."""
        self.added: Callable[[StoredQueue, int], None] = lambda queue, generation: None
        """Called with each new queue and the generation."""
        self.fell_behind: Callable[[Path, str], None] = lambda path, why: None
        """Called with the path and the reason when a file lacks a change. The next change rewrites that file first."""
        self.is_gone: Callable[[int], bool] = lambda number: False
        """Returns whether no data of a deleted queue is on disk."""
        self._underway = _Underway()
        self._together: _Together | None = None
        """The changes that are being collected; None outside of :meth:`together`."""
        self._folder = folder
        self._lock_wait_s = lock_wait_s
        self._paths = folder / DEFINITIONS_FILE, folder / COPY_FILE
        self._files: dict[Path, SealedFile] = {}
        """The files that are up to date, at least one."""
        anew = {path for path, _ in chosen.anew}
        try:
            if len(anew) == len(self._paths):
                write_image(self._paths[0], chosen.image or upgraded_image(self._paths[0], new_identity))
                anew.remove(self._paths[0])
            for path in self._paths:
                if path not in anew:
                    self._files[path] = SealedFile(path, lock_wait_s=lock_wait_s)
            self._bring_up()
            self._host_name = host
            self._host = self._host_id(host)
            self._checked = 0
            """The number of the last deleted queue that was checked; they are checked in turn."""
        except OSError as error:
            self.close()
            raise refusal(error, f"{folder}: the definitions cannot be written: {error.strerror}") from None
        except sqlite3.Error as error:
            self.close()
            raise _refused(self._paths[0], error) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close both files, when the record that is on its way is finished. The object must not be used afterwards."""
        self._finish()
        for file in self._files.values():
            file.close()
        self._files.clear()

    @property
    def generation(self) -> int:
        """The generation of the last change."""
        return self._one.seal().generation

    @property
    def behind(self) -> Sequence[Path]:
        """Files that lack a change, because the disk refused it."""
        return [path for path in self._paths if path not in self._files]

    # --- reading --------------------------------------------------------------------------------------------

    def load(self) -> Definitions:
        """Load all definitions of this virtual host. Raises StoreRefused if the file is damaged."""
        try:
            return loaded(self._one.connection, self._host_name)
        except (sqlite3.Error, cbor2.CBORDecodeError, ValueError) as error:
            raise _refused(self._one.path, error) from None

    def hosts(self) -> Sequence[str]:
        """The names of the virtual hosts."""
        return host_names(self._one.connection)

    def for_host(self, name: str) -> Self:
        """Return the definitions of another virtual host, which is made if there is none. Raises PreconditionFailed."""
        other = copy(self)  # the files and the count of work are the same objects
        other._host_name, other._host = name, self._host_id(name)
        return other

    def remove_host(self) -> None:
        """Remove this virtual host with its policies and settings, after its queues and exchanges are removed."""
        tables = "bindings", "exchanges", "policies"
        statements: list[Statement] = [(f"DELETE FROM {table} WHERE vhost = ?", (self._host,)) for table in tables]
        settings = "DELETE FROM policies WHERE name = ? AND vhost IN (SELECT id FROM vhosts WHERE name = ?)"
        statements += (
            (settings, (self._host_name, SETTINGS_HOST)),
            ("DELETE FROM vhosts WHERE id = ?", (self._host,)),
        )
        self._change_all(f"the removal of virtual host '{self._host_name}'", statements)

    def host_settings(self) -> Mapping[str, Mapping[str, object]]:
        """The settings of the virtual hosts that have any."""
        return settings_of_hosts(self._one.connection)

    def set_host_settings(self, settings: Mapping[str, object]) -> None:
        """Record the settings of this virtual host, in place of those before. Raises PreconditionFailed."""
        self.for_host(SETTINGS_HOST).set_policy(
            PolicyDeclaration(name=self._host_name, pattern="", definition=settings)
        )

    def users(self) -> Mapping[str, str]:
        """By user name, the record of the user: a text of :mod:`core.access.records`."""
        return dict(self._one.connection.execute("SELECT name, keys FROM users ORDER BY name"))

    @property
    def deleted(self) -> Sequence[int]:
        """The numbers of deleted queues that may still have data on disk."""
        return [number for (number,) in self._one.connection.execute("SELECT id FROM deleted ORDER BY id")]

    @property
    def last_number(self) -> int:
        """The highest number that any queue ever had."""
        return self._one.seal().last_number

    # --- changing -------------------------------------------------------------------------------------------

    def record_in_steps(self, begun: Callable[[DefinitionRecord], None] | None) -> None:
        """Have ``begun`` called with each record that may be taken to the disk in steps, in all virtual hosts: its
        owner takes the steps. With None the last record is finished, and changes are recorded before they return."""
        self._underway.begun = begun
        if begun is None:
            self._finish()

    @contextmanager
    def together(self, later: Callable[[DefinitionRecord], None] | None = None) -> Iterator[None]:
        """Record what is added and removed within the block in one transaction, when it ends.
        Raises PreconditionFailed there; then none of the changes was made.

        ``later``: called with the record if it is not on the disk yet when the block ends; it says when it is, or why
        it cannot be recorded. Until then no queue of the block may be changed again.
        """
        assert self._together is None, "one transaction at a time"
        changes = self._together = _Together(self.last_number)
        try:
            yield
        finally:
            self._together = None
        if not changes.what:
            return
        if changes.removed:
            gone = self._gone(changes.removed)
            changes.statements += (("DELETE FROM deleted WHERE id = ?", (number,)) for number in gone)
        what = changes.what[0] if len(changes.what) == 1 else f"these {len(changes.what)} changes"
        begun = self._underway.begun
        self.work.spent += STATEMENT_WORK * (len(changes.what) - 1)
        if later is None or begun is None:
            seal = self._change_all(what, changes.statements, numbers=len(changes.queues))
            self._tell_added(changes.queues, seal)
            return
        first, second = self._ready(what)
        seals = self._changed_first(first, second, what, partial(first.write, changes.statements, len(changes.queues)))
        record = DefinitionRecord(self._steps(first, second, what, changes, seals))
        if not record.done:
            self._underway.record = record
            begun(record)
        later(record)

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int:
        """Record a queue. Returns its number, which no other queue has or had."""
        if self._together is None:
            with self.together():
                return self.add_queue(declaration, identity)
        changes = self._together
        number = changes.last_number + len(changes.queues) + 1
        row = number, self._host, declaration.name, declaration.auto_delete, packed(declaration.arguments), identity
        changes.what.append(f"queue '{declaration.name}'")
        changes.statements.append(("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?)", row))
        changes.queues.append(StoredQueue(number, declaration, identity))
        return number

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        """Record a new exchange."""
        self._change(
            f"exchange '{declaration.name}'",
            "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?)",
            (
                self._host,
                declaration.name,
                declaration.type.value,
                declaration.auto_delete,
                declaration.internal,
                packed(declaration.arguments),
            ),
        )

    def add_binding(self, binding: Binding) -> None:
        """Record a binding. Idempotent."""
        self._change(
            f"the binding from '{binding.source}' to '{binding.destination}'",
            "INSERT OR IGNORE INTO bindings (vhost, source, destination, to_queue, binding_key, arguments) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            self._binding_row(binding),
        )

    def remove(
        self, *, queues: Sequence[str] = (), exchanges: Sequence[str] = (), bindings: Sequence[Binding] = ()
    ) -> None:
        """Remove all of these, or none. Missing ones are ignored."""
        if self._together is None:
            with self.together():
                self.remove(queues=queues, exchanges=exchanges, bindings=bindings)
            return
        named = [f"queue '{name}'" for name in queues] + [f"exchange '{name}'" for name in exchanges]
        self._together.what.append(f"the removal of {' and '.join(named) or 'a binding'}")
        statements = self._together.statements
        statements += ((_REMOVE_BINDING, self._binding_row(binding)) for binding in bindings)
        for name in queues:
            there = (self._host, name)
            statements += (
                ("INSERT INTO deleted SELECT id FROM queues WHERE vhost = ? AND name = ?", there),
                ("DELETE FROM queues WHERE vhost = ? AND name = ?", there),
            )
        statements += (("DELETE FROM exchanges WHERE vhost = ? AND name = ?", (self._host, name)) for name in exchanges)
        self._together.removed += len(queues)

    def forget_deleted(self, numbers: Sequence[int]) -> None:
        """Forget deleted queues that have no data on disk any more."""
        self._change_all(
            "what is known of deleted queues", [("DELETE FROM deleted WHERE id = ?", (n,)) for n in numbers]
        )

    def was_set_aside(self, number: int, *, left: bool) -> None:
        """Note that data of an unknown queue with this number was set aside, so that no queue ever gets the number.
        ``left``: the data is also in its old place still, and may be removed from there."""
        more = max(0, number - self.last_number)
        if more or left:
            self._change("data that was set aside", "INSERT OR IGNORE INTO deleted VALUES (?)", (number,), numbers=more)
        if more and not left:
            self.forget_deleted([number])

    def set_policy(self, policy: PolicyDeclaration) -> None:
        """Record a policy. It replaces the one of this name."""
        self._change(
            f"policy '{policy.name}'",
            "INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?, ?, ?)",
            (self._host, policy.name, policy.pattern, policy.priority, policy.apply_to, packed(policy.definition)),
        )

    def remove_policy(self, name: str) -> None:
        """Remove a policy. Idempotent."""
        self._change(
            f"the removal of policy '{name}'",
            "DELETE FROM policies WHERE vhost = ? AND name = ?",
            (self._host, name),
        )

    def set_user(self, name: str, keys: str) -> None:
        """Keep the record of a user. It replaces the user of this name."""
        self._change(f"user '{name}'", "INSERT OR REPLACE INTO users VALUES (?, ?)", (name, keys))

    def remove_user(self, name: str) -> None:
        """Remove a user. Idempotent."""
        self._change(f"the removal of user '{name}'", "DELETE FROM users WHERE name = ?", (name,))

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _one(self) -> SealedFile:
        """A file that is up to date."""
        return next(iter(self._files.values()))

    def _host_id(self, name: str) -> int:
        query = "SELECT id FROM vhosts WHERE name = ?"
        if self._one.connection.execute(query, (name,)).fetchone() is None:
            self._change(f"virtual host '{name}'", "INSERT INTO vhosts (name) VALUES (?)", (name,))
        (number,) = self._one.connection.execute(query, (name,)).fetchone()
        assert isinstance(number, int)
        return number

    def _change(self, what: str, statement: str, values: Sequence[object], *, numbers: int = 0) -> None:
        """Execute one statement in both files, now or with the others of the block."""
        if self._together is not None and not numbers:
            self._together.what.append(what)
            self._together.statements.append((statement, values))
        else:
            self._change_all(what, [(statement, values)], numbers=numbers)

    def _change_all(self, what: str, statements: Sequence[Statement], *, numbers: int = 0) -> Seal:
        """Execute statements in the first file, and when it is synced in the second. Returns the new seal. Raises
        PreconditionFailed."""
        first, second = self._ready(what)
        seals = self._changed_first(first, second, what, partial(first.change, statements, numbers))
        self._changed_second(second, seals, partial(second.change, statements, numbers))
        return self._counts(seals)

    def _steps(
        self, first: SealedFile, second: SealedFile, what: str, changes: _Together, seals: tuple[Seal, Seal]
    ) -> Steps:
        """The steps of a record that is written to the first file."""
        failed = yield first.sync
        if failed is not None:
            self._underway.record = None
            self._leave_behind(first, str(failed))
            with suppress(sqlite3.Error):
                self._bring_up()  # at once: after a crash, a start would find the change in this file
            raise self._not_kept(what, str(failed))
        if self._changed_second(second, seals, partial(second.write, changes.statements, len(changes.queues))):
            failed = yield second.sync
            if failed is not None:
                self._leave_behind(second, str(failed))
        self._underway.record = None
        seal = self._counts(seals)
        self._tell_added(changes.queues, seal)

    def _ready(self, what: str) -> tuple[SealedFile, SealedFile]:
        """Return both files, synced and alike, for a change that is counted now. Raises PreconditionFailed."""
        self._finish()
        self._check_there(what)
        self.work.spent += CHANGE_WORK
        try:
            self._bring_up()
        except (OSError, sqlite3.Error) as error:
            raise self._not_kept(what, str(error)) from None
        if self.behind:
            raise self._not_kept(what, f"{self.behind[0]} cannot be written")
        first, second = self._files.values()
        return first, second

    def _changed_first(
        self, first: SealedFile, second: SealedFile, what: str, change: Callable[[], tuple[Seal, Seal]]
    ) -> tuple[Seal, Seal]:
        """Change the first file. Returns its seals before and after. Raises PreconditionFailed."""
        try:
            return change()
        except sqlite3.Error as error:
            if judged(first.path).seal != second.seal():
                self._leave_behind(first, str(error))  # the rollback failed too
            raise self._not_kept(what, str(error)) from None

    def _changed_second(
        self, second: SealedFile, seals: tuple[Seal, Seal], change: Callable[[], tuple[Seal, Seal]]
    ) -> bool:
        """Change the second file as the first one. Returns whether it has the change; else it is left behind."""
        try:
            if change() == seals:
                return True
            self._leave_behind(second, "it says something else")
        except sqlite3.Error as error:
            self._leave_behind(second, str(error))
        return False

    def _counts(self, seals: tuple[Seal, Seal]) -> Seal:
        """A change counts from now on. Returns the new seal."""
        before, seal = seals
        if seal != before:
            self.changed(seal.generation)
        return seal

    def _tell_added(self, queues: Sequence[StoredQueue], seal: Seal) -> None:
        for queue in queues:
            self.added(queue, seal.generation)

    def _finish(self) -> None:
        """Take the record that is on its way to the disk."""
        record = self._underway.record
        while self._underway.record is record is not None:
            record.wait()
            record.proceed()

    def _leave_behind(self, file: SealedFile, why: str) -> None:
        file.close()
        self._files.pop(next(path for path, kept in self._files.items() if kept is file))
        self.fell_behind(file.path, why)

    def _bring_up(self) -> None:
        """Rewrite files that lack a change. A file that the disk refuses stays behind."""
        for path in self.behind:
            with suppress(OSError):
                write_image(path, self._one.path.read_bytes())
                there = {**self._files, path: SealedFile(path, lock_wait_s=self._lock_wait_s)}
                self._files.clear()
                self._files.update((name, there[name]) for name in self._paths if name in there)

    def _gone(self, removed: int) -> Sequence[int]:
        """Check the next deleted queues, and return those without data on disk."""
        most = CHECKED_EACH * removed
        query = "SELECT id FROM deleted WHERE id > ? ORDER BY id LIMIT ?"
        numbers = [number for (number,) in self._one.connection.execute(query, (self._checked, most))]
        self._checked = numbers[-1] if len(numbers) == most > 0 else 0
        return [number for number in numbers if self.is_gone(number)]

    def _check_there(self, what: str) -> None:
        for file in self._files.values():
            try:
                if not file.is_there:
                    raise self._not_kept(what, "another file is in its place", file.path)
            except OSError as error:
                raise self._not_kept(what, error.strerror or str(error), file.path) from None

    def _not_kept(self, what: str, why: str, path: Path | None = None) -> PreconditionFailed:
        return PreconditionFailed(f"{what} cannot be kept in {path or self._paths[0]}: {why}; nothing was changed")

    def _binding_row(self, binding: Binding) -> tuple[object, ...]:
        return (
            self._host,
            binding.source,
            binding.destination,
            binding.destination_is_queue,
            binding.binding_key,
            packed(binding.arguments),
        )


def host_names(connection: sqlite3.Connection) -> list[str]:
    """The names of the virtual hosts, the default one first. Raises sqlite3.Error."""
    query = "SELECT name FROM vhosts WHERE name <> ? ORDER BY id"
    return [name for (name,) in connection.execute(query, (SETTINGS_HOST,))]


def settings_of_hosts(connection: sqlite3.Connection) -> dict[str, Mapping[str, object]]:
    """By name, the settings of the virtual hosts that have any. Raises as :func:`loaded`."""
    return {one.name: one.definition for one in loaded(connection, SETTINGS_HOST).policies}


def open_definitions(
    folder: Path,
    *,
    new_identity: Callable[[], str],
    witness: Witness | None = None,
    host: str = DEFAULT_HOST,
    lock_wait_s: float = LOCK_WAIT_S,
) -> DefinitionsDatabase:
    """Choose and open the definitions in one call. Raises StoreRefused, StoreDamaged."""
    chosen = choose_definitions(folder, witness=witness)
    return DefinitionsDatabase(folder, chosen, new_identity=new_identity, host=host, lock_wait_s=lock_wait_s)


_DISK_ERRORS = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""Primary result codes [sqlite.org/rescode.html] of errors of the disk, and not of the file."""


def _refused(path: Path, error: Exception) -> StoreRefused:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return StoreUnavailable(f"{path} is in use by another program; end that one first")
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _DISK_ERRORS:
        return StoreUnavailable(f"{path} cannot be used: {error}; check its disk, and make room on it if it is full")
    return StoreRefused(f"{path} cannot be used: {error}; put back a copy, or use another data folder")
