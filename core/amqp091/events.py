"""The events that an AMQP 0.9.1 connection reports to its owner, through ``Amqp091Connection.next_event``.

Publishes and acknowledgements come as runs; all other events are rare. An event is a fact: the protocol state includes
it already. The front end acts on it by calling methods of the connection.

Each :class:`ChannelOpened` is followed by exactly one :class:`ChannelClosed` of that channel, unless
:class:`Amqp091ConnectionClosed` comes first: that is the last event, and it ends every channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.amqp091.methods import ConnectionOpen, Method
from core.amqp091.publish_run import PublishRun


@dataclass(frozen=True, slots=True)
class Amqp091ConnectionOpened:
    """The peer has authenticated, limits are agreed, and its virtual host exists. connection.open-ok has been sent."""

    open: ConnectionOpen


@dataclass(frozen=True, slots=True)
class Amqp091ConnectionClosed:
    """The connection is over, whichever side ended it.

    With ``by_peer`` and a ``reply_code`` the peer waits for connection.close-ok: call
    ``Amqp091Connection.accept_close`` when the input before the close has been processed. A ``reply_code`` of 0 is an
    end without a close: the socket has ended, or the peer was silent for too long.
    """

    reply_code: int
    reply_text: str
    by_peer: bool


@dataclass(frozen=True, slots=True)
class SecretUpdated:
    """The peer has sent a new secret in place of that of its login. connection.update-secret-ok has not been sent."""

    secret: bytes


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """The peer has opened this channel; channel.open-ok has been sent."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel is over, and no method of it follows.

    With ``by_peer`` the peer waits for channel.close-ok: call ``Amqp091Connection.accept_channel_close`` when the input
    before the close has been processed; until then the channel's number is not free. Otherwise channel.close has been
    sent, for a fault that was found here or passed to ``Amqp091Connection.fail_channel``.
    """

    channel: int
    by_peer: bool


@dataclass(frozen=True, slots=True)
class MethodReceived:
    """A method without content that a client has sent on an open channel."""

    channel: int
    method: Method


@dataclass(eq=False, slots=True)
class PublishesReceived:
    """Messages that were published on one channel, in runs of messages to one exchange."""

    channel: int
    runs: list[PublishRun]
    count: int
    """Messages of all runs."""

    def beyond(self, place: int, start: int) -> "PublishesReceived":
        """Return the messages from the one at ``start`` in the run at this place on."""
        runs = self.runs[place:]
        if start:
            runs[0] = runs[0].part(start, len(runs[0].entries))
        return PublishesReceived(self.channel, runs, sum([len(run.entries) for run in runs]))

    def followed_by(self, later: "PublishesReceived") -> "PublishesReceived":
        """Return the runs of both, in this order."""
        return PublishesReceived(self.channel, self.runs + later.runs, self.count + later.count)

    def split(self, count: int) -> "PublishesReceived":
        """Keep the first ``count`` messages, fewer than there are, and return the others."""
        rest = PublishesReceived(self.channel, [], self.count - count)
        self.count = count
        for place, run in enumerate(self.runs):
            if count < len(run.entries):
                rest.runs = [run.part(count, len(run.entries)), *self.runs[place + 1 :]]
                self.runs[place:] = [run.part(0, count)] if count else []
                break
            count -= len(run.entries)
        return rest


@dataclass(frozen=True, slots=True)
class AcksReceived:
    """A run of basic.ack on one channel, in ranges of delivery tags. The tags may be unknown."""

    channel: int
    ranges: Sequence[tuple[int, int]]
    """First and last. A first of 0 means every unacknowledged delivery up to the last (``multiple``); if the last is 0
    too, it means every unacknowledged delivery [0-9-1 basic.ack.multiple]."""


Event = (
    PublishesReceived
    | AcksReceived
    | MethodReceived
    | ChannelOpened
    | ChannelClosed
    | Amqp091ConnectionOpened
    | Amqp091ConnectionClosed
    | SecretUpdated
)
