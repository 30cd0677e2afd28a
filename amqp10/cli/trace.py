"""``headgate trace frames``: prints the frames of a connection. The command decodes them, not the broker."""

import json as json_module
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from math import inf
from time import monotonic, sleep
from typing import Any

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.remote import ask, row_of, with_broker
from amqp10.cli.trace_summary import LinkNumbers, Shown, Summary, WantedFrames
from amqp10.errors import DecodeError
from amqp10.wire.framing import AMQP_FRAME, FRAME_HEADER_BYTES
from amqp10.wire.messaging import (
    Accepted,
    Coordinator,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
)
from amqp10.wire.performatives import Performative, decode_performative
from amqp10.wire.types import plain
from core.amqp091.framing import FrameType
from core.amqp091.methods import METHODS

POLL_SECONDS = 0.1
METHOD_BYTES = 11
"""Bytes of a frame of AMQP 0.9.1 up to the end of the number of its method."""

Nested = Performative | Source | Target | Coordinator | Accepted | Rejected | Released | Modified | Received | Error
NESTED = (Source, Target, Coordinator, Accepted, Rejected, Released, Modified, Received, Error)
"""Values in a performative that have fields of their own."""


def frames(
    connection: str | None,
    *,
    seconds: float | None,
    count: int | None,
    performative: tuple[str, ...],
    channel: int | None,
    handle: int | None,
    link: str | None,
    every: bool,
    json: bool,
    url: str,
) -> None:
    """Print the frames of a connection as they are sent and received, until the command is interrupted."""
    if (seconds is not None and seconds <= 0) or (count is not None and count < 1):
        raise CommandError(Exit.USAGE, "--seconds must be more than 0, and --count 1 or more")

    named = link.partition("/")[0] if link is not None else connection
    if named is None:
        raise CommandError(Exit.USAGE, "give a connection, or a link with --link")
    if connection not in (None, named):
        raise CommandError(Exit.USAGE, f"link {link} is not one of connection {connection}")
    wanted = WantedFrames(tuple(name.lower() for name in performative), channel, handle, every)

    def trace(broker: BlockingManagement) -> None:
        nonlocal wanted
        if link is not None:
            wanted = replace(wanted, link=_numbers(broker, link))
        ask(broker, "frames.begin", connection=named)
        output = _Output(wanted, count=count or inf, shape=_as_json if json else _as_text)
        try:
            _follow(broker, named, output, until=monotonic() + (seconds or inf))
        finally:
            output.end()
        ask(broker, "frames.end", connection=named)

    with_broker(url, trace)


def _numbers(broker: BlockingManagement, link: str) -> LinkNumbers:
    row: Mapping[str, Any] = row_of(ask(broker, "rows.show", kind="links", identity=link))
    return LinkNumbers(**{name: row[name] for name in LinkNumbers._fields})


class _Output:
    """Prints at most ``count`` lines."""

    def __init__(self, wanted: WantedFrames, *, count: float, shape: Callable[[Shown], str]) -> None:
        self._wanted = wanted
        self._summary = Summary()
        self._shape = shape
        self._left = count
        self._missed = 0

    @property
    def full(self) -> bool:
        """Whether all wanted lines are printed."""
        return self._left <= 0

    def add(self, shown: Shown) -> None:
        """Print or count a frame, if it is wanted."""
        for row in self._summary.ended(shown.at):
            self._print(row)
            self._tell_missed()
        if not self._wanted.takes(shown):
            return
        if self._wanted.summarises(shown):
            self._summary.add(shown)
        else:
            self._print(shown)

    def miss(self, frames: int) -> None:
        """The broker has dropped so many frames."""
        self._missed += frames

    def end(self) -> None:
        """Print the rows that are still counted."""
        for row in self._summary.rows():
            self._print(row)
        self._tell_missed()
        sys.stdout.flush()

    def _print(self, shown: Shown) -> None:
        if not self.full:
            self._left -= 1
            print(self._shape(shown))

    def _tell_missed(self) -> None:
        if self._missed:
            print(f"headgate: {self._missed} frames are left out: too many to be kept", file=sys.stderr)
            self._missed = 0


