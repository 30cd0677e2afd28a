"""TLS of one connection, without a socket: bytes of the socket go in and out on one side, bytes of the protocol on the
other.

A :class:`Tunnel` keeps an ``ssl.SSLObject`` with two memory buffers. Trio's ``SSLStream`` gives one record of 16 KiB at
most for each awaited read, and costs three times the CPU time; a :class:`core.server.peer.Peer` awaits no read at all.

Life: the handshake (``receive_handshake``, ``shake``), then data in both directions (``receive``, ``send``), then
``close``. The peer's own close is an end of input (``closed``). A failure is raised as :class:`TlsFailed`; then only
``close`` may be called, which returns the alert for the peer.

Renegotiation and compression are off, in the contexts of :mod:`core.server.certificates`.

Annotations that name ``ssl`` are in quotes: ``headgate serve`` imports it when it is first used, which a broker without
certificates never does.
"""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

PIECE_BYTES = 16_384
"""The most plaintext of one record [RFC 8446 5.1]. Bytes pass OpenSSL's memory buffers in pieces of this size, because
such a buffer keeps the largest size that it ever had: with whole reads, 256 KiB for each connection and direction."""

HANDSHAKE_RECORD = 22
"""The first byte of every handshake [RFC 8446 5.1]."""

OWN_BYTES_MAX = 16_384
"""The most bytes that OpenSSL may say itself while the protocol says nothing: refused renegotiations, of 31 bytes each.
A client that asks so often is no client."""

PLAIN_ANSWER = b"AMQP\x02\x01\x00\x00"
"""The answer to a client that speaks AMQP without TLS: the protocol header of TLS says which protocol the server would
accept here [2.2, 5.2.1]."""

_REASONS: Mapping[str, str] = {
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that is accepted here; see tls.minimum",
    "VERSION_TOO_LOW": "the client offers no version of TLS that is accepted here; see tls.minimum",
    "NO_SHARED_CIPHER": "the client offers no cipher suite that is accepted here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and tls.client_certificate is required",
    "CALLBACK_FAILED": "the client asks for no host name (SNI), and tls.sni_required is set",
    "EXCESSIVE_MESSAGE_SIZE": "a message of the handshake is too long",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority that signed the certificate of this broker",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the certificate of this broker",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the certificate of this broker",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the client, the certificate of this broker has expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client has ended the handshake",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client accepts no version of TLS that is offered here",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "a record was changed on its way",
    "RECORD_LAYER_FAILURE": "a record was changed on its way",  # the name since OpenSSL 3.2
}
"""OpenSSL's reasons, in words for the log."""


class TlsFailed(Exception):
    """A handshake or a record of the peer is wrong, or the peer has sent an alert. The text is for the log."""


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """What a handshake has settled."""

    version: str
    """As OpenSSL writes it: TLSv1.3."""
    cipher: str


_REASONS_OF_NODES: Mapping[str, str] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the node wants a certificate, and this one has sent none",
    "TLSV1_ALERT_UNKNOWN_CA": "the node does not trust the authority that signed the certificate of this node",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to the node, the certificate of this node has expired",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the node says that the certificate of this node is not for clients",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the node does not accept the certificate of this node",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the node does not accept the certificate of this node",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the node does not offer TLS 1.3",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the node sent no certificate",
    "WRONG_VERSION_NUMBER": "the address answers without TLS; is it in cluster.listen of that node?",
}
"""The same for a connection between nodes."""


