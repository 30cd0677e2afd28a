"""Whether a thing on the connection can be used now, and who waits for that to change.

Connection, sessions, senders and receivers each have one. The engine's events change it; tasks of the user wait
on it. A thing that is *away* will come back (the connection is being made anew), a thing that is *over* will not.
"""

from enum import Enum

import trio

from amqp10.client.errors import ClientError


class State(Enum):
    """Where the thing is in its life."""

    AWAY = "away"
    UP = "up"
    OVER = "over"


class Standing:
    """The state of one thing, the reason why it is not up, and a place to wait."""

    __slots__ = ("_waiters", "losses", "reason", "state")

    def __init__(self) -> None:
        self.state = State.AWAY
        self.reason: ClientError | None = None
        """Why it was lost last, or why it is over."""
        self.losses = 0
        """How often it went away after being up."""
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
        """It can be used."""
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
        """Something about the thing changed: those who wait look again."""
        self._waiters.unpark_all()

    def check(self, losses: int | None = None) -> None:
        """Raise the reason when it is over, or was lost since there were so many losses."""
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
