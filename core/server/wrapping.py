"""What lies between the bytes of a socket and those of the protocol: the header of a proxy, and TLS.

Only peers that have one of them have a :class:`Wrapping`. It is sans-IO, as a front end is.
"""

from collections.abc import Callable

from core.server.proxy_header import parse_proxy_header
from core.server.tls import Tunnel

WRAPPED_READ_BYTES = 65_536
"""The limit of one read. The smallest records of TLS take the broker 2 us each, and records that change the keys 5 us;
2,500 of them fit into so many bytes."""


class Wrapping:
    """The header and the TLS of one connection."""

    __slots__ = ("_awaits_header", "_header", "_make_tunnel", "_tunnel", "in_line", "source")

    def __init__(
        self, make_tunnel: Callable[[], Tunnel] | None, *, proxied: bool, tunnel: Tunnel | None = None
    ) -> None:
        """``make_tunnel`` is None for a connection without TLS; ``proxied``: it begins with a proxy's header.
        ``tunnel`` is that of a connection whose handshake is complete."""
        self._make_tunnel = make_tunnel
        self._tunnel = tunnel
        """Made when the first byte comes: a connection that is silent takes no memory for TLS."""
        self._awaits_header = proxied
        self._header = b""
        self.source: tuple[str, int] | None = None
        """The client's host and port, if the header has told them."""
        self.in_line = False
        """Whether the connection waits for the next step of its handshake; kept by its peer."""

    @property
    def complete(self) -> bool:
        """Whether the bytes of the protocol follow: the header is read, and the handshake is complete."""
        return not self._awaits_header and (
            self._make_tunnel is None or (self._tunnel is not None and self._tunnel.complete)
        )

    @property
    def over(self) -> bool:
        """Whether nothing lies in between any more: the header is read, and there is no TLS."""
        return self._make_tunnel is None and not self._awaits_header

    @property
    def tunnel(self) -> Tunnel:
        """The TLS of a connection that has it and has sent something."""
        assert self._tunnel is not None
        return self._tunnel

    @property
    def handshake_has_bytes(self) -> bool:
        """Whether there is something for a step of the handshake to work on."""
        return self._tunnel is not None and self._tunnel.handshake_has_bytes

    @property
    def closed(self) -> bool:
        """Whether the peer has said in TLS that it sends nothing more."""
        return self._tunnel is not None and self._tunnel.closed

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the socket and return those of the protocol. Raises ProxyHeaderWrong, TlsFailed."""
        if self._awaits_header:
            self._header += data
            header = parse_proxy_header(self._header)
            if header is None:
                return b""
            self._awaits_header, self.source = False, header.source
            data, self._header = self._header[header.length :], b""
        if self._make_tunnel is None or not data:
            return data
        if self._tunnel is None:
            self._tunnel = self._make_tunnel()
        if self._tunnel.complete:
            return self._tunnel.receive(data)
        self._tunnel.receive_handshake(data)
        return b""

    def send(self, output: bytes | memoryview) -> bytes | memoryview:
        """Return the bytes for the socket. Raises TlsFailed."""
        return output if self._tunnel is None else self._tunnel.send(output)

    def take_own_output(self) -> bytes:
        """Return what TLS itself says, which the protocol does not wait for."""
        return b"" if self._tunnel is None or not self._tunnel.complete else self._tunnel.take_own_output()

    def close(self) -> bytes:
        """Return the bytes that tell the peer that nothing more comes; after a failure the alert, if there is one."""
        return b"" if self._tunnel is None else self._tunnel.close()
