"""The status of a connection, session or link of the client: whether it can be used now, and why not.

The connection, each session, each sender and each receiver has one :class:`EndpointStatus`. The events of the protocol
engine change it, and tasks of the user wait for its changes. An endpoint that is *away* will come back, because the
connection is being opened again; an endpoint that is *over* will not come back.
"""

from enum import Enum

from amqp10.client.waiting import Waiters
from amqp10.client_core.errors import ClientError


class EndpointState(Enum):
    """Whether the endpoint can be used."""

    AWAY = "away"
    UP = "up"
    OVER = "over"


class EndpointStatus:
    """The state of one endpoint, and the reason why it is not up. Tasks can wait for changes."""

    __slots__ = ("_waiters", "losses", "reason", "state")

    def __init__(self) -> None:
        self.state = EndpointState.AWAY
        self.reason: ClientError | None = None
        """Why the endpoint was lost the last time, or why it is over."""
        self.losses = 0
        """How many times the endpoint went away after being up."""
        self._waiters = Waiters()

    @property
    def up(self) -> bool:
        """The endpoint can be used now."""
        return self.state is EndpointState.UP

    @property
    def over(self) -> bool:
        """The endpoint can never be used again."""
        return self.state is EndpointState.OVER

    def came_up(self) -> None:
        """The endpoint can be used from now on."""
        if self.state is not EndpointState.OVER:
            self.state = EndpointState.UP
        self.changed()

    def went_away(self, reason: ClientError) -> None:
        """The endpoint cannot be used for now."""
        if self.state is EndpointState.UP:
            self.losses += 1
        if self.state is not EndpointState.OVER:
            self.state = EndpointState.AWAY
            self.reason = reason
        self.changed()

    def ended(self, reason: ClientError) -> None:
        """The endpoint is over; the first reason stays."""
        if self.state is not EndpointState.OVER:
            self.state = EndpointState.OVER
            self.reason = reason
        self.changed()

    def changed(self) -> None:
        """Wake the waiting tasks, which then check their conditions again."""
        self._waiters.wake_all()

    def check(self, losses: int | None = None) -> None:
        """Raise the reason when the endpoint is over, or when ``losses`` is given and it has been lost since."""
        if self.state is EndpointState.OVER or losses not in (None, self.losses):
            assert self.reason is not None
            raise type(self.reason)(self.reason.text, self.reason.condition)

    async def change(self) -> None:
        """Wait for the next change. Raises the reason once the endpoint is over."""
        self.check()
        await self._waiters.wait()
        self.check()

    async def usable(self) -> None:
        """Wait until the endpoint is up. Raises the reason once it is over."""
        self.check()
        while not self.up:
            await self.change()
