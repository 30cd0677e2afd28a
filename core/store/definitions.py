"""The definitions that outlive the broker: virtual hosts, users, queues, exchanges, bindings and policies, kept twice.

They must not be lost, so every change is synced before it returns: to ``definitions.db`` and then to
``definitions.copy.db``, two files of the same layout. Changes that come together are one transaction, because the syncs
take longer than the changes (:meth:`DefinitionsDatabase.together`). Each file proves itself by its seal
(:mod:`core.store.sealed_file`). A start uses the newer proven file, and rewrites the other from it. It refuses if
neither is proven, or if both are older than a :class:`Witness` says.

A queue's number names its folder in the store and is never used twice, even after the queue is deleted. The number of a
deleted queue stays in the table *deleted* until none of its data is on disk: with it a start distinguishes data that
may be removed from data of unknown queues. Arguments and definitions of policies are kept as CBOR, which distinguishes
booleans from numbers and bytes from text.

Only durable definitions are kept; the caller decides what is durable. One instance serves one virtual host;
:meth:`DefinitionsDatabase.for_host` makes those of the others, over the same files. All must be used in the thread that
opened the files.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import cbor2

from core.errors import PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.definition_rows import Definitions as Definitions
from core.store.definition_rows import PolicyDeclaration as PolicyDeclaration
from core.store.definition_rows import StoredQueue as StoredQueue
from core.store.definition_rows import loaded, packed
from core.store.errors import StoreDamaged, StoreRefused, StoreUnavailable, refusal
from core.store.sealed_file import (
    SCHEMA_VERSION,
    Judged,
    Seal,
    SealedFile,
    Statement,
    judged,
    new_image,
    upgraded_image,
    write_image,
)
from core.virtual_hosts import VIRTUAL_HOST
from core.work import Work

DEFINITIONS_FILE = "definitions.db"
COPY_FILE = "definitions.copy.db"
LOCK_WAIT_S = 1.0
"""How long a change waits for another program that has locked the file. The broker is blocked meanwhile."""
DEFAULT_HOST = VIRTUAL_HOST
SETTINGS_HOST = ""
"""A virtual host that no client can name: its policies are the settings of the virtual hosts that have any. So the
layout is the same, and a version that knows one virtual host reads nothing of them."""
CHECKED_EACH = 2
"""How many deleted queues each removal of a queue checks, to forget those without data on disk: 10 us for each."""

_REMOVE_BINDING = (
    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? AND to_queue = ? AND binding_key = ? "
    "AND arguments = ?"
)


class Witness(NamedTuple):
    """Evidence of the generation that the definitions had reached."""

    generation: int
    """0 if it only proves that there were definitions."""
    source: str
    """The place of the evidence, for error messages."""


class Rebuilt(NamedTuple):
    """A file that a start has rewritten from the other one, or would have to."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The definitions that a start is to use. Nothing has been changed yet."""

    image: bytes
    """The bytes of a proven file; empty for one of an older layout."""
    anew: Sequence[Rebuilt] = ()
    """Files that differ from it and are to be rewritten."""
    upgraded_from: int | None = None
    """The older layout from which the file is to be upgraded; None if it is of the current layout."""
    is_new: bool = False
    """Whether there were no definitions."""


def choose_definitions(folder: Path, *, witness: Witness | None) -> Chosen:
    """Read both files and choose one. Changes nothing.

    ``witness``: the one with the highest generation; None without evidence of definitions. Raises StoreRefused,
    StoreDamaged.
    """
    paths = folder / DEFINITIONS_FILE, folder / COPY_FILE
    both = [judged(path) for path in paths]
    best = max(both, key=lambda file: -1 if file.seal is None else file.seal.generation)  # the first one of equals
    if best.seal is None:
        return _choose_unproven(both, witness)
    if witness is not None and best.seal.generation < witness.generation:
        raise StoreDamaged(
            f"the definitions are older than they must be: {best.path} has generation {best.seal.generation}, and "
            f"{witness.source} says {witness.generation}; {_remedy(folder)}"
        )
    anew = []
    for file in both:
        if file.seal is None:
            anew.append(Rebuilt(file.path, file.why))
        elif file.seal != best.seal:
            anew.append(Rebuilt(file.path, f"it is of generation {file.seal.generation}, and not the newest"))
        if file.seal is not None and file.seal.generation == best.seal.generation and file.seal != best.seal:
            raise StoreDamaged(f"{paths[0]} and {paths[1]} contradict each other; move away the one that is wrong")
    return Chosen(image=best.image, anew=anew)


