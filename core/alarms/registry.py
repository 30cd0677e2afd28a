"""The alarms that are on: while there is one, front ends let nobody publish. And notices, which only tell.

An alarm is a level, not an event: it is on as long as somebody holds it up, and that may be the one who
measures (memory, disk) and an operator by hand at the same time. Each takes back only what it raised itself.
Mailboxes hear of a change of the whole set of alarms, once; of notices they hear nothing.

Each alarm and notice is one row for whoever looks: when and why it came on, and the figures that were measured last.

Nobody tells the time to who raises an alarm: since when it is on is filled in by the next ``stamp``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.clock import Now
from core.errors import Invalid
from core.interface import AlarmChanged, Mailbox, Snapshot

ALARMS = ("disk", "memory")
"""While one of them is on, publishers wait."""

DRAIN_MODE = "drain-mode"
"""Stops publishers as an alarm does, and is none: an operator wants it so, and it is not among the rows."""

NOTICES = ("descriptors", "event-loop-lag")
"""Only shown."""

BY_HAND = "by hand"
"""The source of an alarm that an operator raised."""

MEASURED = "measured"
"""The source of what is on because of what was measured."""

Witness = Callable[[Snapshot], None]
"""Is shown the row of an alarm or notice that has just come on or gone off. Off, it still names what it ended with."""


@dataclass(eq=False, slots=True)
class _Raised:
    sources: dict[str, str] = field(default_factory=dict)
    """Who holds it up, and why."""
    since: Now | None = None


class AlarmRegistry:
    """All alarms and notices of the broker."""

    __slots__ = ("_drained", "_figures", "_mailboxes", "_raised", "_unstamped", "witness")

    def __init__(self) -> None:
        self.witness: Witness | None = None
        self._raised: dict[str, _Raised] = {}
        """Those that are on."""
        self._figures: dict[str, Snapshot] = {}
        self._mailboxes: dict[Mailbox, None] = {}
        self._unstamped = False
        self._drained = False

    @property
    def on(self) -> frozenset[str]:
        """The names of the alarms that are on, and of the drain mode."""
        names = [name for name in ALARMS if name in self._raised]
        return frozenset([*names, DRAIN_MODE] if self._drained else names)

    @property
    def raised(self) -> frozenset[str]:
        """The names of the alarms and notices that are on."""
        return frozenset(self._raised)

    @property
    def paging_stopped(self) -> bool:
        """Nothing is paged out while the disk is short: it would be the paging that fills it."""
        return "disk" in self._raised

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """Put changes into this mailbox from now on; returns what is on."""
        self._mailboxes[mailbox] = None
        return self.on

    def unsubscribe(self, mailbox: Mailbox) -> None:
        """Nothing more for this mailbox."""
        self._mailboxes.pop(mailbox, None)

    def set(self, name: str, source: str, cause: str = "") -> None:
        """This source holds the alarm up. Raises Invalid for a name that is not an alarm."""
        _check(name)
        if self._raise(name, source, cause):
            self._tell()

    def clear(self, name: str, source: str) -> None:
        """This source lets go of the alarm. Raises Invalid for a name that is not an alarm."""
        _check(name)
        if self._lower(name, source):
            self._tell()

    def drain(self, *, wanted: bool) -> None:
        """Begin or end the drain mode."""
        if wanted is not self._drained:
            self._drained = wanted
            self._tell()

    def notice(self, name: str, on: bool, cause: str = "") -> None:
        """Show a notice, or take it away. It stops nobody."""
        assert name in NOTICES
        if on:
            self._raise(name, MEASURED, cause)
        else:
            self._lower(name, MEASURED)

    def measured(self, name: str, figures: Mapping[str, object]) -> None:
        """What was measured last for an alarm or notice, on or off. Plain values; the row shows them."""
        self._figures[name] = dict(figures)

    def stamp(self, now: Now) -> None:
        """Alarms that are new since the last stamp are on since now."""
        if self._unstamped:
            self._unstamped = False
            for raised in self._raised.values():
                raised.since = raised.since or now

    def snapshot(self) -> list[Snapshot]:
        """Every alarm and notice, also those that are off. ``since`` is wall-clock time in seconds."""
        return [self._show(name) for name in sorted(ALARMS + NOTICES)]

    def _show(self, name: str) -> Snapshot:
        raised = self._raised.get(name) or _Raised()
        return {
            "name": name,
            "level": "alarm" if name in ALARMS else "notice",
            "on": name in self._raised,
            "since": None if raised.since is None else raised.since.wall,
            "sources": list(raised.sources),
            "cause": "; ".join(raised.sources.values()) or None,
            **self._figures.get(name, {}),
        }

    def _raise(self, name: str, source: str, cause: str) -> bool:
        """Whether it came on."""
        raised = self._raised.get(name)
        if raised is not None:
            raised.sources.setdefault(source, cause or source)
            return False
        self._raised[name] = _Raised({source: cause or source})
        self._unstamped = True
        self._show_witness(self._show(name))
        return True

    def _lower(self, name: str, source: str) -> bool:
        """Whether it went off."""
        raised = self._raised.get(name)
        if raised is None or source not in raised.sources:
            return False
        last = self._show(name)
        del raised.sources[source]
        if raised.sources:
            return False
        del self._raised[name]
        self._show_witness(last | {"on": False})
        return True

    def _show_witness(self, row: Snapshot) -> None:
        if self.witness is not None:
            self.witness(row)

    def _tell(self) -> None:
        action = AlarmChanged(self.on)
        for mailbox in self._mailboxes:
            mailbox.put(action)


def _check(name: str) -> None:
    if name not in ALARMS:
        raise Invalid(f"there is no alarm '{name}'; there are {' and '.join(ALARMS)}")
