"""The server's side of one attempt with SCRAM-SHA-256 or SCRAM-SHA-512 [RFC 5802, RFC 7677]. The library scramp
handles the messages.

The peer computes the expensive hash; the server only computes a few digests. There is no channel binding: a peer that
requires it fails, and so does one whose last message has another channel binding than its first.
"""

from scramp import ScramException, ScramMechanism

from core.access.exchange import FAILURE, LATER, Reply
from core.access.login import Access, LoginPeer
from core.config.access import SCRAM_MECHANISMS, HashName

RESPONSE_BYTES_MAX = 1280
"""The longest response: a name of 255 bytes, each of which may be encoded as three, and our nonce after the peer's
nonce of up to 256 bytes. Longer responses fail without being parsed."""


def _over(exchange: "ScramExchange", response: str) -> Reply:
    return FAILURE


class _Account:
    """The account that the peer has named, for scramp. It knows nothing of the exchange, which would otherwise be in a
    reference cycle with scramp's server."""

    def __init__(self, access: Access, hash_name: HashName, *, loopback: bool) -> None:
        self.identity = ""
        self._access = access
        self._hash_name = hash_name
        self._loopback = loopback

    def keys(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        """Return what scramp asks for: salt, stored key, server key, iterations."""
        self.identity = name
        keys = self._access.users.keys(name, loopback=self._loopback, hash_name=self._hash_name)
        return keys.salt, keys.stored_key, keys.server_key, keys.iterations


class ScramExchange:
    """Client first → server first; client final → the server's proof, also as a challenge; empty → success."""

    def __init__(self, access: Access, peer: LoginPeer, hash_name: HashName, *, nonce: str) -> None:
        self._access = access
        self._peer = peer
        self._mechanism = SCRAM_MECHANISMS[hash_name]
        self._account = _Account(access, hash_name, loopback=peer.loopback)
        self._fresh = True
        self._steps = iter((ScramExchange._first, ScramExchange._final, ScramExchange._agreed))
        self._server = ScramMechanism(self._mechanism).make_server(self._account.keys, s_nonce=nonce)

    def respond(self, response: bytes) -> Reply:
        """Answer an empty first response with a challenge. A malformed response or a wrong proof is a failure."""
        fresh, self._fresh = self._fresh, False
        if fresh and not response:
            return "challenge", b""
        try:
            reply = (
                next(self._steps, _over)(self, response.decode()) if len(response) <= RESPONSE_BYTES_MAX else FAILURE
            )
        except (ScramException, ValueError):
            reply = FAILURE
        if reply[0] != "challenge":
            self._steps = iter(())  # no step may follow a failed one
        return self._access.failed(self._mechanism, self._account.identity, self._peer) if reply == FAILURE else reply

    def _first(self, response: str) -> Reply:
        self._server.set_client_first(response)
        if self._access.put_off(self._mechanism, self._account.identity, self._peer):
            return LATER
        return "challenge", self._server.get_server_first().encode()

    def _final(self, response: str) -> Reply:
        if self._access.put_off(self._mechanism, self._account.identity, self._peer):
            return LATER  # other attempts have failed meanwhile
        self._server.set_client_final(response)
        return "challenge", self._server.get_server_final().encode()

    def _agreed(self, response: str) -> Reply:
        return FAILURE if response else self._access.succeeded(self._mechanism, self._account.identity, self._peer)
