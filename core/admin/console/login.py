"""Logging in to the console: who is logged in, a login that begins a console session, and a logout that ends it.

The guard has checked the host and the origin of a request, and what a write needs.
"""

import json
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope
from structlog.typing import FilteringBoundLogger

from core.access.rights import OPERATOR_TAGS, Rights, all_rights
from core.admin.answers import HEADERS, problem
from core.admin.callers import CALLER, Caller, Callers, address_of, cookie, peer_of
from core.admin.console.sessions import ConsoleSession
from core.admin.signing_in import TOKEN_NAME, ProvenUser
from core.config.address import is_loopback

LOGIN_PATH = "/console/login"
CHALLENGE = {"www-authenticate": "Cookie"}
"""What a browser is told with 401. After ``Basic`` it would ask for a password by itself."""
FORMS: tuple[frozenset[str], ...] = (frozenset(("user", "password")), frozenset(("token",)), frozenset(("link",)))
"""The fields that a login may have."""


class ConsoleLogin:
    """The request handlers of :data:`LOGIN_PATH`."""

    def __init__(
        self, callers: Callers, permitted: Callable[[Rights], Sequence[str]], log: FilteringBoundLogger
    ) -> None:
        """``permitted`` returns the names of the operations of the HTTP API that rights permit."""
        self._callers = callers
        self._permitted = permitted
        self._log = log

    def routes(self) -> Sequence[Route]:
        """Return the routes of the handlers."""
        handlers = {"GET": self.show, "POST": self.begin, "DELETE": self.end}
        return [Route(LOGIN_PATH, handler, methods=[method]) for method, handler in handlers.items()]

    async def show(self, request: Request) -> Response:
        """Answer who is logged in; ``user`` is null if a login is needed."""
        caller: Caller | None = request.scope[CALLER]
        if caller is None:
            sign_in = self._callers.sign_in
            takes_oauth2 = sign_in is not None and sign_in.takes_tokens
            takes_token = self._callers.tokens.own is not None
            facts = {"user": None, "takes_token": takes_token, "takes_oauth2": takes_oauth2}
            return JSONResponse(facts, headers={**HEADERS, **cookie(request.scope, "")})
        return JSONResponse(self._facts(caller), headers=HEADERS)

    async def begin(self, request: Request) -> Response:
        """Begin a console session for a user or a token. One that the request names already ends."""
        given = await _fields(request, self._callers.login_bytes_max)
        if isinstance(given, Response):
            return given
        begun = await self._begun(given, request.scope)
        if isinstance(begun, Response):
            return begun
        before: Caller | None = request.scope[CALLER]
        if before is not None and before.session is not None:
            self._callers.sessions.end(before.session)
        name_of_session, session = begun
        self._log.info("console-login", user=session.rights.user, peer=peer_of(request.scope))
        facts = self._facts(Caller(session.rights, "console", session))
        return JSONResponse(facts, headers={**HEADERS, **cookie(request.scope, name_of_session)})

    async def end(self, request: Request) -> Response:
        """End the console session of a request."""
        caller: Caller | None = request.scope[CALLER]
        if caller is not None and caller.session is not None:
            self._callers.sessions.end(caller.session)
            self._log.info("console-logout", user=caller.rights.user, peer=peer_of(request.scope))
        return Response(status_code=204, headers={**HEADERS, **cookie(request.scope, "")})

    async def _begun(self, given: dict[str, str], scope: Scope) -> tuple[str, ConsoleSession] | Response:
        """Begin a console session with what the client has given."""
        if (link := given.get("link")) is not None:
            return self._begin_with_link(link, scope)
        token = given.get("token")
        shown = given["password"] if token is None else token
        with_oauth2 = await self._begin_with_oauth2(given.get("user"), shown, scope)
        if with_oauth2 is not None:
            return with_oauth2
        if token is not None:
            return self._begin_with_token(token, scope)
        return await self._begin_with_password(given["user"], given["password"], scope)

    def _begin_with_link(self, secret: str, scope: Scope) -> tuple[str, ConsoleSession] | Response:
        """Begin a console session with the login link: from this machine only, once, and with all rights, which the
        person at the terminal has by starting the broker. A wrong link counts as a wrong token."""
        (host, port), sign_in, link = address_of(scope), self._callers.sign_in, self._callers.login_link
        if sign_in is not None and sign_in.puts_off(host):
            return _put_off()
        if link is None or not is_loopback(host) or not link.take(secret):
            if sign_in is not None:
                sign_in.token_failed(host, port)
            self._log.warning("admin-token-wrong", peer=peer_of(scope), given=True)
            return problem(401, "unauthorized", "the login link is wrong, was used before, or is too old", CHALLENGE)
        return self._callers.sessions.begin(all_rights(TOKEN_NAME), is_user=False)

    async def _begin_with_oauth2(
        self, name: str | None, given: str, scope: Scope
    ) -> tuple[str, ConsoleSession] | Response | None:
        """Begin a console session with a token of OAuth 2, which ends with the token; None for what can be none. The
        broker's own tokens are compared first, as for a request with Authorization."""
        sign_in, tokens = self._callers.sign_in, self._callers.tokens
        if sign_in is None or (name is None and tokens.rights_of(given.encode()) is not None):
            return None
        host, port = address_of(scope)
        rights = await sign_in.rights_for_console(name, given, host=host, port=port)
        if rights == "none":
            return None
        if rights == "refused":
            return problem(401, "unauthorized", "the token of OAuth 2 was not accepted; the log says why", CHALLENGE)
        if not rights.operates:
            return _without_tags(f"the token of user '{rights.user}'")

        def holds() -> bool:
            rights.tick(self._callers.clock())
            return not rights.expired

        return self._callers.sessions.begin(rights, is_user=True, holds=holds)

    def _begin_with_token(self, token: str, scope: Scope) -> tuple[str, ConsoleSession] | Response:
        sign_in, (host, port) = self._callers.sign_in, address_of(scope)
        if sign_in is not None and sign_in.puts_off(host):
            return _put_off()
        rights = self._callers.tokens.rights_of(token.encode())
        if rights is None:
            if sign_in is not None:
                sign_in.token_failed(host, port)
            self._log.warning("admin-token-wrong", peer=peer_of(scope), given=True)
            return problem(401, "unauthorized", "the token was not accepted", CHALLENGE)
        return self._callers.sessions.begin(rights, is_user=False)

    async def _begin_with_password(
        self, name: str, password: str, scope: Scope
    ) -> tuple[str, ConsoleSession] | Response:
        sign_in = self._callers.sign_in
        host, port = address_of(scope)
        proven = "failure" if sign_in is None else await sign_in.prove(name, password, host=host, port=port)
        if proven == "later":
            return _put_off()
        if sign_in is None or not isinstance(proven, ProvenUser):
            return problem(401, "unauthorized", "the name or the password is wrong", CHALLENGE)
        if not proven.rights.operates:
            return _without_tags(f"user '{name}'")
        return self._callers.sessions.begin(proven.rights, is_user=True, holds=lambda: sign_in.holds(proven))

    def _facts(self, caller: Caller) -> dict[str, object]:
        rights, session = caller.rights, caller.session
        return {
            "user": rights.user,
            "tags": sorted(rights.tags),
            "way": caller.way,
            "operations": self._permitted(rights),
            "csrf_token": None if session is None else session.csrf_token,
        }


def _without_tags(who: str) -> Response:
    return problem(403, "forbidden", f"{who} has none of the tags {', '.join(sorted(OPERATOR_TAGS))}")


async def _fields(request: Request, bytes_max: int) -> dict[str, str] | Response:
    """Read the fields of a login."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "not-json", "the Content-Type of a body must be application/json")
    content = bytearray()
    more = True
    while more:
        message = await request.receive()
        content += message.get("body", b"")
        if len(content) > bytes_max:
            return problem(413, "body-too-large", f"a body may have {bytes_max} bytes: it is a login")
        more = message.get("more_body", False)
    try:
        given = json.loads(content)
        json.dumps(given, ensure_ascii=False).encode()  # fails for half a character
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.keys() not in FORMS or not all(isinstance(v, str) for v in given.values()):
        return problem(
            400, "bad-request", "a login is a map with the texts user and password, or with the text token or link"
        )
    return given


def _put_off() -> Response:
    return problem(429, "too-many-logins", "too many logins have failed, or are being checked; try again later")
