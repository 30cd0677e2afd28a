"""What every request must pass before anybody looks at what it wants, and what becomes of a fault of ours.

The admin server is for programs and for people at this machine, and a browser at this machine runs pages of strangers.
Such a page may send requests to a loopback port, or make a name of its own mean 127.0.0.1 and then read the answers
(DNS rebinding). So Host must be a name that is ours, and a request that says it comes from elsewhere is refused. There
are no CORS fields.
"""

import hmac
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from core.admin.answers import problem
from core.config.address import is_loopback


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: bytes | None,
        hosts: AbstractSet[str],
        open_paths: AbstractSet[str],
        log: FilteringBoundLogger,
    ) -> None:
        """``hosts`` may be named besides loopback names and the address that was dialled, ``open_paths`` need no
        token."""
        self._app = app
        self._token = token
        self._hosts = {host.lower() for host in hosts}
        self._open_paths = open_paths
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # answered 403, since it was not accepted
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        begun = False

        async def notice(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, notice)
        except Exception as error:
            self._log.error("admin-request-failed", peer=_peer(scope), path=scope["path"], exc_info=error)
            if not begun:
                fault = problem(500, "internal-error", "the broker failed to answer; its log has the details")
                await fault(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host, scope):
            return problem(421, "wrong-host", "the Host field names somebody else; see admin.hosts")
        if _is_cross_site(headers, host):
            return problem(403, "cross-site", "requests from pages of other sites are refused")
        if scope["path"] not in self._open_paths and not self._knows_token(headers):
            self._log.warning("admin-token-wrong", peer=_peer(scope), given="authorization" in headers)
            reason = "the Authorization field must be Bearer and the token in admin.token_file"
            return problem(401, "unauthorized", reason, {"www-authenticate": "Bearer"})
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return problem(413, "body-too-large", "requests have no body here")
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        dialled = (scope.get("server") or ("",))[0]
        return name is not None and (is_loopback(name) or name in self._hosts or name == dialled)

    def _knows_token(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return hmac.compare_digest(given.strip().encode("latin-1"), self._token) and scheme.lower() == "bearer"


def _is_cross_site(headers: Headers, host: str) -> bool:
    """Whether a browser says so: by Origin, or where it sends none by Sec-Fetch-Site."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2] != host
    return headers.get("sec-fetch-site") == "cross-site"


def _peer(scope: Scope) -> str:
    host, port = scope.get("client") or ("", 0)
    return f"{host}:{port}"
