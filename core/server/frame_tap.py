"""The frames of one connection, kept for an operator who looks: their beginnings, in both directions, as bytes.

Nothing is decoded here, and a connection that is not looked at pays for one comparison in each read and write. What
a frame is, the protocol says: its *cutter* finds the frames in the bytes and decides how much of each may be kept. That
is never a message, nor anything of a handshake that proves who a client is.

Bounds: :data:`FRAMES_KEPT` frames and :data:`BYTES_KEPT` bytes for a connection; the oldest go first, and the numbers
of those that are left tell how many that were. A tap that was not asked for :data:`UNWATCHED_SECONDS` is over.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from core.clock import Now
from core.errors import LimitReached, NotFound
from core.interface import Snapshot

FRAMES_KEPT = 2000
"""Half a second of a connection with small messages on one core."""
BYTES_KEPT = 262_144
FRAMES_SHOWN = 200
"""In one answer: a millisecond or two of encoding."""
UNWATCHED_SECONDS = 10.0


class Cut(NamedTuple):
    """One frame: how large it is, and what is kept of it."""

    size: int
    kept: bytes


class FrameCutter(Protocol):
    """Finds frames in one direction's bytes, however these are divided."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        """The frames whose beginning is complete with these bytes."""


class Cutters(NamedTuple):
    """Where a front end's frames begin now."""

    incoming: FrameCutter
    outgoing: FrameCutter
    unread: bytes
    """What has come and is no whole frame yet, or has not been looked at."""


@runtime_checkable
class Traceable(Protocol):
    """A front end whose frames can be looked at."""

    def cutters(self) -> Cutters:
        """For the bytes that come and go from now on."""


class Frame(NamedTuple):
    """A frame that was seen. ``at`` is wall-clock time, in seconds."""

    number: int
    at: float
    outgoing: bool
    size: int
    kept: bytes


class FrameTap:
    """What was seen of one connection."""

    __slots__ = ("_bytes", "_frames", "_incoming", "_outgoing", "asked_at", "protocol", "seen")

    def __init__(self, cutters: Cutters, *, protocol: str, now: Now) -> None:
        self.protocol = protocol
        self.asked_at = now.monotonic
        self.seen = 0
        """Frames so far: the number of the next."""
        self._incoming = cutters.incoming
        self._outgoing = cutters.outgoing
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self.take(cutters.unread, outgoing=False, now=now)

    def unwatched(self, now: Now) -> bool:
        """No operator looks any more."""
        return now.monotonic - self.asked_at > UNWATCHED_SECONDS

    def take(self, data: bytes, *, outgoing: bool, now: Now) -> None:
        """Bytes came or went."""
        for size, kept in (self._outgoing if outgoing else self._incoming).cut(data):
            self._frames.append(Frame(self.seen, now.wall, outgoing, size, kept))
            self.seen += 1
            self._bytes += len(kept)
            while self._bytes > BYTES_KEPT or len(self._frames) > FRAMES_KEPT:
                self._bytes -= len(self._frames.popleft().kept)

    def after(self, number: int) -> list[Frame]:
        """The first frames from this number on."""
        return [frame for frame in self._frames if frame.number >= number][:FRAMES_SHOWN]


class FrameTaps:
    """All taps of one server, by the names of connections."""

    def __init__(self, taps_max: int) -> None:
        self._taps_max = taps_max
        self._taps: dict[str, FrameTap] = {}

    def check_room(self, identity: str, now: Now) -> None:
        """Raises LimitReached when there are too many of other connections."""
        self._taps = {name: tap for name, tap in self._taps.items() if not tap.unwatched(now)}
        if identity not in self._taps and len(self._taps) >= self._taps_max:
            raise LimitReached(
                f"the frames of {self._taps_max} connections are looked at already (server.frame_taps_max)"
            )

    def add(self, identity: str, tap: FrameTap) -> None:
        """An operator looks."""
        self._taps[identity] = tap

    def drop(self, identity: str) -> None:
        """No operator does any more."""
        self._taps.pop(identity, None)

    def show(self, identity: str, number: int, now: Now) -> Snapshot:
        """What was seen from this number on. Raises NotFound when it was not asked for lately."""
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
