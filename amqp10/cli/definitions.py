"""``headgate definitions``: what a broker has as a file, what a file would change, and the change itself.

What a file may say, how it is compared and in which order it is applied, :mod:`core.definitions_file` knows.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.definition_requests import AppliedSteps, snapshots, take
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import AsJson, print_json
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from core.definitions_file import (
    FILE_BYTES_MAX,
    Change,
    Difference,
    Document,
    Reading,
    Remark,
    Step,
    compare,
    from_snapshots,
    kind_of,
    label,
    read,
    shown,
    steps,
    summary,
    text,
    unknown_ends,
)
from core.version import headgate_version

MARKS = {Change.CREATE: "+", Change.CHANGE: "~", Change.CONFLICT: "!", Change.EXTRA: "-"}

definitions_app = App(
    name="definitions",
    help="Exchanges, queues, bindings and policies as a file: export, diff, apply. Files of RabbitMQ are read as well.",
)

File = Annotated[
    Path,
    Parameter(allow_leading_hyphen=True, help="A definitions file: of Headgate, or of RabbitMQ. - is standard input."),
]
Host = Annotated[str, Parameter(name="--vhost", help="Which virtual host of the file is meant.")]


@definitions_app.command
def export(
    file: Annotated[Path | None, Parameter(help="Where to write; standard output unless it is given.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", help="With FILE: say as JSON what was written.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Write all exchanges, queues, bindings and policies as JSON, in RabbitMQ's form.

    Built-in exchanges, queues that go with a connection, messages and users are left out.

    For example:

        headgate definitions export definitions.json
    """
    document = with_broker(url, _running)
    written = text(document, version=headgate_version())
    if file is None:
        sys.stdout.write(written)
        return
    _write(file, written)
    things = document.things()
    if json:
        print_json({"file": str(file), **{kind: len(found) for kind, found in _by_kind(document).items()}})
    else:
        print(f"{file} has {summary(things)}")


