"""What an AMQP 0.9.1 connection reports upward, pulled with ``Connection.next_event``.

Publishes and acknowledgements come as runs; everything else is rare. An event is a fact: the protocol state has
already taken it in. What the front end decides because of it, it says by calling methods of the connection.

Each :class:`ChannelOpened` is followed by exactly one :class:`ChannelClosed` of that channel, unless
:class:`ConnectionClosed` comes first: that one is the last event, and every channel is gone with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.amqp091.methods import ConnectionOpen, Method
from core.amqp091.properties import BasicProperties


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The peer is who it says, limits are agreed, and its virtual host exists. It has been told so."""

    open: ConnectionOpen


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection is over, whichever side ended it.

    With ``by_peer`` and a ``reply_code`` the peer waits for connection.close-ok: call ``Connection.accept_close`` when
    what came before the close has been done. A ``reply_code`` of 0 is an end without a close: the socket's end, or
    silence.
    """

    reply_code: int
    reply_text: str
    by_peer: bool


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """The peer has opened this channel and been told that it is open."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel is over, and no method of it follows.

    With ``by_peer`` the peer waits for channel.close-ok: call ``Connection.accept_channel_close`` when what came before
    the close has been done; until then the channel's number is not free. Otherwise channel.close has been sent, for a
    fault that was found here or with ``Connection.fail_channel``.
    """

    channel: int
    by_peer: bool


@dataclass(frozen=True, slots=True)
class MethodReceived:
    """A method that clients send, without content, on a channel that is open."""

    channel: int
    method: Method


@dataclass(eq=False, slots=True)
class PublishesReceived:
    """A run of messages: alike in everything but their bytes."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    properties: bytes
    """Flags and list, as they came, of each of them. They can be decoded."""
    entries: list[bytes]
    """Content header and body of each (``core/amqp091/content.py``)."""
    decoded: BasicProperties | None = None
    """The properties, where they have been decoded already."""


@dataclass(frozen=True, slots=True)
class AcksReceived:
    """A run of basic.ack on one channel, in ranges of delivery tags. Whether the tags are known is not checked."""

    channel: int
    ranges: Sequence[tuple[int, int]]
    """First and last. A first of 0 means: everything up to the last that is not acknowledged yet (``multiple``), and a
    last of 0 with it everything there is [0-9-1 basic.ack.multiple]."""


Event = (
    PublishesReceived
    | AcksReceived
    | MethodReceived
    | ChannelOpened
    | ChannelClosed
    | ConnectionOpened
    | ConnectionClosed
)
