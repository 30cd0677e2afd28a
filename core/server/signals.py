"""The signals that a broker obeys: SIGTERM and SIGINT stop it, SIGHUP has it read its configuration again.

They are caught from before the data folder is opened, which may block for long, until the process ends. A signal that
comes when nothing can be done about it yet is kept; one that comes when everything has been done changes nothing.

A terminal that is closed sends SIGHUP too. The two cases are told apart by opening the controlling terminal: a process
that had one at its start and has none now has lost it, and stops. Under a service manager there never was one. A broker
started with ``nohup`` is to outlive the terminal, and SIGHUP stays ignored as ``nohup`` has left it.
"""

import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

import trio

STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
TERMINAL = "/dev/tty"
"""The terminal that controls the process, if one does [tty(4)]."""


class Signals:
    """The signals that have come. A context manager of the main thread. After an exit without an exception the process
    is about to end, and further signals are ignored; an exception restores the former handlers."""

    def __init__(self) -> None:
        self._came: deque[signal.Signals] = deque()
        self._arrived = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._had_terminal = _terminal_is_there()
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in STOPPING if nohup else STOPPING | {signal.SIGHUP}:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if error is None else before)

    @property
    def stop_wanted(self) -> bool:
        """Whether a signal that stops has come and was not taken yet: for code that blocks and checks now and then."""
        return any(self.stops(number) for number in tuple(self._came))

    def stops(self, number: signal.Signals) -> bool:
        """Whether this signal stops the broker."""
        return number in STOPPING or (self._had_terminal and not _terminal_is_there())

    async def next(self) -> signal.Signals:
        """Take the next signal, or wait for it."""
        self._token = trio.lowlevel.current_trio_token()
        while not self._came:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._came.popleft()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(signal.Signals(number))
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._wake)

    def _wake(self) -> None:
        self._arrived.set()


def _terminal_is_there() -> bool:
    try:
        os.close(os.open(TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True
