"""The ASGI application of the admin server: health checks, metrics for Prometheus, the HTTP API and the console.

The application gets snapshots and callables; it knows neither the engine nor the protocols. Only one answer with
metrics is made at a time. So many requests for metrics at once do not delay messages more than one does; they only take
longer themselves.
"""

from collections.abc import Callable, Iterable

import trio
from prometheus_client import Metric
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from core.admin.answers import PiecesOfText, problem
from core.admin.api.application import Api
from core.admin.callers import Callers
from core.admin.console.login import ConsoleLogin
from core.admin.console.serving import console_routes
from core.admin.exposition import CONTENT_TYPE, Collector, exposition
from core.admin.guard import Guard
from core.admin.health import Health
from core.config.address import parse_address
from core.config.admin import AdminSettings

LinkCollector = Callable[[str | None, int], Iterable[Metric | None]]
"""Returns the metric families of links. Arguments: the address of the links, or None for all; and the most links."""

ADDRESS_LENGTH_MAX = 1024
"""The most characters of an address in a query. A queue's name has up to 255 bytes, and three times as many when it is
percent-encoded."""


def admin_application(
    *,
    settings: AdminSettings,
    callers: Callers,
    api: Api,
    health: Health,
    collect: Collector,
    collect_links: LinkCollector,
    log: FilteringBoundLogger,
) -> ASGIApp:
    """Return the application that answers every request to the admin server's port."""
    checks = {
        "/livez": health.alive,
        "/readyz": health.ready,
        "/startupz": health.has_started,
        "/healthz/publish": health.publishing,
    }
    metrics = Metrics(collect=collect, collect_links=collect_links, links_max=settings.links_max)
    console = console_routes()
    login = ConsoleLogin(callers, api.permitted, log)
    app = Starlette(
        routes=[
            Route("/metrics", metrics.totals),
            Route("/metrics/links", metrics.links),
            *(Route(path, check) for path, check in checks.items()),
            Mount("/api", app=api),
            *login.routes(),
            *console,
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False
    hosts = {parse_address(address)[0] for address in settings.listen} | set(settings.hosts)
    return Guard(
        app,
        callers=callers,
        hosts=hosts,
        open_paths=checks.keys() | {route.path for route in console},
        body_max=settings.body_max,
        log=log,
    )


class Metrics:
    """The request handlers for metrics."""

    def __init__(self, *, collect: Collector, collect_links: LinkCollector, links_max: int) -> None:
        self._collect = collect
        self._collect_links = collect_links
        self._links_max = links_max
        self._turn = trio.Lock()

    async def totals(self, request: Request) -> PiecesOfText:
        """Answer ``/metrics``: the metrics of the whole broker, without those of single links."""
        _check_keys(request, known=())
        return await self._text(self._collect)

    async def links(self, request: Request) -> PiecesOfText:
        """Answer ``/metrics/links?address=&limit=``: metrics of single links, too many for Prometheus to store."""
        _check_keys(request, known=("address", "limit"))
        address = request.query_params.get("address")
        if address is not None and not 0 < len(address) <= ADDRESS_LENGTH_MAX:
            raise HTTPException(400, f"address must have 1 to {ADDRESS_LENGTH_MAX} characters")
        limit = self._limit(request.query_params.get("limit"))
        return await self._text(lambda: self._collect_links(address, limit))

    def _limit(self, text: str | None) -> int:
        if text is None:
            return self._links_max
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= self._links_max):
            raise HTTPException(400, f"limit must be a number from 1 to {self._links_max}")
        return int(text)

    async def _text(self, collect: Collector) -> PiecesOfText:
        async with self._turn:
            return PiecesOfText(await exposition(collect), content_type=CONTENT_TYPE)


def _check_keys(request: Request, *, known: tuple[str, ...]) -> None:
    keys = [key for key, _ in request.query_params.multi_items()]
    for key in keys:
        if key not in known:
            raise HTTPException(
                400, f"there is no parameter {key[:64]!r} here; there are: {', '.join(known) or 'none'}"
            )
        if keys.count(key) > 1:
            raise HTTPException(400, f"{key} is given more than once")


_ERRORS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed"}


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    reason = error.detail
    if error.status_code == 404:
        reason = "there is no such path"
    elif error.status_code == 405:
        reason = f"{request.method} is not possible here"
    return problem(error.status_code, _ERRORS.get(error.status_code, "refused"), reason, error.headers)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """Answer 500. Starlette raises the error again after the answer was sent, and the guard logs it."""
    return problem(500, "internal-error", "the broker failed to answer; its log has the details")
