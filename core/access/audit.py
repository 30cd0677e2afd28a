"""The audit log: records of who did what, from where, with which result.

Records are made where an act is decided, and at no other place: a login in :class:`core.access.login.Access`, a right
and a change by a client in :class:`core.access.checked_engine.CheckedEngine`, an operation in
:class:`core.operations.table.Call`. They wait in a bounded queue for a task that writes them
(:mod:`core.server.audit_writer`). When the queue is full, a record is lost and counted, and a later record tells how
many were lost. Acts that were refused or failed are recorded up to a rate; a record tells how many were left out. So a
client that is refused a hundred thousand times costs a counter.

No record has a password, a token, or content of messages. Texts are cut, and JSON escapes them.

This module neither awaits nor writes.
"""

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from core.clock import Now
from core.config.audit import AuditEvent, AuditSettings
from core.flow_facts import ClientIdentity
from core.recent_rows import RecentRows

TEXT_MAX = 256
"""Characters of a text in a record, as in the log: peers choose names, arguments and reasons."""
PARAMETERS = "parameters"
"""The field with the parameters of an operation."""
WINDOWS_MAX = 1024
"""Users and addresses whose refused acts are counted at a time; each takes about half a KiB."""
WINDOW_SECONDS = 1.0

AuditResult = Literal["done", "refused", "put-off", "failed"]
"""``refused``: a right or the password is missing. ``put-off``: not decided. ``failed``: not possible."""
AuditRecord = dict[str, object]
"""A record: JSON's types only. Texts have their final length."""


def cut(text: str) -> str:
    """Return a text as records have it."""
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def shown_value(value: object) -> object:
    """Return a parameter's value as records have it: maps and lists as a text of JSON."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return cut(value)
    return cut(json.dumps(value, skipkeys=True, default=lambda other: f"<{type(other).__name__}>"))


def encode_record(record: AuditRecord) -> bytes:
    """Return the line of a record. Characters beyond ASCII and control characters are escaped."""
    return json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"


@dataclass(slots=True)
class _Window:
    start: float
    passed: int
    of: AuditRecord
    """Who was refused what: fields for the record that tells how many were left out."""
    left_out: int = 0


class AuditLog:
    """The records of one broker that wait to be written."""

    def __init__(self, settings: AuditSettings, *, clock: Callable[[], Now]) -> None:
        self.recorded = 0
        """Records that were put into the queue since the start."""
        self.lost = 0
        """Records that found the queue full."""
        self.left_out = 0
        """Refused and failed acts beyond the rate, which are told as a number only."""
        self.wake: Callable[[], None] = lambda: None
        """Called when there may be something to take."""
        self.recent = RecentRows(settings.recent_max)
        """The last records, for operators."""
        self._events = frozenset(settings.events)
        self._waiting_max = settings.waiting_max
        self._passed_max = settings.refused_per_second_max
        self._clock = clock
        self._waiting: deque[AuditRecord] = deque()
        self._lost_untold = 0
        self._windows: OrderedDict[tuple[str, str, str], _Window] = OrderedDict()

    def put(
        self,
        event: AuditEvent,
        action: str,
        result: AuditResult,
        *,
        user: str,
        peer: str,
        details: Mapping[str, object],
    ) -> None:
        """Record an act, if the settings ask for this kind of event. ``details`` are further fields; their texts are
        cut, but :data:`PARAMETERS` are a map that has values of :func:`shown_value` already."""
        if event not in self._events:
            return
        now = self._clock()
        who: AuditRecord = {"user": cut(user), "peer": cut(peer)}
        if result != "done" and not self._passes(event, who, now):
            return
        shown = {
            name: value if name == PARAMETERS else shown_value(value)
            for name, value in details.items()
            if value not in (None, "")
        }
        self._add({"time": _time(now), "event": event, "action": cut(action), "result": result, **who, **shown})

    def tell(self, action: str, **details: object) -> None:
        """Record a fact about the audit log itself."""
        shown = {name: shown_value(value) for name, value in details.items()}
        self._add({"time": _time(self._clock()), "event": "audit", "action": action, "result": "done", **shown})

    def _add(self, record: AuditRecord) -> None:
        if len(self._waiting) >= self._waiting_max:
            self.lost += 1
            self._lost_untold += 1
        else:
            self._waiting.append(record)
            self.recent.add(record)
            self.recorded += 1
        self.wake()

    def _passes(self, event: AuditEvent, who: AuditRecord, now: Now) -> bool:
        """Whether a refused or failed act is within the rate. Else it is counted. A peer chooses the name with which a
        login fails, so logins are counted by address."""
        host = str(who["peer"]).rpartition(":")[0]
        key = (event, "" if event == "logins" else str(who["user"]), host)
        window = self._windows.get(key)
        if window is not None and now.monotonic - window.start >= WINDOW_SECONDS:
            self._end(key)
            window = None
        if window is None:
            if len(self._windows) >= WINDOWS_MAX:
                self._end(next(iter(self._windows)))
            window = self._windows[key] = _Window(now.monotonic, 0, {"of": event, "user": key[1], "peer": host})
        if window.passed >= self._passed_max:
            window.left_out += 1
            self.left_out += 1
            return False
        window.passed += 1
        return True

    def _end(self, key: tuple[str, str, str]) -> None:
        window = self._windows.pop(key)
        if window.left_out:
            self.tell("left-out", count=window.left_out, **window.of)

    @property
    def is_counting(self) -> bool:
        """Whether refused acts are being counted, so that :meth:`end_windows` has to be called in a second."""
        return bool(self._windows)

    def end_windows(self, *, at_once: bool = False) -> None:
        """Tell how many acts were left out in seconds that are over; with ``at_once`` also in the present one."""
        now = self._clock().monotonic
        while self._windows:
            key, window = next(iter(self._windows.items()))
            if not at_once and now - window.start < WINDOW_SECONDS:
                return
            self._end(key)

    def take(self, most: int) -> list[AuditRecord]:
        """Take the oldest records; after the last that waits, one that tells how many were lost."""
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if self._lost_untold and not self._waiting:
            lost, self._lost_untold = self._lost_untold, 0
            self.tell("lost", count=lost)
            taken.append(self._waiting.popleft())
        return taken

    @property
    def waiting(self) -> int:
        """How many records wait."""
        return len(self._waiting)


@dataclass(frozen=True, slots=True)
class AuditedPeer:
    """The audit log for one peer: from where it acts."""

    log: AuditLog
    protocol: str
    host: str
    port: int
    connection: str = ""
    """The identity of its connection; "" over HTTP."""

    def record(
        self, event: AuditEvent, action: str, result: AuditResult, user: str, details: Mapping[str, object]
    ) -> None:
        """Record an act of this peer."""
        where: dict[str, object] = {"protocol": self.protocol, "connection": self.connection}
        self.log.put(event, action, result, user=user, peer=f"{self.host}:{self.port}", details={**where, **details})

    def refused(self, action: str, user: str, why: str, client: ClientIdentity | None = None) -> None:
        """Record that this peer was refused something. ``client`` is that of another node for which the peer asked."""
        if client is None:
            self.record("refusals", action, "refused", user, {"reason": why})
            return
        through = {"through_node": client.node, "client": client.peer, "container_id": client.container_id}
        self.record("refusals", action, "refused", client.user, {"reason": why, **through})


def _time(now: Now) -> str:
    moment = datetime.fromtimestamp(now.wall, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
