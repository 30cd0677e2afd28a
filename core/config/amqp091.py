"""Settings of the AMQP 0.9.1 front end, under the specification's names where it has one.

Stage credit, which limits its publishers, has a section of its own.
"""

from typing import Annotated

from pydantic import Field, model_validator

from core.config.section import Section
from core.config.units import Bytes, Messages, Seconds, Unit

FRAME_MIN_SIZE = 4096
"""[0-9-1 4.2.3]"""


class Amqp091Settings(Section):
    """AMQP 0.9.1: the limits that the broker announces, and those of messages and methods that wait in it."""

    frame_max: Bytes = Field(default=131_072, ge=FRAME_MIN_SIZE, le=2**31 - 1)
    """The largest frame that the broker accepts; a larger message comes in several frames."""

    channel_max: Annotated[int, Unit("the highest channel number")] = Field(default=2047, ge=1, le=65_535)
    """How many channels a connection may have."""

    heartbeat: Annotated[int, Unit("seconds")] = Field(default=60, ge=0, le=65_535)
    """Offered to the peer, which chooses; a peer that is silent for twice as long is cut off. 0 offers none."""

    close_time_out: Seconds = Field(default=5.0, ge=0.1, le=600.0)
    """How long the broker waits for the answer to its close."""

    max_message_size: Bytes = Field(default=16 * 2**20, ge=1, le=2**32)
    """The largest message that the broker accepts."""

    partial_content_bytes_max: Bytes = Field(default=64 * 2**20, ge=1)
    """How many bytes of incomplete messages one connection may have, all channels together."""

    events_per_turn_max: Annotated[int, Unit("methods, a run counts as one")] = Field(default=128, ge=1, le=2**20)
    """How much input of one connection is processed before other connections get their turn."""

    waiting_methods_max: Annotated[int, Unit("methods")] = Field(default=1_000, ge=1, le=2**20)
    """Methods other than publishes that wait behind a channel's stage, before the broker stops reading."""

    max_queue_credit: Messages = Field(default=256, ge=1, le=65536)
    """The most messages that a queue hands over for one consumer at a time, whatever its prefetch-count."""

    unsent_bytes_max: Bytes = Field(default=2**20, ge=2**16)
    """A connection takes no more messages from queues while this much of its output waits for the socket."""

    transaction_bytes_max: Bytes = Field(default=64 * 2**20, ge=1)
    """How many bytes of messages may wait for the tx.commit of one channel."""

    transaction_acks_max: Annotated[int, Unit("acknowledgements")] = Field(default=100_000, ge=1)
    """How many acknowledgements may wait for the tx.commit of one channel; consecutive tags in a run count as one. Each
    takes about 300 bytes at most."""

    consumers_max: Annotated[int, Unit("consumers")] = Field(default=10_000, ge=1)
    """Consumers of one connection, all channels together."""

    @model_validator(mode="after")
    def _largest_message_fits(self) -> "Amqp091Settings":
        if self.max_message_size > self.partial_content_bytes_max:
            raise ValueError(
                f"max_message_size ({self.max_message_size}) must not be more than partial_content_bytes_max"
                f" ({self.partial_content_bytes_max}): such a message could never come"
            )
        return self
