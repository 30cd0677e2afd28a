"""TLS of one connection of the admin server: what :class:`core.server.tls.Tunnel` does for peers, as a stream.

Its handshake stands in the same line as those of peers, so that clients of the admin server cannot take more of the
event loop than the line allows.
"""

import trio

from core.clock import Now
from core.server.handshakes import Handshakes
from core.server.tls import TlsFailed, Tunnel

READ_BYTES = 16_384
"""Bytes read at once: about one record."""


class EncryptedStream:
    """A server's side of TLS over a socket. :meth:`shake_hands` comes first."""

    def __init__(self, transport: trio.SocketStream, tunnel: Tunnel, handshakes: Handshakes) -> None:
        self._transport = transport
        self._tunnel = tunnel
        self._handshakes = handshakes
        self._shaken = trio.Event()
        self._failure: TlsFailed | None = None

    async def shake_hands(self) -> None:
        """Make the handshake. Raises TlsFailed, trio.BrokenResourceError."""
        tunnel = self._tunnel
        while not tunnel.complete:
            data = await self._transport.receive_some(READ_BYTES)
            if not data:
                raise TlsFailed("the client has closed during the handshake")
            try:
                tunnel.receive_handshake(bytes(data))
                self._shaken = trio.Event()
                self._handshakes.enter(self)
                await self._shaken.wait()
                if self._failure is not None:
                    raise self._failure
            finally:
                output = tunnel.take_output()
                if output:
                    await self._transport.send_all(output)

    def shake(self, now: Now) -> None:
        """Do a step of the handshake, as a :class:`core.server.handshakes.Shaking`."""
        try:
            self._tunnel.shake()
        except TlsFailed as failure:
            self._failure = failure
        self._shaken.set()

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return what the client has sent, b"" at the end; more than ``max_bytes`` where a record has more. Raises
        TlsFailed, trio.BrokenResourceError."""
        tunnel = self._tunnel
        plaintext = tunnel.receive(b"")
        while not (plaintext or tunnel.closed):
            data = await self._transport.receive_some(max_bytes)
            if not data:
                return b""
            plaintext = tunnel.receive(bytes(data))
            if own := tunnel.take_own_output():
                await self._transport.send_all(own)
        return plaintext

    async def send_all(self, data: bytes) -> None:
        """Send. Raises TlsFailed, trio.BrokenResourceError."""
        await self._transport.send_all(self._tunnel.send(data))

    async def send_eof(self) -> None:
        """Say that nothing more comes."""
        await self._transport.send_all(self._tunnel.close())
        await self._transport.send_eof()
