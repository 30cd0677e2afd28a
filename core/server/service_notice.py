"""Telling the service manager how the broker is: ready, alive, stopping. systemd calls it Type=notify.

The manager puts the name of a datagram socket into the environment, and each notice is one datagram. One that cannot be
sent is let go: the manager draws its own conclusions from what it does not hear. Without a name there is nobody to
tell.
"""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf

import trio


class ServiceNotice:
    """For one server, among its background tasks: they begin when it listens, and end when it has said good-bye."""

    def __init__(self, environment: Mapping[str, str], *, status: str = "") -> None:
        """``status`` is a line that the manager shows; ``environment`` may have NOTIFY_SOCKET, a path or an abstract
        name behind ``@``, and WATCHDOG_USEC: for how long the manager waits for a sign of life before it takes the
        process for dead."""
        self._status = status
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        microseconds = environment.get("WATCHDOG_USEC", "")
        self._pause_s = int(microseconds) / 1e6 / 2 if microseconds.isdecimal() and int(microseconds) else inf
        """Between two signs of life: half of what the manager waits."""

    async def run(self, turn: Callable[[], None]) -> None:
        """Tell of the start, then that the event loop runs, until cancelled; then of the stop. It needs no ``turn``."""
        self._send(f"READY=1\nSTATUS={self._status}" if self._status else "READY=1")
        try:
            while True:
                await trio.sleep(self._pause_s)
                self._send("WATCHDOG=1")
        finally:
            self._send("STOPPING=1")

    def _send(self, notice: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(notice.encode(), self._address)
