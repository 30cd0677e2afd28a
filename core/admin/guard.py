"""The checks that every request must pass before a handler gets it, and the answer 500 after an unexpected exception.

The admin server is for programs and people on this machine, and a browser on this machine also runs pages of other
sites. Such a page can send requests to a loopback port. It can also make a host name of its own resolve to 127.0.0.1
and then read the answers (DNS rebinding). So the Host field must name this server, and a request that comes from a page
of another site is refused. Answers have no CORS fields.

A client shows a token, or name and password of a user, whose rights it then has. A write needs one of these; if no
token is configured, it needs a header field that no form and no link can send.
"""

import hmac
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from core.access.rights import MONITORING, Rights, all_rights
from core.admin.answers import problem
from core.admin.signing_in import SignIn
from core.config.address import is_loopback
from core.operations.operation import Right, permits

API_PREFIX = "/api/"
"""The only paths on which requests may write and may have bodies."""
RIGHTS = "headgate.rights"
"""The key of the scope under which the guard tells the application the rights of the client."""
METRICS_PREFIX = "/metrics"
TOKEN_NAME, READ_TOKEN_NAME = "administrator", "monitoring"
"""The names of clients that show a token, or need none: those of the tags that they have."""
WRITE_HEADER = "x-headgate-request"
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
        token: bytes | None,
        read_token: bytes | None,
        sign_in: SignIn | None,
        users_only: bool,
        hosts: AbstractSet[str],
        open_paths: AbstractSet[str],
        body_max: int,
        log: FilteringBoundLogger,
    ) -> None:
        """``hosts``: names that Host may have, besides loopback names and the address that the client connected to.
        ``open_paths``: paths that need no token. ``sign_in`` finds the rights of a user; None where there are none.
        With ``users_only``, a client without token and user is refused even if no token is configured."""
        self._app = app
        self._token = token
        self._read_token = read_token
        self._sign_in = sign_in
        self._users_only = users_only
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

    async def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host, scope):
            return problem(421, "wrong-host", "the Host field names another server; see admin.hosts")
        if _is_cross_site(headers, host):
            return problem(403, "cross-site", "requests from pages of other sites are refused")
        if scope["path"] in self._open_paths:
            return self._refused_body(scope, headers)
        authorization = headers.get("authorization", "")
        rights = self._rights_of_token(_given_token(authorization))
        is_user = rights is None and self._sign_in is not None and authorization.lower().startswith("basic ")
        if is_user:
            assert self._sign_in is not None
            host, port = scope.get("client") or ("", 0)
            rights = await self._sign_in.rights(authorization, host=host, port=port)
        elif rights is None and self._token is None and not self._users_only:
            rights = all_rights(TOKEN_NAME)
        if rights is None:
            if authorization and not is_user and self._sign_in is not None:
                self._sign_in.tell_wrong_token(*(scope.get("client") or ("", 0)))
            return self._unauthorized(scope, given=bool(authorization))
        scope[RIGHTS] = rights
        if scope["path"].startswith(METRICS_PREFIX) and not permits(rights, Right.MONITOR):
            return problem(403, "forbidden", f"metrics need the tag {MONITORING} or administrator")
        may_write = is_user or rights.user == TOKEN_NAME
        return self._refused_write(scope, headers, may_write=may_write, is_user=is_user) or self._refused_body(
            scope, headers
        )

    def _unauthorized(self, scope: Scope, *, given: bool) -> JSONResponse:
        self._log.warning("admin-token-wrong", peer=_peer(scope), given=given)
        if self._token is None:
            reason = "the Authorization field must be Basic, with the name and the password of a user"
            return problem(401, "unauthorized", reason, {"www-authenticate": 'Basic realm="Headgate"'})
        reason = "the Authorization field must be Bearer and the token in admin.token_file"
        return problem(401, "unauthorized", reason, {"www-authenticate": "Bearer"})

    def _refused_write(self, scope: Scope, headers: Headers, *, may_write: bool, is_user: bool) -> JSONResponse | None:
        if not is_write(scope["method"]) or not scope["path"].startswith(API_PREFIX):
            return None
        if not may_write:
            return problem(403, "forbidden", "this token may read, and change nothing")
        if self._token is None and not is_user and WRITE_HEADER not in headers:
            return problem(
                403, "forbidden", "without a token, a request that changes something needs X-Headgate-Request: 1"
            )
        return None

    def _refused_body(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Check the announced length of a body. A body that is sent in chunks is counted while it is read."""
        length = headers.get("content-length", "0")
        if is_write(scope["method"]) and scope["path"].startswith(API_PREFIX):
            if (
                not length.isascii()
                or not length.isdigit()
                or len(length) > LENGTH_DIGITS_MAX
                or int(length) > self._body_max
            ):
                return problem(413, "body-too-large", f"a body may have {self._body_max} bytes: admin.body_max")
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

    def _rights_of_token(self, given: bytes) -> Rights | None:
        """Return the rights that a token gives; None if it is none of the tokens."""
        if self._token is not None and hmac.compare_digest(given, self._token):
            return all_rights(TOKEN_NAME)
        if self._read_token is not None and hmac.compare_digest(given, self._read_token):
            return all_rights(READ_TOKEN_NAME, (MONITORING,))
        return None


def _given_token(authorization: str) -> bytes:
    """Return the token of Bearer, or the password of Basic; empty for anything else. RabbitMQ's tools can send only
    Basic."""
    scheme, _, given = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return given.strip().encode("latin-1")
        case "basic":
            try:
                return b64decode(given.strip(), validate=True).partition(b":")[2]
            except (NotBase64, ValueError):
                return b""
    return b""


def _is_cross_site(headers: Headers, host: str) -> bool:
    """Return whether a browser sent the request for a page of another site. A browser says so by Origin; if it sends no
    Origin, by Sec-Fetch-Site."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2] != host
    return headers.get("sec-fetch-site") == "cross-site"


def _peer(scope: Scope) -> str:
    host, port = scope.get("client") or ("", 0)
    return f"{host}:{port}"
