"""A frame trace: the beginnings of one connection's frames, in both directions, as bytes, kept for an operator.

Nothing is decoded here. A connection that is not traced pays for one comparison in each read and write. The protocol
knows what a frame is: its *cutter* finds the frames in the bytes and decides how much of each may be kept. It never
keeps a message, nor any part of a handshake that proves who a client is.

Bounds: :data:`FRAMES_KEPT` frames and :data:`BYTES_KEPT` bytes for a connection; the oldest are dropped first, and the
numbers of the remaining frames show how many were dropped. A trace that was not read for :data:`UNWATCHED_SECONDS`
ends.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from core.clock import Now
from core.errors import LimitReached, NotFound
from core.interface import Snapshot

TAPPED_READ_BYTES = 32_768
"""The limit of one read while frames are traced: 4096 of the smallest frames, which take 7 ms to find. A whole read may
have 32,768."""
FRAMES_KEPT = 2000
"""Frames kept: half a second of a connection with small messages on one core."""
BYTES_KEPT = 262_144
FRAMES_SHOWN = 200
"""Frames in one answer: a millisecond or two of encoding."""
UNWATCHED_SECONDS = 10.0


class Cut(NamedTuple):
    """One frame: its size in bytes, and the bytes of it that are kept."""

    size: int
    kept: bytes


class FrameCutter(Protocol):
    """Finds frames in the bytes of one direction, which may be divided in any way."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        """Yield the frames whose beginning is complete with these bytes."""


class Cutters(NamedTuple):
    """The frame cutters of both directions at the moment when a trace begins."""

    incoming: FrameCutter
    outgoing: FrameCutter
    unread: bytes
    """Bytes that have arrived and are no whole frame yet, or have not been parsed."""


@runtime_checkable
class Traceable(Protocol):
    """A front end whose frames can be traced."""

    def cutters(self) -> Cutters:
        """Return cutters for the bytes that come and go from now on."""


class Frame(NamedTuple):
    """A frame that was seen. ``at`` is wall-clock time, in seconds."""

    number: int
    at: float
    outgoing: bool
    size: int
    kept: bytes


class FrameTap:
    """The frames seen on one connection."""

    __slots__ = ("_bytes", "_frames", "_incoming", "_outgoing", "asked_at", "protocol", "seen")

    def __init__(self, cutters: Cutters, *, protocol: str, now: Now) -> None:
        self.protocol = protocol
        self.asked_at = now.monotonic
        self.seen = 0
        """Frames so far, which is also the number of the next one."""
        self._incoming = cutters.incoming
        self._outgoing = cutters.outgoing
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self.take(cutters.unread, outgoing=False, now=now)

    def unwatched(self, now: Now) -> bool:
        """Whether no operator has read this trace for too long."""
        return now.monotonic - self.asked_at > UNWATCHED_SECONDS

    def take(self, data: bytes, *, outgoing: bool, now: Now) -> None:
        """Record the frames in bytes that were received or sent."""
        for size, kept in (self._outgoing if outgoing else self._incoming).cut(data):
            self._frames.append(Frame(self.seen, now.wall, outgoing, size, kept))
            self.seen += 1
            self._bytes += len(kept)
            while self._bytes > BYTES_KEPT or len(self._frames) > FRAMES_KEPT:
                self._bytes -= len(self._frames.popleft().kept)

    def after(self, number: int) -> list[Frame]:
        """Return the first frames from this number on."""
        return [frame for frame in self._frames if frame.number >= number][:FRAMES_SHOWN]


class FrameTaps:
    """All traces of one server, by the identities of connections."""

    def __init__(self, taps_max: int) -> None:
        self._taps_max = taps_max
        self._taps: dict[str, FrameTap] = {}

    def check_room(self, identity: str, now: Now) -> None:
        """Raises LimitReached when too many other connections are traced."""
        self._taps = {name: tap for name, tap in self._taps.items() if not tap.unwatched(now)}
        if identity not in self._taps and len(self._taps) >= self._taps_max:
            raise LimitReached(
                f"the frames of {self._taps_max} connections are looked at already (server.frame_taps_max)"
            )

    def add(self, identity: str, tap: FrameTap) -> None:
        """Add the trace of a connection."""
        self._taps[identity] = tap

    def drop(self, identity: str) -> None:
        """Remove the trace of a connection."""
        self._taps.pop(identity, None)

    def show(self, identity: str, number: int, now: Now) -> Snapshot:
        """Return the frames from this number on. Raises NotFound when the connection is not traced, or no longer."""
        tap = self._taps.get(identity)
        if tap is None or tap.unwatched(now):
            raise NotFound(f"the frames of connection '{identity}' are not looked at")
        tap.asked_at = now.monotonic
        frames = tap.after(number)
        first = frames[0].number if frames else tap.seen
        return {
            "protocol": tap.protocol,
            "frames": [list(frame) for frame in frames],
            "missed": max(0, first - number),
            "next": frames[-1].number + 1 if frames else tap.seen,
            "more": bool(frames) and frames[-1].number + 1 < tap.seen,
        }
