"""``headgate store``: checks, dumps and compacts the data folder of a stopped broker.

It also recovers or deletes data that a start has set aside.

The commands print what :mod:`core.store.inspect` and :mod:`core.server.adoption` find and do.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json, print_json_line
from core.store.definition_rows import Definitions
from core.store.definitions import DEFINITIONS_FILE
from core.store.disk import FolderDisk
from core.store.errors import StoreDamaged, StoreRefused
from core.store.folder import offline
from core.store.inspect import EntryVerdict, ReadDefinitions, entries, read_definitions
from core.store.lost import lost_entries
from core.virtual_hosts import VIRTUAL_HOST, shown_name

OPEN_FILES = 8
"""Files that are open at once. The commands read one file after the other."""

Compaction = Callable[[Path], Iterable[str]]
"""Compacts the data folder of a stopped broker, and yields lines that say what was done."""


def compact(*, data: Path, json: bool) -> None:
    """Free the disk space of settled messages at once. A running broker does this step by step."""
    from amqp10.compaction import compacted  # here and not above: it imports the engine

    print_compaction(compacted, data, json=json)


def print_compaction(compaction: Compaction, data: Path, *, json: bool) -> None:
    """Compact the data folder of a stopped broker, and print the lines that say what was done."""
    with explained(), offline(data):
        pass  # a folder that is in use, or is no data folder, is refused before anything is changed
    with explained():
        lines = list(compaction(data))
    if json:
        print_json({"data": str(data), "compacted": lines})
    else:
        print("\n".join(lines))


def lost(*, data: Path, json: bool) -> None:
    """List the data in lost+found: a start has set aside the data of queues that have no definition."""
    with explained(), offline(data):
        entries = list(lost_entries(data))
    if json:
        rows = [
            {
                "entry": entry.path.name,
                "type": entry.kind,
                "vhost": entry.virtual_host,
                "queue": entry.name or None,
                "bytes": entry.bytes,
            }
            for entry in entries
        ]
        print_json({"data": str(data), "lost": rows})
        return
    for entry in entries:
        print(f"{entry.path.name}: queue {entry.shown or 'of a name that is not known'}, {entry.bytes:,} bytes")
    if not entries:
        print("nothing was set aside")


def adopt(entry: str, *, data: Path, new_name: str | None, json: bool) -> None:
    """Define a queue again from data that a start has set aside. The queue gets its messages back."""
    from core.process import new_identity  # here and not above: most commands change nothing, and need none of these
    from core.server import adoption

    with explained(), offline(data):
        found = adoption.chosen_entry(data, entry)
        host, name = adoption.adopt(data, found, name=new_name, new_identity=new_identity)
    if json:
        print_json({"data": str(data), "adopted": found.path.name, "vhost": host, "queue": name})
    else:
        print(f"queue '{shown_name(host, name)}' is defined again; the next start serves its messages")


def discard(entry: str, *, data: Path, yes: bool, json: bool) -> None:
    """Delete data that a start has set aside. It cannot be recovered after that."""
    from core.server import adoption

    with explained(), offline(data):
        found = adoption.chosen_entry(data, entry)
        if yes:
            adoption.discard(found)
    if json:
        print_json({"data": str(data), "entry": found.path.name, "bytes": found.bytes, "deleted": yes})
    else:
        did = "was deleted" if yes else "would be deleted; say --yes to delete it"
        print(f"{found.path.name}, {found.bytes:,} bytes, {did}")


def rebuild(*, data: Path, json: bool) -> None:
    """Make the definitions of queues again from their folders, when both files of definitions are damaged.

    The folders have no exchanges, bindings, policies and users. The damaged files are moved to lost+found.
    """
    from core.server import adoption

    with explained(), offline(data):
        lines = list(adoption.rebuild_definitions(data))
    if json:
        print_json({"data": str(data), "rebuilt": lines})
    else:
        print("\n".join(lines))


def check(*, data: Path, json: bool) -> None:
    """Read every record and describe each damaged one. Nothing is changed.

    A record that a power cut or a crash has torn is described too, but it is no damage: its message was never
    confirmed, and the next start drops the record.
    """
    described: list[str] = []
    found = examined(data, tell=(lambda line: described.append(str(line))) if json else print)
    if json:
        records = {verdict.value: found.records[verdict] for verdict in EntryVerdict}
        print_json({"data": str(data), "records": records, "problems": found.problems, "described": described})
    else:
        print(found)
    if found.is_damaged:
        raise CommandError(Exit.DAMAGED, f"data folder {data} is damaged; put back a copy, or see store.salvage")


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of reading a data folder."""

    records: Mapping[EntryVerdict, int]
    problems: int
    """Problems in the definitions."""

    @property
    def is_damaged(self) -> bool:
        """Whether the folder has lost messages or definitions that were confirmed."""
        return bool(self.records[EntryVerdict.CORRUPT] or self.problems)

    def __str__(self) -> str:
        told = ", ".join(f"{self.records[verdict]} {verdict.value}" for verdict in EntryVerdict) + " records"
        return f"{told}, {self.problems} problems of definitions" if self.problems else told


