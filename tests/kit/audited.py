"""An audit log for tests, whose records are taken by the test instead of a writer."""

import json
from dataclasses import dataclass, field
from typing import Any

from core.access.audit import AuditedPeer, AuditLog, encode_record
from core.clock import Now
from core.config.audit import AuditSettings


@dataclass
class Audited:
    """An audit log, and the time that it sees."""

    settings: AuditSettings = field(default_factory=AuditSettings)
    now: Now = field(default_factory=lambda: Now(100.0, 1_700_000_000.0))

    def __post_init__(self) -> None:
        self.log = AuditLog(self.settings, clock=lambda: self.now)

    def peer(self, protocol: str = "test", connection: str = "c1") -> AuditedPeer:
        """The log for one peer."""
        return AuditedPeer(self.log, protocol, "192.0.2.7", 40000, connection)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)

    def taken(self) -> list[dict[str, Any]]:
        """Take all records, as a reader of the file gets them."""
        records = []
        while taken := self.log.take(100):
            records += [json.loads(encode_record(record)) for record in taken]
        return records

    def told(self) -> list[tuple[str, str, str]]:
        """Take all records; returns action, result and user of each."""
        return [(one["action"], one["result"], one.get("user", "")) for one in self.taken()]
