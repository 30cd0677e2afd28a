"""A session as its links see it: their output, settlements before the next output, and the bound of what waits here.

It stands below senders and receivers; :class:`~amqp10.client.session.ClientSession` stands above them and has one.
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio

from amqp10.client.settings import ClientSettings
from amqp10.client_core.events import LinkUser
from amqp10.client_core.reasons import LinkWait
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import Attach

LOG = logging.getLogger("amqp10.client")


class LinkSession:
    """The links' part of one session, over all connections that it has."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        wake: Callable[[], None],
        forget: Callable[[LinkUser], None],
        moves: Callable[[Any, Attach], bool],
        comes_back: Callable[[Any, Error | None], bool],
    ) -> None:
        """``wake`` wakes the connection's background task."""
        self.engine: Session | None = None
        """The session on the present connection; None while there is none."""
        self.forget = forget
        """Drops a sender or receiver that must not be attached again."""
        self.moves = moves
        """Told of a sender or receiver that the broker has attached: whether it is not to be used yet, because it may
        move to the leader of its queue."""
        self.comes_back = comes_back
        """Told of one that the broker has ended: whether it is to be attached again."""
        self.before_send = settings.before_send
        self._settings = settings
        self._wake = wake
        self._settling: list[Callable[[], None]] = []
        self._closing: dict[SenderLink | ReceiverLink, anyio.Event] = {}
        self._buffered_messages = 0
        self._buffered_bytes = 0

    def wake(self) -> None:
        """Wake the background task: there is output."""
        if self.engine is not None:
            self.engine.connection.to_flush[self.engine] = None
        self._wake()

    def settle_later(self, settle: Callable[[], None]) -> None:
        """Have a receiver settle the deliveries that it has noted as accepted, before the next output."""
        self._settling.append(settle)
        self._wake()

    def settle(self) -> None:
        """Call this before output: receivers settle the deliveries that they have noted as accepted."""
        settling, self._settling = self._settling, []
        for settle in settling:
            settle()

    def wait_changed(self, address: str | None, wait: LinkWait | None) -> None:
        """Tell the user's hook why a link waits now; None when it waits no more."""
        if (hook := self._settings.when_waiting) is None:
            return
        try:
            hook(address, wait)
        except Exception:
            LOG.exception("the function that is told why links wait has failed")

    def buffered(self, messages: int, size: int) -> None:
        """Add messages and bytes to those that wait for the user; negative numbers subtract. The session's window is
        closed above the limit, and opened below half of it."""
        self._buffered_messages += messages
        self._buffered_bytes += size
        if self.engine is None:
            return
        load = max(
            self._buffered_messages / self._settings.buffered_messages_max,
            self._buffered_bytes / self._settings.buffered_bytes_max,
        )
        if load > 1.0:
            self.engine.close_incoming_window()
        elif load <= 0.5 and self.engine.window.closed:
            self.engine.open_incoming_window()
            self._wake()

    async def close_link(self, link: SenderLink | ReceiverLink | None) -> None:
        """Detach, and wait a limited time for the answer."""
        if link is None or self.engine is None or not link.end.attached:
            return
        self.engine.detach(link)
        link.reference = None
        answered = self._closing[link] = anyio.Event()
        self._wake()
        try:
            with anyio.move_on_after(self._settings.close_time_out_s):
                await answered.wait()
        finally:
            self._closing.pop(link, None)

    def look_at_closing(self) -> None:
        """Wake the tasks whose detach has been answered: the engine has no event for it, only a state."""
        for link in [link for link in self._closing if link.end.state is LinkState.GONE]:
            self._closing.pop(link).set()

    def over(self) -> None:
        """The session is not on a connection any more; no detach will be answered."""
        self.engine = None
        for answered in self._closing.values():
            answered.set()
        self._closing.clear()
