"""The PROXY protocol, versions 1 and 2: the header with which a proxy tells where its client is.

The broker reads it only on connections from the networks of ``server.proxy_from``, because the header of anyone else
could name any address. The specification is proxy-protocol.txt of HAProxy.
"""

from ipaddress import ip_address
from typing import NamedTuple

SIGNATURE_1 = b"PROXY "
SIGNATURE_2 = b"\r\n\r\n\0\r\nQUIT\n"
HEADER_1_BYTES_MAX = 107
"""The longest header of version 1, with its line end [proxy-protocol 2.1]."""
HEADER_2_BYTES = 16
"""The part of a header of version 2 that has a fixed length [proxy-protocol 2.2]."""
HEADER_2_BYTES_MAX = 2048
"""A longer header of version 2 is refused. The longest addresses take 232 bytes, a certificate some hundred."""

_VERSION_2 = 0x20
_LOCAL, _PROXY = 0, 1
_TCP4, _TCP6 = 0x11, 0x21
_ADDRESS_BYTES = {_TCP4: 4, _TCP6: 16}


class ProxyHeaderWrong(Exception):
    """The bytes are no header of the PROXY protocol. The text says why."""


class ProxyHeader(NamedTuple):
    """A header; ``source`` is the client's host and port, None where the proxy speaks for itself."""

    source: tuple[str, int] | None
    length: int
    """How many bytes it takes."""


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the header at the beginning of the bytes; None while it is incomplete. Raises ProxyHeaderWrong."""
    if data.startswith(SIGNATURE_2):
        return _version_2(data)
    if data.startswith(SIGNATURE_1):
        return _version_1(data)
    if SIGNATURE_1.startswith(data) or SIGNATURE_2.startswith(data):
        return None
    raise ProxyHeaderWrong("the connection does not begin with a header of the PROXY protocol; see server.proxy_from")


def _version_1(data: bytes) -> ProxyHeader | None:
    line, end, _ = data[:HEADER_1_BYTES_MAX].partition(b"\r\n")
    if not end:
        if len(data) >= HEADER_1_BYTES_MAX:
            raise ProxyHeaderWrong(f"a header of version 1 has at most {HEADER_1_BYTES_MAX} bytes")
        return None
    words = line.decode("ascii", errors="replace").split(" ")
    length = len(line) + len(end)
    if words[1] == "UNKNOWN":
        return ProxyHeader(None, length)
    try:
        _, family, source, _, source_port, _ = words
        port = int(source_port)
        if family not in ("TCP4", "TCP6") or not 0 <= port <= 65535:
            raise ValueError
        return ProxyHeader((str(ip_address(source)), port), length)
    except ValueError:
        raise ProxyHeaderWrong("a header of version 1 is malformed") from None


def _version_2(data: bytes) -> ProxyHeader | None:
    if len(data) < HEADER_2_BYTES:
        return None
    version_and_command, family = data[12], data[13]
    length = HEADER_2_BYTES + int.from_bytes(data[14:16])
    if version_and_command & 0xF0 != _VERSION_2 or version_and_command & 0x0F not in (_LOCAL, _PROXY):
        raise ProxyHeaderWrong("a header of version 2 has an unknown version or command")
    if length > HEADER_2_BYTES_MAX:
        raise ProxyHeaderWrong(f"a header of version 2 has at most {HEADER_2_BYTES_MAX} bytes here, not {length}")
    if len(data) < length:
        return None
    size = _ADDRESS_BYTES.get(family)
    if version_and_command & 0x0F == _LOCAL or size is None:
        return ProxyHeader(None, length)
    addresses = data[HEADER_2_BYTES:length]
    if len(addresses) < 2 * size + 4:
        raise ProxyHeaderWrong("a header of version 2 is too short for its addresses")
    port = int.from_bytes(addresses[2 * size : 2 * size + 2])
    return ProxyHeader((str(ip_address(addresses[:size])), port), length)
