"""Signing in to the admin server: with the name and the password of a user, or with a token.

A password is checked as a login with PLAIN is: the same limits on attempts, the same threads, and the same cache of
passwords that were right a moment ago, so that the requests of one client cost one hash in all. A script sends it with
each request, by HTTP's Basic scheme [RFC 7617]; a browser sends it once, for a console session.
"""

import hmac
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import trio

from core.access.exchange import WAIT
from core.access.login import Access, LoginPeer, PasswordCheck
from core.access.rights import MONITORING, VIRTUAL_HOST, Rights, all_rights
from core.access.token_login import TokenCheck
from core.access.users import StoredPassword
from core.config.address import is_loopback

MECHANISM, BEARER_MECHANISM, CONSOLE_MECHANISM = "HTTP-BASIC", "HTTP-BEARER", "CONSOLE"
"""The mechanisms of such logins in the log."""
CREDENTIAL_BYTES_MAX = 1024
LOGIN_BYTES_MAX = 4096
"""The most bytes of a login with a browser without a token of OAuth 2: a name of 255 and a password of 512 characters,
with four bytes for each, take 3 KiB."""
TOKEN_NAME, READ_TOKEN_NAME = "administrator", "monitoring"
"""The names of clients that show a token, or need none: those of the tags that they have."""

Refused = Literal["failure", "later"]
"""Why a user is not signed in: the name or the password is wrong; or too many logins have failed, or wait."""


@dataclass(frozen=True, slots=True)
class ProvenUser:
    """A user whose password was right, and what was so at that moment."""

    rights: Rights
    tags: AbstractSet[str]
    credentials: StoredPassword
    loopback: bool