class Tunnel:
    """One connection's TLS, as the server; or, to another node, as the client."""

    __slots__ = (
        "_begun",
        "_handshake_bytes_left",
        "_incoming",
        "_of_node",
        "_outgoing",
        "_own_bytes",
        "_tls",
        "closed",
        "complete",
        "failed",
        "failure",
    )

    def __init__(
        self, context: "ssl.SSLContext", *, handshake_bytes_max: int, of_node: bool = False, client: bool = False
    ) -> None:
        """``of_node``: the peer is another node. ``client``: this broker has begun the connection; :meth:`shake` is
        called first then."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not client)
        self._of_node = of_node
        self._begun = client
        self._handshake_bytes_left = handshake_bytes_max
        self._own_bytes = 0
        """What OpenSSL itself has said since the protocol spoke last, and was taken."""
        self.complete = False
        """Whether the handshake is complete."""
        self.failed = False
        """Whether :class:`TlsFailed` was raised."""
        self.failure = ""
        """The text of that."""
        self.closed = False
        """Whether the peer has said that it sends nothing more."""

    # --- the handshake ---------------------------------------------------------------------------------

    def receive_handshake(self, data: bytes) -> None:
        """Keep bytes for :meth:`shake`. Raises TlsFailed where they are no TLS, or too many."""
        if not self._begun and data[0] != HANDSHAKE_RECORD:
            if data.startswith(b"AMQP"):
                self._outgoing.write(PLAIN_ANSWER)
                raise self._failure("AMQP without TLS: this port needs TLS; connect with amqps://")
            raise self._failure("the bytes are no TLS; this port speaks AMQP with TLS")
        self._begun = True
        self._handshake_bytes_left -= len(data)
        if self._handshake_bytes_left < 0:
            raise self._failure("the handshake has more bytes than tls.handshake_bytes_max")
        self._incoming.write(data)

    def shake(self) -> bool:
        """Do what can be done of the handshake: up to 2 ms of CPU time. Returns whether it is complete; the output may
        have bytes either way. Raises TlsFailed."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise self._failure(self._explained(error)) from None
        self.complete = True
        return True

    @property
    def handshake_has_bytes(self) -> bool:
        """Whether :meth:`shake` has something to do."""
        return not self.complete and self._incoming.pending > 0

    @property
    def facts(self) -> TlsFacts:
        """What the handshake has settled."""
        cipher = self._tls.cipher()
        return TlsFacts(version=self._tls.version() or "", cipher="" if cipher is None else cipher[0])

    @property
    def peer_certificate(self) -> Mapping[str, object]:
        """The peer's certificate, as ``ssl.SSLObject.getpeercert`` decodes it; empty where it sent none."""
        return self._tls.getpeercert() or {}

    # --- data ------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the socket, and return the plaintext of all records that are complete. Raises TlsFailed.

        The plaintext is no longer than the bytes of the socket, beside what an incomplete record had before.
        """
        if len(data) <= PIECE_BYTES:
            self._incoming.write(data)
            return self._read()
        view = memoryview(data)
        pieces = []
        for start in range(0, len(data), PIECE_BYTES):
            self._incoming.write(view[start : start + PIECE_BYTES])
            pieces.append(self._read())
        return b"".join(pieces)

    def _read(self) -> bytes:
        """Return the plaintext of the records in the incoming buffer."""
        tls, incoming = self._tls, self._incoming
        found = b""
        pieces = []
        try:
            while incoming.pending or tls.pending():
                if found:
                    pieces.append(found)
                found = tls.read(PIECE_BYTES)
                if not found:
                    self.closed = True
                    break
        except ssl.SSLWantReadError:
            found = b""
        except ssl.SSLZeroReturnError:
            self.closed, found = True, b""
        except ssl.SSLError as error:
            raise self._failure(self._explained(error)) from None
        if self._own_bytes + self._outgoing.pending > OWN_BYTES_MAX:
            raise self._failure("the client asks for renegotiation again and again")
        if not pieces:
            return found
        pieces.append(found)
        return b"".join(pieces)

    def send(self, plaintext: bytes | memoryview) -> bytes:
        """Return the bytes for the socket, with everything that OpenSSL has to say itself in front. Raises
        TlsFailed."""
        tls, outgoing = self._tls, self._outgoing
        self._own_bytes = 0
        try:
            if len(plaintext) <= PIECE_BYTES:
                tls.write(plaintext)
                return outgoing.read()
            view = memoryview(plaintext)
            pieces = []
            for start in range(0, len(plaintext), PIECE_BYTES):
                tls.write(view[start : start + PIECE_BYTES])
                pieces.append(outgoing.read())
            return b"".join(pieces)
        except ssl.SSLError as error:
            raise self._failure(self._explained(error)) from None

    def take_own_output(self) -> bytes:
        """Return what OpenSSL itself says between the bytes of the protocol, such as a refused renegotiation."""
        own = self._outgoing.read()
        self._own_bytes += len(own)
        return own

    def _explained(self, error: "ssl.SSLError") -> str:
        if not self._of_node:
            return explained(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate of the node is not accepted: {error.verify_message}"
        return _REASONS_OF_NODES.get(error.reason or "") or explained(error)

    def _failure(self, reason: str) -> TlsFailed:
        self.failed, self.failure = True, reason
        return TlsFailed(reason)

    def take_output(self) -> bytes:
        """Return the bytes for the socket that the handshake or a failure has left."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Return the bytes that tell the peer that nothing more comes; after a failure the alert, if there is one."""
        if self.failed or not self.complete:
            return self.take_output()
        with suppress(ssl.SSLError):  # the peer has not closed its side yet, or the tunnel has failed
            self._tls.unwrap()
        return self.take_output()


def explained(error: "ssl.SSLError") -> str:
    """Return the reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is not accepted: {error.verify_message}"
    reason = error.reason or ""
    return _REASONS.get(reason) or reason.lower().replace("_", " ") or "the TLS connection has failed"
