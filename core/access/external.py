"""The SASL mechanism EXTERNAL [RFC 4422 A]: the client's certificate has proven its name in the TLS handshake."""

from dataclasses import dataclass

from core.access.exchange import Reply, SaslExchange
from core.access.login import Access, LoginPeer


@dataclass(frozen=True, slots=True)
class ExternalMechanism:
    """The mechanism EXTERNAL for one peer. It is offered only to a peer that has a certificate."""

    access: Access
    peer: LoginPeer
    name: str = "EXTERNAL"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return _ExternalExchange(self)


@dataclass(frozen=True, slots=True)
class _ExternalExchange:
    mechanism: ExternalMechanism

    def respond(self, response: bytes) -> Reply:
        """Accept an authorization identity that is empty or the name in the certificate. The user must exist: a
        certificate proves a name, but gives no rights."""
        access, peer = self.mechanism.access, self.mechanism.peer
        name = peer.certificate_name
        if name is None or response not in (b"", name.encode()) or not access.users.configured(name):
            return access.failed(self.mechanism.name, name or "", peer)
        return access.succeeded(self.mechanism.name, name, peer)
