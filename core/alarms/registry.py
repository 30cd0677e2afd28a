"""The alarms that are on: while there is one, front ends let nobody publish.

An alarm is a level, not an event: it is on as long as somebody holds it up, and that may be the one who
measures (memory, disk) and an operator by hand at the same time. Each takes back only what it raised itself.
Mailboxes hear of a change of the whole set, once.

Nobody tells the time to who raises an alarm: since when it is on is filled in by the next ``stamp``.
"""

from dataclasses import dataclass, field

from core.clock import Now
from core.errors import Invalid
from core.interface import AlarmChanged, Mailbox, Snapshot

ALARMS = ("disk", "memory")

BY_HAND = "by hand"
"""The source of an alarm that an operator raised."""


@dataclass(eq=False, slots=True)
class _Alarm:
    sources: dict[str, None] = field(default_factory=dict)
    since: Now | None = None


class AlarmRegistry:
    """All alarms of the broker."""

    __slots__ = ("_alarms", "_mailboxes", "_unstamped")

    def __init__(self) -> None:
        self._alarms: dict[str, _Alarm] = {}
        """Those that are on."""
        self._mailboxes: dict[Mailbox, None] = {}
        self._unstamped = False

    @property
    def on(self) -> frozenset[str]:
        """The names of the alarms that are on."""
        return frozenset(self._alarms)

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """Put changes into this mailbox from now on; returns what is on."""
        self._mailboxes[mailbox] = None
        return self.on

    def unsubscribe(self, mailbox: Mailbox) -> None:
        """Nothing more for this mailbox."""
        self._mailboxes.pop(mailbox, None)

    def set(self, name: str, source: str) -> None:
        """This source holds the alarm up. Raises Invalid for a name that is not an alarm."""
        _check(name)
        alarm = self._alarms.get(name)
        if alarm is None:
            self._alarms[name] = alarm = _Alarm()
            self._unstamped = True
            self._tell()
        alarm.sources[source] = None

    def clear(self, name: str, source: str) -> None:
        """This source lets go of the alarm. Raises Invalid for a name that is not an alarm."""
        _check(name)
        alarm = self._alarms.get(name)
        if alarm is None:
            return
        alarm.sources.pop(source, None)
        if not alarm.sources:
            del self._alarms[name]
            self._tell()

    def stamp(self, now: Now) -> None:
        """Alarms that are new since the last stamp are on since now."""
        if self._unstamped:
            self._unstamped = False
            for alarm in self._alarms.values():
                alarm.since = alarm.since or now

    def snapshot(self) -> list[Snapshot]:
        """Every alarm, also those that are off. ``since`` is wall-clock time in seconds."""
        return [self._show(name) for name in ALARMS]

    def _show(self, name: str) -> Snapshot:
        alarm = self._alarms.get(name)
        if alarm is None:
            return {"name": name, "on": False, "since": None, "sources": []}
        since = None if alarm.since is None else alarm.since.wall
        return {"name": name, "on": True, "since": since, "sources": list(alarm.sources)}

    def _tell(self) -> None:
        action = AlarmChanged(self.on)
        for mailbox in self._mailboxes:
            mailbox.put(action)


def _check(name: str) -> None:
    if name not in ALARMS:
        raise Invalid(f"there is no alarm '{name}'; there are {' and '.join(ALARMS)}")
