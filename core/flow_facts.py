"""What front ends tell of the flow on their connections: the seam between them and who records it.

Front ends call per run, never per message, and only where somebody wants to know: when nobody does, they hold None
and nothing is called. A recorder adds up and takes notes; it answers nothing, raises nothing and changes nothing.

Who records reads the counters of a link or stage itself, when its note is due: :data:`LinkStanding` and
:data:`StageStanding`. So a front end only says that something has changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

FLOW_STREAM = "$flow"
"""The stream that flow events are kept in. Links to and from it are not recorded: it would feed on itself."""
PACKET_CONTENT_TYPE = "application/cbor-seq"
"""Of a message that carries flow events [RFC 8742]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConnection:
    """A connection, as its events name it."""

    identity: str
    peer: str
    protocol: str
    container_id: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLink:
    """A link; or one direction of a 0.9.1 channel, which has no name and no address."""

    identity: str
    name: str
    direction: str
    """``in`` from publishers, ``out`` to consumers."""
    address: str


class LinkStanding(NamedTuple):
    """The flow state of a link now."""

    delivery_count: int
    """A serial number of 32 bits [2.6.7]."""
    link_credit: int


class StageStanding(NamedTuple):
    """The stage credit of a stage now."""

    blocks: int
    """How often it became blocked, of all time."""
    blocked: bool
    held_up_by: str
    """The stages that block it, or blocked it last."""


class Settled(Enum):
    """What became of messages: the publisher's answer, or the consumer's."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"
    MODIFIED = "modified"


class LinkRecorder(Protocol):
    """Notes about one link."""

    def transferred(self, n: int) -> None:
        """So many messages came in, or went out to the socket."""

    def settled(self, n: int, outcome: Settled) -> None:
        """So many were answered."""

    def changed(self) -> None:
        """The link credit may be another."""

    def detached(self) -> None:
        """The link is over. Nothing is called after this."""


class StageRecorder(Protocol):
    """Notes about one stage of stage credit."""

    def changed(self) -> None:
        """It became blocked, or ceased to be."""


class FlowFeed(Protocol):
    """The events of one connection, for its own client. What the client does not fetch is dropped, and counted."""

    @property
    def due(self) -> float | None:
        """The monotonic time at which there is something to take; None while there is nothing to come."""

    def take(self) -> bytes | None:
        """The next packed events; None when there are none."""

    def close(self) -> None:
        """The client wants no more."""


class ConnectionRecorder(Protocol):
    """Notes about one connection."""

    def link_attached(self, link: FlowLink, standing: Callable[[], LinkStanding] | None) -> LinkRecorder:
        """A new link. Without ``standing`` it has no link credit (0.9.1)."""

    def stage(self, kind: str, name: str, standing: Callable[[], StageStanding]) -> StageRecorder:
        """A stage that this connection's messages pass: a "reader", "channel" or "queue"."""

    def window_closed(self, session: str, side: str) -> None:
        """An incoming-window is used up or closed: that of the "broker" or of the "client"."""

    def window_opened(self, session: str, side: str) -> None:
        """It is open again. Nothing happens when it was not closed."""

    def session_ended(self, session: str) -> None:
        """Its windows are no more."""

    def follow(self, notify: Callable[[], None]) -> FlowFeed:
        """Give the connection's client its own events from now on, beginning with how it stands.

        ``notify`` is called when there is something that should not wait. Only one may follow at a time.
        """

    def closed(self) -> None:
        """The connection is over, or nobody wants its events any more. Nothing is called after this."""


class FlowRecorder(Protocol):
    """Who records."""

    def connection(self, who: FlowConnection, *, followed: bool = False) -> ConnectionRecorder | None:
        """A connection has opened, or (``followed``) its client wants to follow it. None when nobody wants to know."""
