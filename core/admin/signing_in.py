"""Signing in to the admin server with the name and the password of a user, by HTTP's Basic scheme [RFC 7617].

A request is checked as a login with PLAIN is: the same limits on attempts, the same threads, and the same cache of
passwords that were right a moment ago, so that the requests of one client cost one hash in all.
"""

from base64 import b64decode
from binascii import Error as NotBase64

import trio

from core.access.exchange import WAIT
from core.access.login import Access, LoginPeer, PasswordCheck
from core.access.rights import Rights
from core.config.address import is_loopback

MECHANISM = "HTTP-BASIC"
"""The mechanism of such logins in the log."""
CREDENTIAL_BYTES_MAX = 1024


class SignIn:
    """Finds the rights of a client that shows name and password."""

    def tell_wrong_token(self, host: str, port: int) -> None:
        """Have the audit log record a request with a token that is none of the tokens."""
        audit = self._access.audited("http", host, port)
        if audit is not None:
            audit.record("logins", "login", "refused", "", {"mechanism": "token", "reason": "wrong token"})

    def __init__(self, access: Access) -> None:
        self._access = access

    async def rights(self, authorization: str, *, host: str, port: int = 0) -> Rights | None:
        """Return the rights of the user in an Authorization field; None if name or password are wrong, or the login was
        put off."""
        credentials = _credentials(authorization)
        if credentials is None:
            return None
        name, password = credentials
        woken = trio.Event()
        peer = LoginPeer(
            *(host, bool(host) and is_loopback(host), lambda: woken.set()),
            audit=self._access.audited("http", host, port),
            asks_often=True,
        )
        check = PasswordCheck(self._access, peer, MECHANISM, name, password)
        check.start()
        while check.reply is WAIT:
            await woken.wait()
            woken = trio.Event()
        return self._access.users.rights_of(name) if check.reply[0] == "success" else None


def _credentials(authorization: str) -> tuple[str, str] | None:
    given = authorization.partition(" ")[2].strip()
    if len(given) > 2 * CREDENTIAL_BYTES_MAX:
        return None
    try:
        name, colon, password = b64decode(given, validate=True).decode().partition(":")
    except (NotBase64, ValueError):
        return None
    return (name, password) if colon and name else None
