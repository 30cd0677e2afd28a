"""Notices to the service manager about the broker: ready, alive, stopping. systemd calls this Type=notify.

The manager puts the name of a datagram socket into the environment, and each notice is one datagram. A notice that
cannot be sent is dropped: the manager acts on the missing notice. Without a name no notices are sent.
"""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf

import trio


class ServiceNotice:
    """Sends the notices of one server, as one of its background tasks: they begin when it listens, and end after its
    stop."""

    def __init__(self, environment: Mapping[str, str], *, status: str = "") -> None:
        """``status`` is a line that the manager shows. ``environment`` may have NOTIFY_SOCKET, a path or an abstract
        name behind ``@``, and WATCHDOG_USEC: after that time without a notice the manager takes the process for
        dead."""
        self._status = status
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        microseconds = environment.get("WATCHDOG_USEC", "")
        self._pause_s = int(microseconds) / 1e6 / 2 if microseconds.isdecimal() and int(microseconds) else inf
        """Seconds between two watchdog notices: half of the manager's time-out."""

    async def run(self, turn: Callable[[], None]) -> None:
        """Send the notice of the start, then watchdog notices until cancelled, then the notice of the stop. ``turn`` is
        unused."""
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