@definitions_app.command
def diff(file: File, /, *, vhost: Host = "/", json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Say what applying a file would change. Nothing is changed. The exit code is 10 when anything is different.

    Lines begin with `+` for what is to be created, `~` for what is to be changed, `!` for what is different and cannot
    be changed, and `-` for what is in the broker only.

    For example:

        headgate definitions diff definitions.json
    """
    reading = _read(file, vhost, json=json)
    differences = compare(reading.document, with_broker(url, _running))
    different = [one for one in differences if one.change is not Change.UNCHANGED]
    if json:
        print_json({**_as_json(differences), "not_taken_over": _remarks(reading.notes)})
    else:
        _tell_notes(reading)
        for one in different:
            print(_line(one))
        print(_counted(differences))
    if different:
        raise CommandError(Exit.DIFFERS, f"{file} and the broker differ")


@definitions_app.command
def apply(
    file: File,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be done.")] = False,
    delete_extra: Annotated[
        bool, Parameter(negative="", help="Delete what the file does not have, queues with their messages.")
    ] = False,
    keep_going: Annotated[bool, Parameter(negative="", help="Go on behind a failure.")] = False,
    vhost: Host = "/",
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make what a file has and the broker has not, and change policies.

    An exchange or queue that is there and different stays as it is: it has to be deleted first. Unless --keep-going is
    given nothing is done then. An apply that was interrupted is completed by the same once more.

    For example:

        headgate definitions apply definitions.json --dry-run
        headgate definitions apply definitions.json
    """
    reading = _read(file, vhost, json=json)
    if not json:
        _tell_notes(reading)
    outcome = AppliedSteps()

    def work(broker: BlockingManagement) -> list[Difference]:
        running = _running(broker)
        ends = unknown_ends(reading.document, running)
        _refuse(ends, f"{file} cannot be applied; nothing was changed", code=Exit.USAGE, json=json)
        differences = compare(reading.document, running)
        planned = steps(differences, delete_extra=delete_extra)
        conflicts = any(one.change is Change.CONFLICT for one in differences)
        if not dry_run and not (conflicts and not keep_going):
            with _progress(len(planned)) as advance:
                take(broker, planned, outcome, keep_going=keep_going, taken=advance)
        return differences

    try:
        differences = with_broker(url, work)
    except CommandError as error:
        if not outcome.done:
            raise
        raise CommandError(
            error.code, f"{error.text}; {len(outcome.done)} steps are done, apply the file again to complete it"
        ) from None
    _tell_outcome(
        differences, steps(differences, delete_extra=delete_extra), outcome, reading, dry_run=dry_run, json=json
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; to be called for each step."""
    from rich.console import Console  # here and not above: nothing else here needs them, and they take 40 ms to load
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("applying", total=total)
        yield lambda: progress.advance(task)


# --- reading -------------------------------------------------------------------------------------------------------


def _read(file: Path, vhost: str, *, json: bool) -> Reading:
    """The file, if it can be used."""
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{file} cannot be read: {error.strerror}") from None
    reading = read(data, host=vhost)
    _refuse(reading.problems, f"{file} cannot be used; nothing was changed", code=Exit.USAGE, json=json)
    return reading


def _refuse(problems: Sequence[Remark], what: str, *, code: Exit, json: bool = False) -> None:
    """Raises CommandError with all of them, if there are any."""
    if not problems:
        return
    if json:
        print_json({"problems": _remarks(problems)})
    lines = "\n".join(f"  {_printable(str(problem))}" for problem in problems)
    raise CommandError(code, f"{what}\n{lines}")


def _running(broker: BlockingManagement) -> Document:
    """What the broker has."""
    reading = from_snapshots(snapshots(broker))
    _refuse(reading.problems, "not everything that the broker has can be written in a file", code=Exit.REFUSED)
    return reading.document


def _write(file: Path, written: str) -> None:
    """As a whole or not at all: whatever is in the file is replaced once all is on the disk."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            with beside.open("x", encoding="utf-8") as opened:
                opened.write(written)
                opened.flush()
                os.fsync(opened.fileno())
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{file} cannot be written: {error.strerror}") from None


# --- telling -------------------------------------------------------------------------------------------------------


def _tell_outcome(
    differences: Sequence[Difference],
    planned: Sequence[Step],
    outcome: AppliedSteps,
    reading: Reading,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    """Print what was done; raises CommandError when something failed."""
    conflicts = [one for one in differences if one.change is Change.CONFLICT]
    if json:
        print_json(
            {
                "dry_run": dry_run,
                "done": [_step(step) for step in outcome.done],
                "failed": [{**_step(step), "why": why} for step, why in outcome.failed],
                "not_tried": [_step(step) for step in planned[len(outcome.done) + len(outcome.failed) :]],
                "conflicts": [_difference(one) for one in conflicts],
                "not_taken_over": _remarks(reading.notes),
            }
        )
    elif dry_run:
        for step in planned:
            print(f"would {step.action} {_printable(label(step.thing))}")
    else:
        for step in outcome.done:
            print(f"{step.action}d {_printable(label(step.thing))}")
    for step, why in outcome.failed:
        complain(f"{_printable(label(step.thing))}: {_printable(why)}")
    for one in conflicts:
        complain(_printable(f"{label(one.thing)} is different: {'; '.join(one.fields)}; delete it first"))
    failures = len(outcome.failed) + len(conflicts)
    if failures and dry_run:
        raise CommandError(Exit.REFUSED, f"{failures} would fail")
    if failures:
        left = len(planned) - len(outcome.done) - len(outcome.failed)
        rest = f", {left} not tried; --keep-going goes on behind a failure" if left else ""
        raise CommandError(Exit.REFUSED, f"{len(outcome.done)} of {len(planned)} steps done, {failures} failed{rest}")
    if not json and not planned:
        print("nothing is to be done")


def _tell_notes(reading: Reading) -> None:
    for note in reading.notes:
        complain(_printable(f"not taken over: {note}"))


def _line(one: Difference) -> str:
    told = f"{MARKS[one.change]} {label(one.thing)}"
    return _printable(f"{told}: {'; '.join(one.fields)}" if one.fields else told)


def _counted(differences: Sequence[Difference]) -> str:
    counts = {change: sum(one.change is change for one in differences) for change in Change}
    return (
        f"{counts[Change.CREATE]} to create, {counts[Change.CHANGE]} to change, {counts[Change.CONFLICT]} in conflict, "
        f"{counts[Change.UNCHANGED]} unchanged, {counts[Change.EXTRA]} only in the broker"
    )


def _as_json(differences: Sequence[Difference]) -> dict[str, object]:
    return {
        change.value: [_difference(one) for one in differences if one.change is change]
        for change in Change
        if change is not Change.UNCHANGED
    } | {"unchanged": sum(one.change is Change.UNCHANGED for one in differences)}


def _difference(one: Difference) -> dict[str, object]:
    return {"kind": kind_of(one.thing), "definition": shown(one.thing), "different": list(one.fields)}


def _step(step: Step) -> dict[str, object]:
    return {"action": step.action.value, "kind": kind_of(step.thing), "definition": shown(step.thing)}


def _remarks(remarks: Sequence[Remark]) -> list[dict[str, str]]:
    return [{"path": remark.path, "text": remark.text} for remark in remarks]


def _by_kind(document: Document) -> dict[str, Sequence[object]]:
    return {
        "exchanges": document.exchanges,
        "queues": document.queues,
        "bindings": document.bindings,
        "policies": document.policies,
    }


def _printable(line: str) -> str:
    """The line with its control characters escaped: names come from the author of a file, and must not steer a
    terminal."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)
