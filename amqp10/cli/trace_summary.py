"""What ``headgate trace frames`` shows of the many: frames that carry messages and outcomes, counted by the second.

A busy connection has thousands of transfers a second and a few flows, and a reader of the trace looks for the flows. So
transfers, dispositions, and what AMQP 0.9.1 has in their place, become one row for each second, direction, channel,
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
    """A frame in words."""

    number: int
    at: float
    outgoing: bool
    size: int
    channel: int
    name: str
    fields: dict[str, object]


class LinkNumbers(NamedTuple):
    """How one link's frames are marked: those of the broker, and those of the client, whose numbers are its own."""

    channel: int
    handle: int
    remote_channel: int | None
    remote_handle: int | None
    """None while the client has not attached its end."""

    def marks(self, shown: Shown) -> bool:
        """Whether this is a frame of the link."""
        handle = shown.fields.get("handle")
        of_its_side = self[:2] if shown.outgoing else self[2:]
        return handle is not None and (shown.channel, handle) == of_its_side


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which frames are shown, and how."""

    performatives: tuple[str, ...] = ()
    """Of these names only; of all when empty."""
    channel: int | None = None
    handle: int | None = None
    every: bool = False
    """None is summarised."""
    link: LinkNumbers | None = None

    def takes(self, shown: Shown) -> bool:
        """Whether it is one of them."""
        return (
            (not self.performatives or shown.name in self.performatives)
            and self.channel in (None, shown.channel)
            and self.handle in (None, shown.fields.get("handle"))
            and (self.link is None or self.link.marks(shown))
        )

    def summarises(self, shown: Shown) -> bool:
        """Whether it is counted and not shown. Who asks for a name wants to see each of them."""
        return not self.every and not self.performatives and shown.name in SUMMARISED


@dataclass(slots=True)
class Summary:
    """The frames of one second that are counted."""

    _second: int = 0
    _rows: dict[tuple[bool, int, object, str], list[int]] = field(default_factory=dict)
    """By direction, channel, handle and name: frames, their bytes, and the number of the last one."""

    def ended(self, at: float) -> Iterator[Shown]:
        """The rows of the second before this time, if it is another one."""
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
        """What was counted; it is counted anew from here."""
        for (outgoing, channel, handle, name), (frames, size, number) in self._rows.items():
            fields: dict[str, object] = {} if handle is None else {"handle": handle}
            fields["frames"] = frames
            yield Shown(number, float(self._second), outgoing, size, channel, name, fields | {"frames_bytes": size})
        self._rows.clear()
