"""``headgate store``: look at a data folder that no broker uses.

What a folder and its records are, :mod:`core.store.inspect` knows; a command only prints it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import App

from amqp10.cli.arguments import Data
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import AsJson, AsJsonLines, print_json, print_json_line
from core.store.definitions import DEFINITIONS_FILE, Definitions
from core.store.disk import FolderDisk
from core.store.errors import StoreDamaged, StoreRefused
from core.store.folder import offline
from core.store.inspect import Verdict, entries, read_definitions

OPEN_FILES = 8
"""Files are read one after the other."""

Compaction = Callable[[Path], Iterable[str]]
"""Compacts what is in a folder that no broker uses; yields lines that say what it did."""


def store_commands(compaction: Compaction) -> App:
    """The noun."""
    app = App(
        name="store", help="The data folder of a broker that is stopped: check it, see what is in it, compact it."
    )

    def compact(*, data: Data, json: AsJson = False) -> None:
        """Give the space of settled messages back, as a running broker does by and by.

        For example:

            headgate store compact --data /var/lib/headgate
        """
        with _explained(), offline(data):
            pass  # a folder that is not ours, or in use, is refused before anything is made of it
        with _explained():
            lines = list(compaction(data))
        if json:
            print_json({"data": str(data), "compacted": lines})
        else:
            print("\n".join(lines))

    app.command(check)
    app.command(dump)
    app.command(compact)
    return app


def check(*, data: Data, json: AsJson = False) -> None:
    """Read every record, and describe each that is damaged. Nothing is changed.

    What a power cut or a crash has torn is told, but no damage: nobody was promised it, and the next start drops it.

    For example:

        headgate store check --data /var/lib/headgate
    """
    described: list[str] = []
    found = examined(data, tell=(lambda line: described.append(str(line))) if json else print)
    if json:
        records = {verdict.value: found.records[verdict] for verdict in Verdict}
        print_json({"data": str(data), "records": records, "problems": found.problems, "described": described})
    else:
        print(found)
    if found.is_damaged:
        raise CommandError(Exit.DAMAGED, f"data folder {data} is damaged; put back a copy, or see store.salvage")


@dataclass(frozen=True, slots=True)
class Examined:
    """What a data folder has."""

    records: Mapping[Verdict, int]
    problems: int
    """Of its definitions."""

    @property
    def is_damaged(self) -> bool:
        """Whether something is lost that was promised."""
        return bool(self.records[Verdict.CORRUPT] or self.problems)

    def __str__(self) -> str:
        told = ", ".join(f"{self.records[verdict]} {verdict.value}" for verdict in Verdict) + " records"
        return f"{told}, {self.problems} problems of definitions" if self.problems else told


def examined(data: Path, *, tell: Callable[[object], None] = lambda line: None) -> Examined:
    """Read everything; ``tell`` hears of each record that is not sound and of each problem. Raises CommandError."""
    with _explained(), _opened(data) as disk:
        counts: Counter[Verdict] = Counter()
        for entry in entries(disk):
            counts[entry.verdict] += 1
            if entry.verdict is not Verdict.SOUND:
                tell(entry)
        _, problems = read_definitions(data)
        for problem in problems:
            tell(problem)
    return Examined(counts, len(problems))


def dump(*, data: Data, json: AsJsonLines = False) -> None:
    """Print a line for every definition and every record, sound or not. Nothing is changed.

    For example:

        headgate store dump --data /var/lib/headgate
    """
    with _explained(), _opened(data) as disk:
        definitions, problems = read_definitions(data)
        for line in (*_lines(definitions), *problems):
            if json:
                print_json_line({"path": DEFINITIONS_FILE, "text": line})
            else:
                print(f"{DEFINITIONS_FILE}: {line}")
        for entry in entries(disk):
            if json:
                print_json_line({**entry._asdict(), "verdict": entry.verdict.value})
            else:
                print(entry)


def _lines(definitions: Definitions) -> Iterator[str]:
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
def _explained() -> Iterator[None]:
    try:
        yield
    except StoreDamaged as error:
        raise CommandError(Exit.DAMAGED, str(error)) from None
    except StoreRefused as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}") from None
