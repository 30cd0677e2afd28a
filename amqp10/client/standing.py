"""Whether a connection, session or link can be used now, with a place to wait for changes.

Connection, sessions, senders and receivers have one each. The engine's events change it; tasks of the user wait on it.
An object that is *away* will come back (the connection is being opened again); an object that is *over* will not.
"""

from enum import Enum

import trio

from amqp10.client_core.errors import ClientError


class State(Enum):
    """Whether the object can be used."""

    AWAY = "away"
    UP = "up"
    OVER = "over"


class Standing:
    """The state of one object, the reason why it is not up, and a place to wait."""

    __slots__ = ("_waiters", "losses", "reason", "state")

    def __init__(self) -> None:
        self.state = State.AWAY
        self.reason: ClientError | None = None
        """Why it was lost the last time, or why it is over."""
        self.losses = 0
        """How many times it went away after being up."""
        self._waiters = trio.lowlevel.ParkingLot()

    @property
    def up(self) -> bool:
        """It can be used now."""
        return self.state is State.UP

    @property
    def over(self) -> bool:
        """It can never be used again."""
        return self.state is State.OVER

    def came_up(self) -> None:
        """It can be used from now on."""
        if self.state is not State.OVER:
            self.state = State.UP
        self.changed()

    def went_away(self, reason: ClientError) -> None:
        """It cannot be used for now."""
        if self.state is State.UP:
            self.losses += 1
        if self.state is not State.OVER:
            self.state = State.AWAY
            self.reason = reason
        self.changed()

    def ended(self, reason: ClientError) -> None:
        """It is over; the first reason stays."""
        if self.state is not State.OVER:
            self.state = State.OVER
            self.reason = reason
        self.changed()

    def changed(self) -> None:
        """Wake the waiting tasks, which then check their conditions again."""
        self._waiters.unpark_all()

    def check(self, losses: int | None = None) -> None:
        """Raise the reason when it is over, or when ``losses`` is given and it has been lost since."""
        if self.state is State.OVER or losses not in (None, self.losses):
            assert self.reason is not None
            raise type(self.reason)(self.reason.text, self.reason.condition)

    async def change(self) -> None:
        """Wait until something changes. Raises the reason once it is over."""
        self.check()
        await self._waiters.park()
        self.check()

    async def usable(self) -> None:
        """Wait until it is up. Raises the reason once it is over."""
        self.check()
        while not self.up:
            await self.change()
