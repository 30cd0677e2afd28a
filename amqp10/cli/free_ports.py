"""Ports for brokers that a command starts for itself: the demonstration, measurements and tests."""

import random
import socket
from contextlib import suppress

HOST = "127.0.0.1"
FREE_PORTS = range(20_000, 32_768)
"""Where free ports are looked for: below those that Linux gives to outgoing connections
(net.ipv4.ip_local_port_range). A port above may be taken by a connection before the broker listens there, and a client
that connects to it again and again may come to be connected with itself."""


def free_ports(count: int, among: range = FREE_PORTS) -> list[int]:
    """Different ports of the loopback interface on which no process listens now, in no order; fewer than ``count`` if
    ``among`` has no more."""
    found: list[int] = []
    for port in random.sample(among, len(among)):
        with socket.socket() as one, suppress(OSError):
            one.bind((HOST, port))
            found.append(port)
        if len(found) == count:
            break
    return found
