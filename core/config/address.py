"""Addresses to listen on: ``HOST:PORT`` and ``[HOST]:PORT``."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError."""
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f'"{text}" must be [HOST]:PORT, since the host has colons')
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f'"{text}" must be HOST:PORT with a port of 0 to 65535')
    return host, int(port)


UNIX = "unix:"
"""What the address of a Unix socket begins with; the path is behind it."""


def parse_node_address(text: str) -> tuple[str, int]:
    """Return host and port of an address on which another node listens; the address itself and 0 for that of a Unix
    socket. Raises ValueError."""
    if not text.startswith(UNIX):
        return parse_address(text)
    if not text.startswith(f"{UNIX}/"):
        raise ValueError(f'"{text}" must have a path that begins with /')
    return text, 0


def is_loopback(host: str) -> bool:
    """True when only this machine can reach the host. A name other than localhost may stand for any address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_within(host: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """True when the address of a socket is in one of the networks."""
    address = ip_address(host.partition("%")[0])  # an address of one link has the name of its interface behind it
    return any(address.version == network.version and address in network for network in networks)
