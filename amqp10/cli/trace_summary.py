"""Counts the frames of a trace that come with each message, so that ``headgate trace frames`` prints one row for many.

A busy connection has thousands of transfers a second and a few flows, and a reader of the trace looks for the flows. So
transfers, dispositions, and the corresponding frames of AMQP 0.9.1, become one row for each second, direction, channel,
handle and name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

SUMMARISED = frozenset(
    {"transfer", "disposition", "basic.publish", "basic.deliver", "basic.ack", "basic.nack", "header", "body"}
)
"""Frames that come with each message."""


class Shown(NamedTuple):
    """A frame, or a row of counted frames, ready to be printed."""

    number: int
    at: float
    outgoing: bool
    size: int
    channel: int
    name: str
    fields: dict[str, object]


class LinkNumbers(NamedTuple):
    """The channel and handle in the broker's frames of a link, and those in the client's frames."""

    channel: int
    handle: int
    remote_channel: int | None
    remote_handle: int | None
    """None while the client has not attached its end."""

    def marks(self, shown: Shown) -> bool:
        """Whether the frame belongs to the link."""
        handle = shown.fields.get("handle")
        of_its_side = self[:2] if shown.outgoing else self[2:]
        return handle is not None and (shown.channel, handle) == of_its_side


@dataclass(frozen=True, slots=True)
class WantedFrames:
    """Which frames of a trace are printed, and which of them are counted."""

    performatives: tuple[str, ...] = ()
    """Only frames with these names. Empty: frames with any name."""
    channel: int | None = None
    handle: int | None = None
    every: bool = False
    """No frame is counted; each is printed."""
    link: LinkNumbers | None = None

    def takes(self, shown: Shown) -> bool:
        """Whether the frame is wanted."""
        return (
            (not self.performatives or shown.name in self.performatives)
            and self.channel in (None, shown.channel)
            and self.handle in (None, shown.fields.get("handle"))
            and (self.link is None or self.link.marks(shown))
        )

    def summarises(self, shown: Shown) -> bool:
        """Whether the frame is counted and not printed. Frames of a wanted name are all printed."""
        return not self.every and not self.performatives and shown.name in SUMMARISED


@dataclass(slots=True)
class Summary:
    """The counted frames of one second."""

    _second: int = 0
    _rows: dict[tuple[bool, int, object, str], list[int]] = field(default_factory=dict)
    """By direction, channel, handle and name: the number of frames, their bytes, and the number of the last frame."""

    def ended(self, at: float) -> Iterator[Shown]:
        """The rows of the counted second, if ``at`` is in a later one."""
        if int(at) != self._second:
            yield from self.rows()
            self._second = int(at)

    def add(self, shown: Shown) -> None:
        """Count a frame of this second."""
        key = (shown.outgoing, shown.channel, shown.fields.get("handle"), shown.name)
        row = self._rows.setdefault(key, [0, 0, 0])
        row[0] += 1
        row[1] += shown.size
        row[2] = shown.number

    def rows(self) -> Iterator[Shown]:
        """The rows of the counted frames. The counts begin at 0 again."""
        for (outgoing, channel, handle, name), (frames, size, number) in self._rows.items():
            fields: dict[str, object] = {} if handle is None else {"handle": handle}
            fields["frames"] = frames
            yield Shown(number, float(self._second), outgoing, size, channel, name, fields | {"frames_bytes": size})
        self._rows.clear()
