"""``headgate definitions``: exports the definitions of a broker, compares them with a file, and applies a file.

The form of a file, the comparison and the order of the steps are in :mod:`core.definitions_file`.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.definition_requests import AppliedSteps, by_user, snapshots, take
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import print_json
from amqp10.cli.remote import ask, row_of, with_broker
from amqp10.client_core.errors import RequestRefused
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


def export(file: Path | None, *, json: bool, url: str) -> None:
    """Write the definitions of a broker to a file or to standard output."""
    document, users = with_broker(url, lambda broker: (_running(broker), _users(broker)))
    host = unquote(urlsplit(url).path.removeprefix("/")) or "/"
    written = text(document, version=headgate_version(), users=users, host=host)
    if file is None or str(file) == "-":
        sys.stdout.write(written)
        return
    _write(file, written)
    things = document.things()
    if json:
        print_json({"file": str(file), **{kind: len(found) for kind, found in _by_kind(document).items()}})
    else:
        print(f"{file} has {summary(things)}")


def diff(file: Path, *, vhost: str, json: bool, url: str) -> None:
    """Print what applying a file would change. Raises CommandError when there is a difference."""
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


def apply(file: Path, *, dry_run: bool, delete_extra: bool, keep_going: bool, vhost: str, json: bool, url: str) -> None:
    """Create what the file has and the broker does not have, and change policies. Raises CommandError."""
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
            if not outcome.failed:
                for body in by_user(reading.users):
                    broker.request("POST", "/headgate/definitions/users", body)
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
    """A progress bar on a terminal. The caller calls the function for each step."""
    from rich.console import Console  # here and not above: they take 40 ms of CPU to import
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("applying", total=total)
        yield lambda: progress.advance(task)


# --- reading -------------------------------------------------------------------------------------------------------


def _read(file: Path, vhost: str, *, json: bool) -> Reading:
    """The content of a file. Raises CommandError when the file cannot be used."""
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
    """Raise CommandError with all problems, if there are any."""
    if not problems:
        return
    if json:
        print_json({"problems": _remarks(problems)})
    lines = "\n".join(f"  {_printable(str(problem))}" for problem in problems)
    raise CommandError(code, f"{what}\n{lines}")


def _running(broker: BlockingManagement) -> Document:
    """All definitions of the broker. Raises CommandError."""
    reading = from_snapshots(snapshots(broker))
    _refuse(reading.problems, "not everything that the broker has can be written in a file", code=Exit.REFUSED)
    return reading.document


def _users(broker: BlockingManagement) -> Mapping[str, object]:
    """The lists about users; none where the user of the command may not see them."""
    try:
        return row_of(ask(broker, "users.export"))
    except RequestRefused as refused:
        complain(_printable(f"users are left out: {refused.text}"))
        return {}


def _write(file: Path, written: str) -> None:
    """Replace the file as a whole, after the new content is on the disk. Raises CommandError."""
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
    """Print the steps that were done. Raises CommandError when a step failed."""
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
    """The line with control characters escaped. Names come from the author of a file, and must not control the user's
    terminal."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)
