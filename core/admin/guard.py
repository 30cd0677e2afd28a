"""The checks that every request must pass before a handler gets it, and the answer 500 after an unexpected exception.

The admin server is for programs and people on this machine, and a browser on this machine also runs pages of other
sites. Such a page can send requests to a loopback port. It can also make a host name of its own resolve to 127.0.0.1
and then read the answers (DNS rebinding). So the Host field must name this server, and a request that comes from a page
of another site is refused. Answers have no CORS fields.

A client shows who it is as :mod:`core.admin.callers` says. A write needs that; if no token is configured, it needs a
header field that no form and no link can send. A browser sends its cookie by itself, so a write with the cookie also
needs the origin of this server, and a text that only pages of this server can read.
"""

import hmac
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

import trio
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from core.access.rights import MONITORING
from core.admin.answers import problem
from core.admin.api.live import MEDIA_TYPE
from core.admin.callers import CALLER, Caller, Callers, address_of, cookie, peer_of, secret_in_cookie
from core.admin.console.login import CHALLENGE, LOGIN_PATH
from core.config.address import is_loopback
from core.operations.operation import Right, permits

API_PREFIX = "/api/"
"""The paths on which requests may write and may have bodies, beside the login."""
RIGHTS = "headgate.rights"
"""The key of the scope under which the guard tells the application the rights of the client."""
METRICS_PREFIX = "/metrics"
WRITE_HEADER = "x-headgate-request"
CSRF_HEADER = "x-headgate-csrf"
LENGTH_DIGITS_MAX = 15
"""The most digits of a Content-Length; no real request needs more."""


def is_write(method: str) -> bool:
    """Whether a request with this method may change something."""
    return method not in ("GET", "HEAD")