def _follow(broker: BlockingManagement, connection: str, output: _Output, *, until: float) -> None:
    after = 0
    while not output.full:
        answer: Mapping[str, Any] = row_of(ask(broker, "frames.show", connection=connection, after=after))
        after = answer["next"]
        output.miss(answer["missed"])
        for frame in answer["frames"]:
            output.add(_decoded(answer["protocol"], *frame))
        sys.stdout.flush()
        if not answer["open"]:
            print("headgate: the connection is closed", file=sys.stderr)
            return
        if monotonic() >= until:
            return
        if not answer["more"]:
            sleep(min(POLL_SECONDS, until - monotonic()))


def _decoded(protocol: str, number: int, at: float, outgoing: bool, size: int, kept: bytes) -> Shown:
    decode: Callable[[bytes, int], tuple[int, str, dict[str, object]]]
    decode = _amqp10 if protocol == "amqp-1.0" else _amqp091
    if kept.startswith(b"AMQP"):
        return Shown(number, at, outgoing, size, 0, "protocol-header", {"header": kept})
    channel, name, values = decode(kept, size)
    return Shown(number, at, outgoing, size, channel, name, values)


def _amqp10(kept: bytes, size: int) -> tuple[int, str, dict[str, object]]:
    """Channel, name and fields."""
    _, offset, frame_type, channel = struct.unpack_from(">IBBH", kept)
    if frame_type != AMQP_FRAME:
        return channel, "sasl", {}
    if size == FRAME_HEADER_BYTES:
        return channel, "empty", {}
    try:
        performative, end = decode_performative(kept, 4 * offset, len(kept))
    except DecodeError as error:
        return channel, "not-decoded", {"fault": str(error)}
    shown = dict(_parts(performative))
    if size > end:
        shown["payload_bytes"] = size - end
    return channel, type(performative).__name__.lower(), shown


def _amqp091(kept: bytes, size: int) -> tuple[int, str, dict[str, object]]:
    frame_type, channel, payload = struct.unpack_from(">BHI", kept)
    if frame_type == FrameType.METHOD and len(kept) >= METHOD_BYTES:
        class_id, method_id = struct.unpack_from(">HH", kept, 7)
        method = METHODS.get((class_id, method_id))
        return channel, f"{class_id}.{method_id}" if method is None else _dotted(method.__name__), {}
    names = {FrameType.HEADER: "header", FrameType.BODY: "body", FrameType.HEARTBEAT: "heartbeat"}
    name = next((name for known, name in names.items() if known == frame_type), f"type {frame_type}")
    return channel, name, {"payload_bytes": payload} if payload else {}


def _dotted(name: str) -> str:
    """The name of a method from the name of its class: BasicGetOk is basic.get-ok."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).split()
    return f"{words[0]}.{'-'.join(words[1:])}"


def _as_text(shown: Shown) -> str:
    time = datetime.fromtimestamp(shown.at, UTC).strftime("%H:%M:%S.%f")
    values = " ".join(f"{name}={_brief(value)}" for name, value in shown.fields.items())
    return f"{time} {'<' if shown.outgoing else '>'} {shown.channel} {shown.name} {values}".rstrip()


def _brief(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex() or "-"
    if isinstance(value, NESTED):
        inside = " ".join(f"{name}={_brief(item)}" for name, item in _parts(value))
        return f"{type(value).__name__.lower()}({inside})"
    return str(plain(value))


def _as_json(shown: Shown) -> str:
    row = {
        "number": shown.number,
        "at": shown.at,
        "direction": "out" if shown.outgoing else "in",
        "size": shown.size,
        "channel": shown.channel,
        "name": shown.name,
        "fields": {name: _jsonable(value) for name, value in shown.fields.items()},
    }
    return json_module.dumps(row, default=str, ensure_ascii=False)


def _jsonable(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, NESTED):
        return {"type": type(value).__name__.lower()} | {name: _jsonable(item) for name, item in _parts(value)}
    return plain(value)


def _parts(value: Nested) -> Iterator[tuple[str, object]]:
    """The fields whose values differ from the defaults."""
    for field in fields(value):
        item = getattr(value, field.name)
        if item is not None and item != field.default:
            yield field.name, item
