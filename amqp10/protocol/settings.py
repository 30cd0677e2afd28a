"""What one side of a connection announces and allows, and the limits of its sessions [2.7.1, 2.7.2].

This module must not know where the values come from: a configuration, or the arguments of a client.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from amqp10.wire.performatives import Open


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """The limits of a session. Windows are transfer frames."""

    max_incoming_window: int = 400
    """Transfers that the peer may send before it needs our next flow."""
    window_top_up: int = 200
    """The window is restored when at most this is left: half, so that one flow covers 200 transfers."""
    incoming_window_margin: int = 400
    """Transfers tolerated after an alarm closed the window: all that can have been in flight."""
    unsettled_limit: int = 4_096
    """Deliveries on links with the rcv-settle-mode second that the sender may leave unsettled before these links get no
    more link credit. To settle so many, each a range of its own, takes about 3 ms."""
    handle_max: int = 255
    """256 links a session."""
    initial_outgoing_id: int = 0
    """Our first transfer-id. Some clients never read it and assume 0."""


def no_more(remote: Open | None) -> Mapping[str, object]:
    """An open that has the same properties for each peer."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What one side of a connection announces and allows.

    The broker's configuration states the same defaults again, since neither may import the other: this library goes
    without the broker, and the broker's core goes without AMQP 1.0. A test compares them (tests/amqp10/test_serve.py).
    """

    container_id: str
    hostname: str | None = None
    max_frame_size: int = 131_072
    """Bytes of the largest frame we take. 128 KiB, as other brokers announce."""
    channel_max: int = 63
    """64 sessions a connection."""
    idle_time_out_ms: int | None = 30_000
    """Announced to the peer; a peer that sends nothing for twice as long is considered gone [2.4.5]. None: never."""
    idle_time_out_min_ms: int = 100
    """The shortest idle-time-out that we accept from a peer. Clients use 500 ms."""
    close_time_out_ms: int = 5_000
    """How long we wait for the answer to our close."""
    pre_open_frame_size_max: int = 8_192
    """Bytes of the largest frame before the open: enough for a SASL token, and a small bound on the memory that an
    unauthenticated peer can fill."""
    partial_delivery_bytes_max: int = 64 * 1024 * 1024
    """Bytes of deliveries that are not complete yet, over all links."""
    unsent_bytes_max: int = 1024 * 1024
    """Bytes that may wait for the socket before deliveries are held back."""
    run_frames_max: int = 256
    """Frames that the fast path takes as one run: a bound on the work between two checks of the time."""
    frames_per_turn_max: int = 2**31
    """Frames (a run counts as one) that are taken in one turn, before the owner serves its other connections. An owner
    of a single connection needs no limit."""
    session: SessionLimits = field(default_factory=SessionLimits)
    properties: Mapping[str, object] = field(default_factory=dict)
    more_properties: Callable[[Open | None], Mapping[str, object]] = no_more
    """Returns what our open has in addition, by the peer's open where that came first."""
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