class Guard:
    """An ASGI application that checks requests and passes them to another application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: Callers,
        hosts: AbstractSet[str],
        open_paths: AbstractSet[str],
        body_max: int,
        log: FilteringBoundLogger,
    ) -> None:
        """``hosts``: names that Host may have, besides loopback names and the address that the client connected to.
        ``open_paths``: paths that need no login."""
        self._app = app
        self._callers = callers
        self._body_max = body_max
        self._hosts = {host.lower() for host in hosts}
        self._open_paths = open_paths
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, and pass it on or refuse it."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # answered 403, since it was not accepted
            return
        refusal = await self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        begun = is_stream = False
        stream = trio.CancelScope()

        async def notice(message: Message) -> None:
            nonlocal begun, is_stream
            begun = True
            if message["type"] == "http.response.start":
                is_stream = (b"content-type", MEDIA_TYPE.encode()) in message["headers"]
            elif is_stream and not self._callers.may_watch(scope[CALLER]):
                stream.cancel()
                await trio.lowlevel.checkpoint()
            await send(message)

        try:
            with stream:
                await self._app(scope, receive, notice)
        except Exception as error:
            self._log.error("admin-request-failed", peer=peer_of(scope), path=scope["path"], exc_info=error)
            if not begun:
                fault = problem(500, "internal-error", "the broker failed to answer; its log has the details")
                await fault(scope, receive, send)
        if stream.cancelled_caught:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host, scope):
            return problem(421, "wrong-host", "the Host field names another server; see admin.hosts")
        if _is_cross_site(headers, host):
            return problem(403, "cross-site", "requests from pages of other sites are refused")
        if scope["path"] in self._open_paths:
            return self._refused_body(scope, headers)
        caller = scope[CALLER] = await self._callers.caller(scope, headers)
        if caller is None and scope["path"] != LOGIN_PATH:
            return self._unauthorized(scope, headers)
        if caller is not None:
            scope[RIGHTS] = caller.rights
            if scope["path"].startswith(METRICS_PREFIX) and not permits(caller.rights, Right.MONITOR):
                return self._forbidden(scope, caller, f"metrics need the tag {MONITORING} or administrator")
        return self._refused_write(scope, headers, caller) or self._refused_body(scope, headers)

    def _unauthorized(self, scope: Scope, headers: Headers) -> JSONResponse:
        authorization = headers.get("authorization", "")
        self._log.warning("admin-token-wrong", peer=peer_of(scope), given=bool(authorization))
        if not authorization and (CSRF_HEADER in headers or secret_in_cookie(scope, headers) is not None):
            reason = "the login has ended; log in again"
            return problem(401, "unauthorized", reason, {**CHALLENGE, **cookie(scope, "")})
        if self._callers.tokens.own is None:
            reason = "the Authorization field must be Basic, with the name and the password of a user"
            return problem(401, "unauthorized", reason, {"www-authenticate": 'Basic realm="Headgate"'})
        reason = "the Authorization field must be Bearer and the token in admin.token_file"
        return problem(401, "unauthorized", reason, {"www-authenticate": "Bearer"})

    def _forbidden(self, scope: Scope, caller: Caller, reason: str) -> JSONResponse:
        """Refuse what the rights of the client forbid, and have it recorded. The query may have a secret."""
        if (sign_in := self._callers.sign_in) is not None:
            host, port = address_of(scope)
            act = f"{scope['method']} {scope['raw_path'].decode('latin-1')}"
            sign_in.tell_refused(caller.rights, act, reason, host=host, port=port)
        return problem(403, "forbidden", reason)

    def _refused_write(self, scope: Scope, headers: Headers, caller: Caller | None) -> JSONResponse | None:
        if not _may_have_body(scope):
            return None
        is_login = scope["path"] == LOGIN_PATH
        if not is_login and caller is not None and not caller.may_write:
            return self._forbidden(scope, caller, "this token may read, and change nothing")
        if caller is not None and caller.session is not None and not (is_login and scope["method"] == "POST"):
            if not _is_own_page(scope, headers):
                return problem(403, "cross-site", "a write with a cookie needs the Origin field of this server")
            if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), caller.session.csrf_token.encode()):
                return problem(403, "forbidden", "a write with a cookie needs X-Headgate-CSRF: csrf_token of the login")
        elif (is_login or (caller is not None and caller.way == "open")) and WRITE_HEADER not in headers:
            return problem(
                403, "forbidden", "without a token, a request that changes something needs X-Headgate-Request: 1"
            )
        return None

    def _refused_body(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Check the announced length of a body. A body that is sent in chunks is counted while it is read."""
        length = headers.get("content-length", "0")
        if _may_have_body(scope):
            is_login = scope["path"] == LOGIN_PATH
            bound, named = self._body_max, "admin.body_max"
            if is_login:
                bound, named = self._callers.login_bytes_max, "it is a login"
            if not length.isascii() or not length.isdigit() or len(length) > LENGTH_DIGITS_MAX or int(length) > bound:
                return problem(413, "body-too-large", f"a body may have {bound} bytes: {named}")
        elif "transfer-encoding" in headers or length != "0":
            return problem(413, "body-too-large", "requests have no body here")
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        dialled = (scope.get("server") or ("",))[0]
        return name is not None and (is_loopback(name) or name in self._hosts or name == dialled)


def _may_have_body(scope: Scope) -> bool:
    return is_write(scope["method"]) and (scope["path"].startswith(API_PREFIX) or scope["path"] == LOGIN_PATH)


def _is_cross_site(headers: Headers, host: str) -> bool:
    """Return whether a browser sent the request for a page of another site. A browser says so by Origin; if it sends no
    Origin, by Sec-Fetch-Site."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2] != host
    return headers.get("sec-fetch-site") == "cross-site"


def _is_own_page(scope: Scope, headers: Headers) -> bool:
    """Return whether a browser sent the request for a page of this server. Before the admin server there may be another
    one with TLS, so without TLS the scheme does not count."""
    scheme, _, host = headers.get("origin", "").partition("://")
    return host == headers.get("host") and (scheme == "https" or scope["scheme"] == "http")
