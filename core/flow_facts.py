"""The facts about flow on a connection that front ends report to the recorder of flow events.

The recorder is :class:`core.observe.flow_events.recorder.FlowEvents`. Front ends call it per run, never per message.
Where nothing is recorded, they hold None and call nothing. The recorder adds up and takes notes; it returns no answer,
raises nothing and changes nothing.

The recorder reads the counters of a link or stage itself, when its record is due: :class:`LinkFlowState` and
:class:`StageCreditState`. So a front end only reports that something has changed.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from core.virtual_hosts import VIRTUAL_HOST

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


class LinkFlowState(NamedTuple):
    """The flow state of a link now."""

    delivery_count: int
    """A serial number of 32 bits [2.6.7]."""
    link_credit: int
    session_window: int = 0
    """Transfer frames that the session may still send in the direction of the link."""
    window: "LinkWindowState | None" = None
    """What the link credit of a publisher follows; None where it is fixed."""
    limited_by: str = ""
    """What limits a publisher now, if that is known."""


class LinkWindowState(NamedTuple):
    """The window of a publisher with adaptive flow control."""

    messages: int
    """How many may be under way."""
    round_trip_ms: float
    used_per_second: int
    share_per_second: int | None
    """What its target lets it send; None while the target was never busy."""


class StageCreditState(NamedTuple):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """Who is at the other end of a connection, as this node tells other nodes, and they show it."""

    user: str
    connection: str
    """The name of the connection on the node to which the client has connected."""
    container_id: str
    """What the client calls itself: the container-id, or the name of a connection of AMQP 0.9.1."""
    peer: str
    """HOST:PORT of the client."""
    node: str = ""
    """The node to which the client has connected; "" for this one."""

    def shown(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "user": self.user,
            "connection": self.connection,
            "container_id": self.container_id,
            "peer": self.peer,
            "node": self.node,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSubject:
    """What may stand still: a link of AMQP 1.0, or a connection's reader of AMQP 0.9.1 (named as the connection)."""

    identity: str
    connection: str
    peer: str
    container_id: str
    user: str
    direction: str
    """``in`` from publishers, ``out`` to consumers."""
    address: str
    """Behind the name of a virtual host other than the default; "" for a reader and for the anonymous terminus."""
    virtual_host: str = VIRTUAL_HOST