class SignIn:
    """Finds the rights of a client that shows name and password, or a token."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def takes(self, authorization: str) -> bool:
        """Whether an Authorization field shows a user, or what can be a token of OAuth 2."""
        scheme, _, given = authorization.partition(" ")
        return scheme.lower() == "basic" or (scheme.lower() == "bearer" and self._is_token(given.strip()))

    def _is_token(self, given: str) -> bool:
        tokens = self._access.tokens
        return tokens is not None and tokens.takes(tokens.settings.user_name, given)

    async def rights(self, authorization: str, *, host: str, port: int = 0) -> Rights | None:
        """Return the rights of the user in an Authorization field; None if name, password or token are wrong, or the
        login was put off."""
        if authorization.lower().startswith("bearer "):
            return await self._rights_of_token(authorization.partition(" ")[2].strip(), BEARER_MECHANISM, host, port)
        credentials = self._credentials(authorization)
        if credentials is None:
            return None
        if self._access.is_token(*credentials):
            return await self._rights_of_token(credentials[1], MECHANISM, host, port)
        found = await self.prove(*credentials, host=host, port=port, asks_often=True)
        return found.rights if isinstance(found, ProvenUser) else None

    @property
    def takes_tokens(self) -> bool:
        """Whether tokens of OAuth 2 are accepted."""
        tokens = self._access.tokens
        return tokens is not None and tokens.settings.configured

    @property
    def login_bytes_max(self) -> int:
        """The most bytes of the body of a login with a browser."""
        return self._access.largest_login(LOGIN_BYTES_MAX)

    async def rights_for_console(
        self, name: str | None, given: str, *, host: str, port: int
    ) -> Rights | Literal["refused", "none"]:
        """Return the rights of a token of OAuth 2 that a person has typed, with a name or without one; ``none`` if the
        text can be no such token."""
        token = given.strip()
        can_be = self._is_token(token) if name is None else self._access.is_token(name, token)
        if not can_be:
            return "none"
        return await self._rights_of_token(token, CONSOLE_MECHANISM, host, port, asks_often=False) or "refused"

    async def prove(
        self, name: str, password: str, *, host: str, port: int = 0, asks_often: bool = False
    ) -> ProvenUser | Refused:
        """Check the password of a user of a client at this address. ``asks_often``: see :class:`LoginPeer`."""
        users, loopback = self._access.users, bool(host) and is_loopback(host)
        woken = trio.Event()
        compared: list[StoredPassword] = []

        def wake() -> None:
            compared[:] = [users.credentials(name, loopback=loopback)]  # before any other task may change the password
            woken.set()

        audit = self._access.audited("http", host, port)
        peer = LoginPeer(host, loopback, wake, audit=audit, asks_often=asks_often)
        check = PasswordCheck(self._access, peer, MECHANISM, name, password)
        check.start()
        while check.reply is WAIT:
            await woken.wait()
            woken = trio.Event()
        if check.reply[0] != "success":
            return "later" if check.reply[0] == "later" else "failure"
        rights = users.rights_of(name)
        credentials = compared[0] if compared else users.credentials(name, loopback=loopback)
        return ProvenUser(rights, rights.tags, credentials, loopback)

    async def _rights_of_token(
        self, token: str, mechanism: str, host: str, port: int, *, asks_often: bool = True
    ) -> Rights | None:
        woken = trio.Event()
        audit = self._access.audited("http", host, port)
        loopback = bool(host) and is_loopback(host)
        peer = LoginPeer(host, loopback, lambda: woken.set(), audit=audit, asks_often=asks_often)
        check = TokenCheck(self._access, peer, mechanism, token)
        check.start()
        while check.reply is WAIT:
            await woken.wait()
            woken = trio.Event()
        return None if peer.token_rights is None else peer.token_rights(VIRTUAL_HOST)

    def holds(self, user: ProvenUser) -> bool:
        """Whether the user may still log in with the same password, and has all tags that it had."""
        name = user.rights.user
        return (
            user.tags <= user.rights.tags
            and self._access.users.credentials(name, loopback=user.loopback) == user.credentials
        )

    def puts_off(self, host: str) -> bool:
        """Whether too many logins from this host have failed to try a token."""
        return self._access.attempts.limit_reached("", host) is not None

    def token_failed(self, host: str, port: int) -> None:
        """Count and record a login with a wrong token."""
        self._access.attempts.failed("", host)
        self.tell_wrong_token(host, port)

    def tell_wrong_token(self, host: str, port: int) -> None:
        """Have the audit log record a request with a token that is none of the tokens."""
        audit = self._access.audited("http", host, port)
        if audit is not None:
            audit.record("logins", "login", "refused", "", {"mechanism": "token", "reason": "wrong token"})

    def tell_refused(self, rights: Rights, act: str, reason: str, *, host: str, port: int) -> None:
        """Have the audit log record a request that the rights of its sender forbid, as ``PUT /api/…``."""
        audit = self._access.audited("http", host, port)
        if audit is not None:
            audit.record("refusals", act, "refused", rights.user, {"reason": reason})

    def _credentials(self, authorization: str) -> tuple[str, str] | None:
        """Name and password of Basic. The head of a request, whose size is limited, has them."""
        given = authorization.partition(" ")[2].strip()
        try:
            name, colon, password = b64decode(given, validate=True).decode().partition(":")
        except (NotBase64, ValueError):
            return None
        if not colon or not name:
            return None
        fits = len(given) <= 2 * CREDENTIAL_BYTES_MAX or self._access.is_token(name, password)
        return (name, password) if fits else None


@dataclass(frozen=True, slots=True)
class AdminTokens:
    """The tokens of the configuration."""

    own: bytes | None = None
    """It gives all rights."""
    read: bytes | None = None
    """It gives the tag ``monitoring``."""

    def rights_of(self, given: bytes) -> Rights | None:
        """Return the rights that a token gives; None if it is none of the tokens."""
        if self.own is not None and hmac.compare_digest(given, self.own):
            return all_rights(TOKEN_NAME)
        if self.read is not None and hmac.compare_digest(given, self.read):
            return all_rights(READ_TOKEN_NAME, (MONITORING,))
        return None


def given_token(authorization: str) -> bytes:
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
