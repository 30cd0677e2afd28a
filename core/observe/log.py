"""The log: one line per event on standard error, written by a thread of its own.

An event has an *id* (``connection-refused``), never a sentence, so that it can be counted and searched for. All other
facts are keys beside it: ``connection``, ``peer``, ``container_id``, ``reason``. Values that peers chose are escaped
and cut.

The event loop never waits for standard error: lines go through a bounded queue to a thread, and when the
queue is full they are dropped and counted. One event cannot flood the log: above its rate, lines are left
out, and the next one that is written says how many.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from core.config.log import LogSettings
from core.recent_rows import RecentRows

TEXT_LENGTH_MAX = 256
"""Characters of a value in the log: peers choose container-ids, addresses and error texts."""

EVENTS_MAX = 1024
"""Event ids that the rate limiter keeps. The broker has far fewer, so reaching the limit would be a bug."""

WINDOW_SECONDS = 1.0

CLOSE_SECONDS_MAX = 1.0
"""Time for the last lines, when the broker ends."""


class RateLimiter:
    """A processor that lets a limited number of lines of each event through per second, and counts the others.

    A call may ask for a longer pause with the key ``at_most_every`` (in seconds).
    """

    def __init__(self, *, per_second_max: int, monotonic: Callable[[], float]) -> None:
        self._per_second_max = per_second_max
        self._monotonic = monotonic
        self._windows: dict[str, _Window] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        now = self._monotonic()
        pause = event.pop("at_most_every", None)
        window = self._windows.get(event["event"])
        if window is None:
            if len(self._windows) >= EVENTS_MAX:
                self._windows.clear()
            window = self._windows[event["event"]] = _Window(now)
        if now - window.start >= (pause or WINDOW_SECONDS):
            window.start = now
            window.passed = 0
        if window.passed >= (1 if pause else self._per_second_max):
            window.left_out += 1
            raise structlog.DropEvent
        window.passed += 1
        if window.left_out:
            event["left_out"] = window.left_out
            window.left_out = 0
        return event


class _Window:
    __slots__ = ("left_out", "passed", "start")

    def __init__(self, start: float) -> None:
        self.start = start
        self.passed = 0
        self.left_out = 0


def escape(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A processor that escapes and cuts values: a peer's text cannot forge a line, move the cursor or fill the disk."""
    for key, value in event.items():
        if isinstance(value, bytes):
            value = value[:TEXT_LENGTH_MAX].decode("ascii", "backslashreplace")
        if isinstance(value, str) and key != "exception":
            event[key] = _escaped(value)
    return event


def _escaped(text: str) -> str:
    cut = text[:TEXT_LENGTH_MAX]
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return cut if len(text) <= TEXT_LENGTH_MAX else cut + "…"


class Keeper:
    """A processor that keeps the events as rows: time, level, event, and the other facts as one map."""

    def __init__(self, recent: RecentRows) -> None:
        self._recent = recent

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        facts = {
            key: value if isinstance(value, bool | int | float | str | None) else _escaped(str(value))
            for key, value in event.items()
            if key not in ("timestamp", "level", "event", "exc_info", "exception")
        }
        row = {"time": event["timestamp"], "level": event["level"], "event": event["event"], "facts": facts}
        self._recent.add(row)
        return event


class LineWriter:
    """Writes lines from a thread. Also the logger that structlog wraps, at the end of its processors.

    ``logging.handlers.QueueListener`` is not used: with a full queue its handler writes to standard error
    from the calling thread, and its ``stop`` fails.
    """

    def __init__(self, stream: TextIO, *, waiting_max: int) -> None:
        self.dropped = 0
        """Lines that were dropped because the queue was full."""
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(waiting_max)
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def msg(self, line: str) -> None:
        """Put a line into the queue. Never waits."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    debug = info = warning = error = critical = msg

    def close(self) -> None:
        """Write the waiting lines, for at most :data:`CLOSE_SECONDS_MAX`."""
        try:
            self._lines.put(None, timeout=CLOSE_SECONDS_MAX)
        except queue.Full:
            return  # standard error is not being read; the daemon thread ends with the process
        self._thread.join(CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        for line in iter(self._lines.get, None):
            try:
                self._stream.write(line + "\n")
                if self._lines.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                self.dropped += 1  # closed or broken: no place is left to report it


def processors(
    settings: LogSettings, *, json: bool, monotonic: Callable[[], float], recent: RecentRows
) -> list[Processor]:
    """From an event to one line of text (an exception's stack follows it when the form is text). ``recent`` gets the
    event too."""
    shared: list[Processor] = [
        RateLimiter(per_second_max=settings.per_second_max, monotonic=monotonic),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        escape,
        Keeper(recent),
    ]
    if json:
        return [*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [*shared, structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain, pad_event_to=0)]


class LogLevel:
    """A processor that lets events of its level and more severe ones through. The level may change at any time."""

    def __init__(self, name: str) -> None:
        self._level = _number(name)

    def set(self, name: str) -> None:
        """Set another level, by its name in the configuration."""
        self._level = _number(name)

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _number(method) < self._level:
            raise structlog.DropEvent
        return event


def _number(name: str) -> int:
    return logging.getLevelNamesMapping()[name.upper()]


@contextmanager
def open_log(
    settings: LogSettings,
    stream: TextIO,
    *,
    monotonic: Callable[[], float],
    level: LogLevel | None = None,
    recent: RecentRows | None = None,
) -> Iterator[FilteringBoundLogger]:
    """Yield a logger that writes to the stream through a thread. ``level`` allows the caller to change the level
    later, and ``recent`` keeps the last events."""
    kept = RecentRows(0) if recent is None else recent
    json = settings.form == "json" or (settings.form == "auto" and not stream.isatty())
    writer = LineWriter(stream, waiting_max=settings.waiting_max)
    filtering = LogLevel(settings.level) if level is None else level
    try:
        yield structlog.wrap_logger(
            writer,
            processors=[filtering, *processors(settings, json=json, monotonic=monotonic, recent=kept)],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        ).bind()
    finally:
        writer.close()
