"""Four questions that machines ask a broker, each with a yes or the reasons why not.

*Alive* is who answers at all. *Started* and *ready* are about connections: an alarm does not make a broker unready,
since consumers are what ends most alarms. Whether publishing works is a question of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse

from core.admin.answers import HEADERS, success
from core.interface import Observable, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Where the answers come from. ``observable`` has the rows of "alarms"."""

    observable: Observable
    started: Callable[[], bool]
    """Connections have been accepted since the store was opened."""
    draining: Callable[[], bool]
    """The orderly stop has begun."""

    async def alive(self, request: Request) -> JSONResponse:
        """Yes: the event loop has come to this."""
        return _verdict([])

    async def has_started(self, request: Request) -> JSONResponse:
        """Yes once connections are accepted, until the end."""
        return _verdict(self._missing())

    async def ready(self, request: Request) -> JSONResponse:
        """Yes while new connections are welcome."""
        return _verdict(self._missing() + self._leaving())

    async def publishing(self, request: Request) -> JSONResponse:
        """Yes while ready and no alarm stops publishers."""
        return _verdict(self._missing() + self._leaving() + self._alarms())

    def _missing(self) -> list[Snapshot]:
        return [] if self.started() else [{"reason": "starting"}]

    def _leaving(self) -> list[Snapshot]:
        return [{"reason": "draining"}] if self.draining() else []

    def _alarms(self) -> list[Snapshot]:
        rows = self.observable.snapshot("alarms")
        return [
            {"reason": row["name"], "cause": row["cause"], "since": row["since"]}
            for row in rows
            if row["on"] and row["level"] == "alarm"
        ]


def _verdict(reasons: Sequence[Snapshot]) -> JSONResponse:
    if not reasons:
        return success({"status": "ok"})
    return JSONResponse({"status": "not ok", "reasons": list(reasons)}, status_code=503, headers=HEADERS)
