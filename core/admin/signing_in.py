"""Signing in to the admin server with the name and the password of a user, by HTTP's Basic scheme [RFC 7617], or with a
token of OAuth 2, by Bearer [RFC 6750] or as the password.

A request is checked as a login with PLAIN is: the same limits on attempts, the same threads, and the same cache of
passwords that were right a moment ago, so that the requests of one client cost one hash in all.
"""

from base64 import b64decode
from binascii import Error as NotBase64

import trio

from core.access.exchange import WAIT
from core.access.login import Access, LoginPeer, PasswordCheck
from core.access.rights import Rights
from core.access.token_login import TokenCheck, credentials_check, is_token
from core.config.address import is_loopback

MECHANISM, BEARER_MECHANISM = "HTTP-BASIC", "HTTP-BEARER"
"""The mechanisms of such logins in the log."""
CREDENTIAL_BYTES_MAX = 1024


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

    async def rights(self, authorization: str, *, host: str) -> Rights | None:
        """Return the rights of the user in an Authorization field; None if name, password or token are wrong, or the
        login was put off."""
        is_bearer = authorization.lower().startswith("bearer ")
        credentials = ("", authorization.partition(" ")[2].strip()) if is_bearer else self._credentials(authorization)
        if credentials is None:
            return None
        name, password = credentials
        woken = trio.Event()
        peer = LoginPeer(host, bool(host) and is_loopback(host), lambda: woken.set())
        if is_bearer:
            check: TokenCheck | PasswordCheck = TokenCheck(self._access, peer, BEARER_MECHANISM, password)
        else:
            check = credentials_check(self._access, peer, MECHANISM, name, password)
        check.start()
        while check.reply is WAIT:
            await woken.wait()
            woken = trio.Event()
        return self._access.rights_of(peer, name) if check.reply[0] == "success" else None

    def _credentials(self, authorization: str) -> tuple[str, str] | None:
        """Name and password of Basic. The head of a request, whose size is limited, has them."""
        given = authorization.partition(" ")[2].strip()
        try:
            name, colon, password = b64decode(given, validate=True).decode().partition(":")
        except (NotBase64, ValueError):
            return None
        if not colon or not name:
            return None
        fits = len(given) <= 2 * CREDENTIAL_BYTES_MAX or is_token(self._access, name, password)
        return (name, password) if fits else None
