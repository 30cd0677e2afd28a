"""``headgate audit``: reads the audit log of a broker, on the machine of the broker.

It reads the files themselves and asks no broker, so it works for a broker that is stopped, too.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from amqp10.cli.exits import CommandError, Exit

FOLLOW_SECONDS = 0.5
"""How often the end of the file is looked at."""
AGO = re.compile(r"(\d{1,9})(s|min|h|d)")
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
FIRST = ("time", "result", "action", "user", "peer")
"""The fields at the beginning of a line; the others follow with their names."""

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records are printed."""

    since: str | None = None
    """The time of the first record, as records have it."""
    user: str | None = None
    action: str | None = None
    """The whole action, or its part before a dot."""
    event: str | None = None
    result: str | None = None

    def fits(self, record: Record) -> bool:
        """Whether a record is printed."""
        action = str(record.get("action", ""))
        return (
            (self.since is None or str(record.get("time", "")) >= self.since)
            and (self.user is None or record.get("user") == self.user)
            and (self.action is None or action == self.action or action.startswith(f"{self.action}."))
            and self.event in (None, record.get("event"))
            and self.result in (None, record.get("result"))
        )


def show(
    file: Path,
    *,
    user: str | None,
    action: str | None,
    event: str | None,
    result: str | None,
    since: str | None,
    follow: bool,
    json: bool,
) -> None:
    """Print the records of an audit log that fit, the oldest first."""
    begin = None if since is None else time_of(since, datetime.now(UTC))
    wanted = RecordFilter(since=begin, user=user, action=action, event=event, result=result)
    try:
        for record in records(file, follow=follow):
            if wanted.fits(record):
                _print(record, as_json=json, flush=follow)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}; audit.file names the file") from None


def _print(record: Record, *, as_json: bool, flush: bool) -> None:
    print(json.dumps(record) if as_json else line_of(record), flush=flush)


def time_of(since: str, now: datetime) -> str:
    """Return the time that an option means, as records have it. Raises CommandError."""
    ago = AGO.fullmatch(since)
    try:
        moment = now - timedelta(seconds=int(ago[1]) * SECONDS[ago[2]]) if ago else datetime.fromisoformat(since)
    except (ValueError, OverflowError):
        text = f"--since must be a time such as 2026-11-24T16:00, or how long ago: 90s, 15min, 2h, 1d; not {since!r}"
        raise CommandError(Exit.USAGE, text) from None
    in_utc = moment.astimezone(UTC)  # a time without a zone is that of this machine
    return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def files_of(file: Path) -> list[Path]:
    """The files of an audit log, the oldest first."""
    numbers = [path.name.removeprefix(f"{file.name}.") for path in file.parent.glob(f"{glob_of(file.name)}.*")]
    older = sorted((int(number) for number in numbers if number.isdigit()), reverse=True)
    return [*(file.with_name(f"{file.name}.{number}") for number in older), file]


def glob_of(name: str) -> str:
    """A pattern for this name alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def records(
    file: Path, *, follow: bool, wait: Callable[[], None] = lambda: time.sleep(FOLLOW_SECONDS)
) -> Iterator[Record]:
    """Yield the records of all files; with ``follow`` also those that come. Raises OSError."""
    paths = files_of(file)
    for path in paths[:-1]:
        with path.open(encoding="ascii", errors="replace") as opened:
            yield from _parsed(opened)
    while True:
        with file.open(encoding="ascii", errors="replace") as opened:
            yield from _followed(opened, file, wait) if follow else _parsed(opened)
        if not follow:
            return


def _followed(opened: TextIO, file: Path, wait: Callable[[], None]) -> Iterator[Record]:
    """The records of a file until another one has its name."""
    part = ""
    while True:
        over = _is_replaced(opened, file)
        while line := opened.readline():
            part += line
            if part.endswith("\n"):
                yield from _parsed([part])
                part = ""
        if over:
            return
        wait()


def _is_replaced(opened: TextIO, file: Path) -> bool:
    own = os.fstat(opened.fileno())
    try:
        there = file.stat()
    except FileNotFoundError:
        return False  # the broker makes it with the next record
    return (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino)


def _parsed(lines: Iterator[str] | TextIO | list[str]) -> Iterator[Record]:
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # a line that a power cut has torn
        if isinstance(record, dict):
            yield record


def line_of(record: Record) -> str:
    """A record as one line, without characters that a terminal would obey."""
    first = [str(record.get(name) or "-") for name in FIRST]
    rest = [f"{name}={_shown(value)}" for name, value in record.items() if name not in (*FIRST, "event")]
    return printable("  ".join((*first, *rest)))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """Return the text with escapes for what is not printable."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
