"""Connections that cannot be served, while they are told why.

A refused peer gets the handshake of its own protocol and a close with the reason, in one piece, and time to read it.
Each holds a descriptor of the reserve meanwhile, so there are never more than REFUSALS_MAX. When that many are under
way and another one waits at the door, they are hurried: peers that behave need no more than a round trip, and those
that do not must not keep others outside for long.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from core.server.frontends import PREFACE_BYTES, FrontEndFactory, choose

REFUSALS_MAX = 32
"""Under way at once."""

PREFACE_SECONDS_MAX = 0.4
"""A refused peer that does not say its protocol by then is answered in the first one."""

HURRIED_PREFACE_SECONDS_MAX = 0.1
"""The same when others wait. Not less: a busy client needs tens of milliseconds, and an answer in the wrong protocol
tells it nothing."""

READING_SECONDS_MAX = 0.5
"""From the answer to the close: with the time for the preface, a refused connection is closed within a second."""

HURRIED_READING_SECONDS_MAX = 0.03
"""The same when others wait: a backlog of 1024 that behaves is through within a second."""

DRAIN_BYTES = 65_536
"""Read at once of what a refused peer says, which nobody looks at."""


class Refusals:
    """Those that are being refused now, over all listeners."""

    def __init__(self) -> None:
        self._under_way: dict[socket.socket, _Step | None] = {}
        """What each waits for; None when its task has not started."""
        self._listeners = trio.lowlevel.ParkingLot()
        """They wait for room."""

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def full(self) -> bool:
        """Nobody else can be told now."""
        return len(self) >= REFUSALS_MAX

    async def room(self) -> None:
        """Wait until one more can be told: not for long, since those that are being told are hurried."""
        for step in self._under_way.values():
            if step is not None:
                step.hurry()
        while self.full:
            await self._listeners.park()

    def enter(self, accepted: socket.socket) -> None:
        """Take a place for a connection that :meth:`refuse` follows for."""
        self._under_way[accepted] = None

    async def refuse(self, accepted: socket.socket, *, factories: Sequence[FrontEndFactory], reason: str) -> None:
        """Answer in the peer's protocol, and close when it has read that or its time is over."""
        preface = b""
        try:
            with self._step(accepted, PREFACE_SECONDS_MAX, hurried_seconds=HURRIED_PREFACE_SECONDS_MAX):
                await trio.lowlevel.wait_readable(accepted)
                preface = accepted.recv(DRAIN_BYTES)[:PREFACE_BYTES]
            accepted.send(choose(factories, preface).refusal(reason))  # a fresh socket takes that much at once
            accepted.shutdown(socket.SHUT_WR)
            with self._step(accepted, READING_SECONDS_MAX, hurried_seconds=HURRIED_READING_SECONDS_MAX):
                await _drain(accepted)
        except OSError:
            pass  # the peer left first
        finally:
            accepted.close()
            del self._under_way[accepted]
            self._listeners.unpark_all()

    def _step(self, accepted: socket.socket, seconds: float, *, hurried_seconds: float) -> trio.CancelScope:
        now = trio.current_time()
        step = self._under_way[accepted] = _Step(trio.CancelScope(deadline=now + seconds), now + hurried_seconds)
        if self._listeners:
            step.hurry()
        return step.scope


@dataclass(frozen=True, slots=True)
class _Step:
    """Something that is waited for, and until when if others wait too."""

    scope: trio.CancelScope
    hurried_until: float

    def hurry(self) -> None:
        self.scope.deadline = min(self.scope.deadline, self.hurried_until)


async def _drain(accepted: socket.socket) -> None:
    """Until the peer has closed: who closes with something unread resets the connection, and the answer is lost."""
    while True:
        await trio.lowlevel.wait_readable(accepted)
        if not accepted.recv(DRAIN_BYTES):
            return