def _choose_unproven(both: Sequence[Judged], witness: Witness | None) -> Chosen:
    """Choose if neither file is proven: upgrade an older layout, begin new definitions, or refuse."""
    first = both[0]
    anew = [Rebuilt(file.path, file.why) for file in both]
    if 0 < first.layout < SCHEMA_VERSION and (witness is None or not witness.generation):
        return Chosen(image=b"", anew=anew, upgraded_from=first.layout)
    if witness is None and not any(file.image for file in both):
        return Chosen(image=new_image(DEFAULT_HOST), anew=anew, is_new=True)
    newer = next((file for file in both if file.layout > SCHEMA_VERSION), None)
    if newer is not None:
        raise StoreRefused(f"{newer.path}: {newer.why}; start the version that wrote it, or use another data folder")
    said = "; ".join(f"{file.path}: {file.why}" for file in both)
    known = "" if witness is None else f", and {witness.source} says that there were some"
    raise StoreDamaged(f"the definitions cannot be proven{known}. {said}; {_remedy(first.path.parent)}")


def check_not_older(folder: Path, generation: int, marked: int) -> None:
    """Raises StoreDamaged if the definitions are older than the marks of a lane say."""
    if generation < marked:
        raise StoreDamaged(
            f"the definitions in {folder} are older than they must be: they have generation {generation}, and "
            f"the marks of a lane say {marked}; {_remedy(folder)}"
        )


def _remedy(folder: Path) -> str:
    return (
        f"put back a copy of both files, or have the queues made anew from what their folders say: "
        f"headgate store rebuild --data {folder}"
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


class DefinitionsDatabase:
    """Both files of definitions. A change that cannot be recorded raises PreconditionFailed and has no effect."""

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
            self._together: _Together | None = None
            """The changes that are being collected; None outside of :meth:`together`."""
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
        """Close both files. The object must not be used afterwards."""
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

    @contextmanager
    def together(self) -> Iterator[None]:
        """Record the queues that are added and what is removed within the block in one transaction, when it ends.
        Raises PreconditionFailed there; then none of the changes was made."""
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
        seal = self._change_all(what, changes.statements, numbers=len(changes.queues))
        self.work.spent += STATEMENT_WORK * (len(changes.what) - 1)
        for queue in changes.queues:
            self.added(queue, seal.generation)

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

    def _change(self, what: str, statement: str, values: Sequence[object], *, numbers: int = 0) -> Seal:
        """Execute one statement in both files."""
        return self._change_all(what, [(statement, values)], numbers=numbers)

    def _change_all(self, what: str, statements: Sequence[Statement], *, numbers: int = 0) -> Seal:
        """Execute statements in the first file, and when it is synced in the second. Returns the new seal. Raises
        PreconditionFailed."""
        self._check_there(what)
        self.work.spent += CHANGE_WORK
        try:
            self._bring_up()
        except (OSError, sqlite3.Error) as error:
            raise self._not_kept(what, str(error)) from None
        if self.behind:
            raise self._not_kept(what, f"{self.behind[0]} cannot be written")
        first, second = self._files.values()
        try:
            before, seal = first.change(statements, numbers)
        except sqlite3.Error as error:
            if judged(first.path).seal != second.seal():
                self._leave_behind(first, str(error))  # the rollback failed too
            raise self._not_kept(what, str(error)) from None
        try:
            if second.change(statements, numbers) != (before, seal):
                self._leave_behind(second, "it says something else")
        except sqlite3.Error as error:
            self._leave_behind(second, str(error))
        if seal != before:
            self.changed(seal.generation)
        return seal

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
