"""Who sends a request to the admin server, and with which rights.

A script shows a token, or name and password of a user, with each request. A browser shows the cookie of a console
session. If no token is configured and ``admin.users_only`` is not set, a request with none of these may do everything:
it comes from this machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers
from starlette.types import Scope

from core.access.rights import Rights, all_rights
from core.admin.console.login_link import LoginLink
from core.admin.console.sessions import ConsoleSession, ConsoleSessions
from core.admin.signing_in import LOGIN_BYTES_MAX, TOKEN_NAME, AdminTokens, SignIn, given_token
from core.clock import Now
from core.operations.operation import Right, permits

CALLER = "headgate.caller"
"""The key of the scope under which the guard tells the application who sent a request; None if nothing shows it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    rights: Rights
    way: Literal["token", "user", "console", "open"]
    """What shows the rights: a token, name and password, a console session; or no login is needed."""
    session: ConsoleSession | None = None

    @property
    def may_write(self) -> bool:
        """Whether writes are refused at once; the rights decide about those that are not."""
        is_user = self.way == "user" or (self.session is not None and self.session.is_user)
        return is_user or self.rights.user == TOKEN_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Finds who sent a request."""

    tokens: AdminTokens
    sign_in: SignIn | None
    """Finds the rights of a user; None where there are none."""
    sessions: ConsoleSessions
    clock: Callable[[], Now]
    users_only: bool
    """Whether a request that shows nothing is refused even if no token is configured."""
    login_link: LoginLink | None = None
    """What logs in once, with the link that the start of the broker has shown; None where there is none."""

    async def caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return who sent a request; None if it shows something wrong, or nothing where a login is needed."""
        authorization = headers.get("authorization", "")
        rights = self.tokens.rights_of(given_token(authorization))
        if rights is not None:
            return Caller(rights, "token")
        if self.sign_in is not None and self.sign_in.takes(authorization):
            host, port = address_of(scope)
            rights = await self.sign_in.rights(authorization, host=host, port=port)
            return None if rights is None else Caller(rights, "user")
        if not authorization and (secret := secret_in_cookie(scope, headers)) is not None:
            session = self.sessions.find(secret)
            return None if session is None else Caller(session.rights, "console", session)
        if self.tokens.own is None and not self.users_only:
            return Caller(all_rights(TOKEN_NAME), "open")
        if authorization and self.sign_in is not None:
            self.sign_in.tell_wrong_token(*address_of(scope))
        return None

    @property
    def login_bytes_max(self) -> int:
        """The most bytes of the body of a login with a browser."""
        return LOGIN_BYTES_MAX if self.sign_in is None else self.sign_in.login_bytes_max

    def may_watch(self, caller: Caller) -> bool:
        """Whether a client may get the next event of the live stream. A token of OAuth 2 may have expired meanwhile."""
        caller.rights.tick(self.clock())
        lasts = caller.session is None or self.sessions.lasts(caller.session)
        return lasts and permits(caller.rights, Right.MONITOR)


def address_of(scope: Scope) -> tuple[str, int]:
    """The host and the port of the client."""
    host, port = scope.get("client") or ("", 0)
    return host, port


def peer_of(scope: Scope) -> str:
    """The client's host and port as the log writes them."""
    host, port = address_of(scope)
    return f"{host}:{port}"


def cookie_name(scope: Scope) -> str:
    """The name of the cookie: with the port, because browsers send a cookie to all ports of a host; and with TLS with
    the prefix by which a browser takes it from this host alone."""
    port = (scope.get("server") or ("", 0))[1]
    return f"{'__Host-' if scope['scheme'] == 'https' else ''}headgate-{port}"


def secret_in_cookie(scope: Scope, headers: Headers) -> str | None:
    """Return what the cookie has; None without the cookie, and "" if there are two: one of them is not ours."""
    pairs = [pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
    found = [value for name, _, value in pairs if name == cookie_name(scope)]
    return None if not found else found[0] if len(found) == 1 else ""


def cookie(scope: Scope, secret: str) -> dict[str, str]:
    """Return the header field that gives a browser the cookie, or with an empty secret takes it away."""
    lasting = "" if secret else "; Max-Age=0"
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return {"set-cookie": f"{cookie_name(scope)}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{lasting}"}
