"""The alarms and notices of the broker. While an alarm is on, front ends block all publishers; notices are only shown.

An alarm is a level, not an event: it is on while at least one source holds it. A measurement (memory, disk) and an
operator by hand can hold it at the same time, and each can only release its own hold. Mailboxes get one action for each
change of the set of alarms, and none for notices.

Each alarm and notice is one row in snapshots: when and why it came on, and the figures measured last.

The code that raises an alarm does not know the time, so the next ``stamp`` fills in since when it is on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.clock import Now
from core.errors import Invalid
from core.interface import AlarmChanged, Mailbox, Snapshot

ALARMS = ("disk", "memory")
"""While one of them is on, publishers are blocked."""

DRAIN_MODE = "drain-mode"
"""Maintenance mode: it blocks publishers like an alarm, but it is not an alarm and has no row. An operator turns it
on."""

NOTICES = ("audit", "certificate", "descriptors", "etcd", "event-loop-lag")
"""Notices are only shown and block no publisher."""

NONE_ON: frozenset[str] = frozenset()
"""What is on nearly always: one set, which all connections share."""

BY_HAND = "by hand"
"""The source of an alarm that an operator raised."""

ENGINE = "engine"
"""The source of the disk alarm while etcd, which orders the messages of a cluster's quorum queues, is nearly full."""

MEASURED = "measured"
"""The source of an alarm or notice that a measurement raised."""

Witness = Callable[[Snapshot], None]
"""Called with the row of an alarm or notice that has just come on or gone off. When it goes off, the row still has its
last sources and cause."""


@dataclass(eq=False, slots=True)
class _Raised:
    sources: dict[str, str] = field(default_factory=dict)
    """The sources that hold it, each with the cause."""
    since: Now | None = None


class AlarmRegistry:
    """All alarms and notices of the broker."""

    __slots__ = ("_drained", "_figures", "_mailboxes", "_raised", "unstamped", "witness")

    def __init__(self) -> None:
        self.witness: Witness | None = None
        self._raised: dict[str, _Raised] = {}
        """The alarms and notices that are on."""
        self._figures: dict[str, Snapshot] = {}
        self._mailboxes: dict[Mailbox, None] = {}
        self.unstamped = False
        self._drained = False

    @property
    def on(self) -> frozenset[str]:
        """The names of the alarms that are on, and of the drain mode if it is on."""
        names = [name for name in ALARMS if name in self._raised]
        if not (names or self._drained):
            return NONE_ON
        return frozenset([*names, DRAIN_MODE] if self._drained else names)

    @property
    def raised(self) -> frozenset[str]:
        """The names of the alarms and notices that are on."""
        return frozenset(self._raised)

    @property
    def paging_stopped(self) -> bool:
        """Whether paging out has to stop, because the disk alarm is on and paging would fill the disk."""
        raised = self._raised.get("disk")
        return raised is not None and any(source != ENGINE for source in raised.sources)

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """Put changes into this mailbox from now on. Returns the names that are on."""
        self._mailboxes[mailbox] = None
        return self.on

    def unsubscribe(self, mailbox: Mailbox) -> None:
        """Put no more changes into this mailbox."""
        self._mailboxes.pop(mailbox, None)

    def set(self, name: str, source: str, cause: str = "") -> None:
        """Let this source hold the alarm. Raises Invalid for a name that is not an alarm."""
        _check(name)
        if self._raise(name, source, cause):
            self._tell()

    def clear(self, name: str, source: str) -> None:
        """Release this source's hold of the alarm. Raises Invalid for a name that is not an alarm."""
        _check(name)
        if self._lower(name, source):
            self._tell()

    def set_by_hand(self, name: str) -> None:
        """Raise an alarm by hand. Raises Invalid for a name that is not an alarm."""
        self.set(name, BY_HAND, "raised by hand")

    def clear_by_hand(self, name: str) -> None:
        """Clear an alarm that was raised by hand. Raises Invalid."""
        self.clear(name, BY_HAND)

    def drain(self, *, wanted: bool) -> None:
        """Begin or end the drain mode."""
        if wanted is not self._drained:
            self._drained = wanted
            self._tell()

    def notice(self, name: str, on: bool, cause: str = "") -> None:
        """Turn a notice on or off. It blocks no publisher."""
        assert name in NOTICES
        if on:
            self._raise(name, MEASURED, cause)
        else:
            self._lower(name, MEASURED)

    def measured(self, name: str, figures: Mapping[str, object]) -> None:
        """Set the figures of an alarm or notice, on or off: plain values that its row shows."""
        self._figures[name] = dict(figures)

    def stamp(self, now: Now) -> None:
        """Set ``now`` as the beginning of alarms and notices raised since the last stamp."""
        if self.unstamped:
            self.unstamped = False
            for raised in self._raised.values():
                raised.since = raised.since or now

    def snapshot(self) -> list[Snapshot]:
        """Return the rows of all alarms and notices, also of those that are off. ``since`` is wall-clock time in
        seconds."""
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
        """Add a source. Returns whether the alarm or notice came on by that."""
        raised = self._raised.get(name)
        if raised is not None:
            raised.sources.setdefault(source, cause or source)
            return False
        self._raised[name] = _Raised({source: cause or source})
        self.unstamped = True
        self._show_witness(self._show(name))
        return True

    def _lower(self, name: str, source: str) -> bool:
        """Remove a source. Returns whether the alarm or notice went off by that."""
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
