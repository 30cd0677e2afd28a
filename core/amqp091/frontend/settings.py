"""The settings of the AMQP 0.9.1 front end. The process fills them from the configuration."""

from dataclasses import dataclass, field

from core.amqp091.connection import Amqp091ConnectionSettings
from core.credit_flow.flow import StageCreditSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Amqp091FrontEndSettings:
    """The limits that the broker announces and enforces on AMQP 0.9.1. Counts are messages unless they say
    otherwise."""

    connection: Amqp091ConnectionSettings
    virtual_host: str = "/"
    stage_credit: StageCreditSpec = field(default_factory=lambda: StageCreditSpec(400, 200))
    """The stage credit that a channel grants to the reader."""
    channel_messages_per_turn: int = 200
    """Published messages that a channel processes in one turn: its stage's budget. 0 stops it."""
    waiting_methods_max: int = 1_000
    """Methods other than publishes that wait behind the stages of a connection's channels, all together, before the
    reader stops."""
    events_per_turn_max: int = 128
    """Methods of one connection (a run counts as one) before other connections get their turn. At 20 µs each, a peer
    that sends only the most expensive methods holds up other connections for 3 ms."""
    work_per_turn_max: int = 2_000
    """Units of :mod:`core.work` that one connection may cause before other connections get their turn."""
    max_queue_credit: int = 256
    """A consumer's queue grant is at most this many messages, whatever its prefetch-count."""
    unsent_bytes_max: int = 1024 * 1024
    """There are no new queue grants while more bytes wait for the socket."""
    transaction_bytes_max: int = 64 * 1024 * 1024
    """Bytes of messages that wait for a channel's tx.commit."""
    transaction_acks_max: int = 100_000
    """Acknowledgements that wait for a channel's tx.commit; consecutive tags in a run count as one. At most about 300
    bytes each."""
    consumers_max: int = 10_000
    """Consumers of one connection."""
