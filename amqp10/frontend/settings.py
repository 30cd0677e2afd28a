"""The settings of the AMQP 1.0 front end. :mod:`amqp10.serve` fills them from the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from amqp10.errors import ConnectionFault, ErrorCondition
from amqp10.protocol.session import SessionLimits

HOST_PREFIX = "vhost:"
"""A hostname in the open that begins so selects a virtual host; other hostnames only name the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amqp10FrontEndSettings:
    """What the broker announces and allows on AMQP 1.0. Counts are messages, sizes are bytes."""

    container_id: str = "headgate"
    virtual_host: str = "/"
    max_frame_size: int = 131_072
    pre_open_frame_size_max: int = 8_192
    channel_max: int = 63
    idle_time_out_ms: int = 30_000
    idle_time_out_min_ms: int = 100
    close_time_out_ms: int = 5_000
    session: SessionLimits = field(default_factory=SessionLimits)
    max_message_size: int = 16 * 1024 * 1024
    partial_delivery_bytes_max: int = 64 * 1024 * 1024
    frames_per_turn_max: int = 128
    """Frames of one connection (a run counts as one) before the other connections get their turn. At 10 µs each, a peer
    that sends the most expensive frames delays the others by 5 ms."""
    work_per_turn_max: int = 2_000
    """Units of :mod:`core.work` that one connection may cause before the other connections get their turn."""
    unsent_bytes_max: int = 1024 * 1024
    max_link_credit: int = 170
    """Link credit of a publisher. At most 170 + 85 messages of one publisher are in the broker: below 256."""
    link_credit_top_up: int = 85
    """A publisher gets link credit again when at most this is left: half."""
    unconfirmed_limit: int = 170
    """No top-up while so many messages of the link wait for the engine's answer."""
    management_link_credit: int = 8
    """Requests that a client may pipeline on a management link."""
    management_top_up: int = 4
    max_queue_credit: int = 256
    """A consumer's queue grant comes in batches of at most this many, whatever link credit its client gives."""
    reasons: bool = True
    """Tell peers why they wait, in the properties of link flows."""
    reason_after_ms: int = 50
    """A block is reported when it has lasted this long."""
    reason_interval_ms: int = 500
    """No more than two reasons a second on one link."""
    properties: Mapping[str, object] = field(default_factory=dict)
    """Connection properties of our open: product, version, platform."""

    def host_fault(self, hostname: str | None) -> ConnectionFault | None:
        """What ends a connection whose open has this hostname; None if it asks for no other virtual host."""
        wanted = (hostname or "").removeprefix(HOST_PREFIX)
        if wanted == (hostname or "") or wanted == self.virtual_host:
            return None
        text = f"there is no virtual host {wanted!r}; this broker has {self.virtual_host!r}"
        return ConnectionFault(ErrorCondition.NOT_FOUND, text)
