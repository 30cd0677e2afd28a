"""The four health checks. Each answers that all is well, or gives the reasons why not.

A broker is *alive* if it answers at all. It has *started* once it accepts connections. It is *ready* while it accepts
new connections; an alarm does not change that, because most alarms end when consumers take messages. Whether publishing
works is a check of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse

from core.admin.answers import HEADERS, success
from core.interface import Observable, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The request handlers of the health checks. ``observable`` has the rows of "alarms"."""

    observable: Observable
    started: Callable[[], bool]
    """Returns whether the broker accepts connections, or has done so."""
    draining: Callable[[], bool]
    """Returns whether the broker is stopping."""

    async def alive(self, request: Request) -> JSONResponse:
        """Answer that the broker is alive: the event loop runs, or there would be no answer."""
        return _verdict([])

    async def has_started(self, request: Request) -> JSONResponse:
        """Answer whether the broker has begun to accept connections."""
        return _verdict(self._missing())

    async def ready(self, request: Request) -> JSONResponse:
        """Answer whether the broker accepts new connections now."""
        return _verdict(self._missing() + self._leaving())

    async def publishing(self, request: Request) -> JSONResponse:
        """Answer whether the broker is ready and no alarm stops publishers."""
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