def examined(data: Path, *, tell: Callable[[object], None] = lambda line: None) -> Examined:
    """Read all records. ``tell`` is called with each record that is not sound and each problem. Raises CommandError."""
    with explained(), _opened(data) as disk:
        counts: Counter[EntryVerdict] = Counter()
        for entry in entries(disk):
            counts[entry.verdict] += 1
            if entry.verdict is not EntryVerdict.SOUND:
                tell(entry)
        problems = read_definitions(data).problems
        for problem in problems:
            tell(problem)
    return Examined(counts, len(problems))


def dump(*, data: Path, json: bool) -> None:
    """Print a line for every definition and every record, sound and damaged. Nothing is changed."""
    with explained(), _opened(data) as disk:
        found = read_definitions(data)
        for line in (*_lines(found), *found.problems):
            if json:
                print_json_line({"path": DEFINITIONS_FILE, "text": line})
            else:
                print(f"{DEFINITIONS_FILE}: {line}")
        for entry in entries(disk):
            if json:
                print_json_line({**entry._asdict(), "verdict": entry.verdict.value})
            else:
                print(entry)


def _lines(found: ReadDefinitions) -> Iterator[str]:
    """A line for each definition; those of other virtual hosts than the default one begin with its name."""
    for name, definitions in found.hosts.items():
        settings = found.settings.get(name, {})
        if settings or name != VIRTUAL_HOST:
            yield f"virtual host '{name}' {dict(settings)}"
        begin = "" if name == VIRTUAL_HOST else f"in '{name}': "
        yield from (begin + line for line in _lines_of_host(definitions))


def _lines_of_host(definitions: Definitions) -> Iterator[str]:
    for queue in definitions.queues:
        yield f"queue {queue.id} '{queue.declaration.name}' {dict(queue.declaration.arguments)}"
    for exchange in definitions.exchanges:
        yield f"exchange '{exchange.name}' of type {exchange.type.value} {dict(exchange.arguments)}"
    for binding in definitions.bindings:
        kind = "queue" if binding.destination_is_queue else "exchange"
        yield f"binding '{binding.source}' to {kind} '{binding.destination}' by '{binding.binding_key}'"
    for policy in definitions.policies:
        yield f"policy '{policy.name}' for {policy.apply_to} like '{policy.pattern}' {dict(policy.definition)}"


@contextmanager
def _opened(data: Path) -> Iterator[FolderDisk]:
    with offline(data):
        disk = FolderDisk(data, OPEN_FILES, read_only=True)
        try:
            yield disk
        finally:
            disk.close()


@contextmanager
def explained() -> Iterator[None]:
    """Turn what is wrong with a data folder into an error of the command. Raises CommandError."""
    try:
        yield
    except StoreDamaged as error:
        raise CommandError(Exit.DAMAGED, str(error)) from None
    except StoreRefused as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}") from None
