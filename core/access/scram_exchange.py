"""One attempt with SCRAM-SHA-256 [RFC 5802, RFC 7677], the server's side. scramp knows the messages."""

from scramp import ScramException, ScramMechanism

from core.access.exchange import FAILURE, Reply, success
from core.access.users import Users


class ScramExchange:
    """Client first → server first; client final → our own proof, as a challenge too; empty → success."""

    def __init__(self, users: Users, *, loopback: bool, nonce: str) -> None:
        self._users = users
        self._loopback = loopback
        self._identity = ""
        self._fresh = True
        self._steps = iter((self._first, self._final, self._agreed))
        self._server = ScramMechanism("SCRAM-SHA-256").make_server(self._keys, s_nonce=nonce)

    def respond(self, response: bytes) -> Reply:
        """An empty first response asks for a challenge; whatever is malformed, or a wrong proof, is a failure."""
        fresh, self._fresh = self._fresh, False
        if fresh and not response:
            return "challenge", b""
        try:
            return next(self._steps)(response.decode())
        except (ScramException, ValueError):
            return FAILURE

    def _keys(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._identity = name
        keys = self._users.keys(name, loopback=self._loopback)
        return keys.salt, keys.stored_key, keys.server_key, keys.iterations

    def _first(self, response: str) -> Reply:
        self._server.set_client_first(response)
        return "challenge", self._server.get_server_first().encode()

    def _final(self, response: str) -> Reply:
        self._server.set_client_final(response)
        return "challenge", self._server.get_server_final().encode()

    def _agreed(self, response: str) -> Reply:
        return FAILURE if response else success(self._identity)
