"""The interface through which front ends report the flow on their connections to a recorder of flow events.

Front ends call a recorder per run, never per message. Where nothing is recorded, they hold None and call nothing. A
recorder adds up and takes notes; it returns no answer, raises nothing and changes nothing.

The recorder reads the counters of a link or stage itself, when its record is due: :data:`LinkStanding` and
:data:`StageStanding`. So a front end only reports that something has changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

FLOW_STREAM = "$flow"
"""The stream in which flow events are kept. Links to and from it are not recorded, or it would feed on itself."""
PACKET_CONTENT_TYPE = "application/cbor-seq"
"""The content type of a message that carries flow events [RFC 8742]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConnection:
    """A connection, with the names that its events carry."""

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
    """How often it has become blocked since it began."""
    blocked: bool
    held_up_by: str
    """The stages that block it, or blocked it last."""


class Settled(Enum):
    """How messages were settled, by the broker for a publisher or by the consumer."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"
    MODIFIED = "modified"


class LinkRecorder(Protocol):
    """Records the flow on one link."""

    def transferred(self, n: int) -> None:
        """Note that ``n`` messages came in, or went out to the socket."""

    def settled(self, n: int, outcome: Settled) -> None:
        """Note that ``n`` messages were settled."""

    def changed(self) -> None:
        """Note that the link credit may have changed."""

    def detached(self) -> None:
        """Note that the link has ended. No method is called after this."""


class StageRecorder(Protocol):
    """Records one stage of stage credit."""

    def changed(self) -> None:
        """Note that the stage has become blocked, or is not blocked any more."""


class FlowFeed(Protocol):
    """The events of one connection, for its own client. Events that the client does not fetch in time are dropped and
    counted."""

    @property
    def due(self) -> float | None:
        """The monotonic time at which there is something to take; None while nothing is expected."""

    def take(self) -> bytes | None:
        """Take the next packed events; None when there are none."""

    def close(self) -> None:
        """End the feed: the client wants no more."""


class ConnectionRecorder(Protocol):
    """Records the flow on one connection."""

    def link_attached(self, link: FlowLink, standing: Callable[[], LinkStanding] | None) -> LinkRecorder:
        """Note a new link. One without ``standing`` has no link credit (0.9.1)."""

    def stage(self, kind: str, name: str, standing: Callable[[], StageStanding]) -> StageRecorder:
        """Note a stage that this connection's messages pass: a "reader", "channel" or "queue"."""

    def window_closed(self, session: str, side: str) -> None:
        """Note that an incoming-window is used up or closed: that of the "broker" or of the "client"."""

    def window_opened(self, session: str, side: str) -> None:
        """Note that it is open again. Ignored when it was not closed."""

    def session_ended(self, session: str) -> None:
        """Note that a session has ended, and its windows with it."""

    def follow(self, notify: Callable[[], None]) -> FlowFeed:
        """Give the connection's client its own events from now on, beginning with the present state.

        ``notify`` is called when there is an event that should not wait. Only one feed at a time is possible.
        """

    def closed(self) -> None:
        """Note that the connection has closed, or that its events are not wanted any more. No method is called after
        this."""


class FlowRecorder(Protocol):
    """Records flow events."""

    def connection(self, who: FlowConnection, *, followed: bool = False) -> ConnectionRecorder | None:
        """Begin to record a connection that has opened, or (``followed``) whose client follows it. None when that is
        not wanted."""
