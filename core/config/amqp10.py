"""Settings of the AMQP 1.0 front end, under the specification's names where it has one.

The defaults of the flow control belong together. A publisher gets ``max_link_credit`` and is topped up at half of it,
and only while less than ``unconfirmed_limit`` of its messages wait for their confirm. So at most 85 + 170 = 255
messages of one link are in flight, just under the 256 of ``max_queue_credit``, the batch in which queues hand messages
to consumers. The session window of 400 lets a few such links work at the same time before it limits them, and is topped
up at half too.

The protocol engine has the same defaults (``ConnectionSettings`` and ``SessionLimits``), also for clients. They are
stated twice because the engine is part of a library that goes without the broker, and core knows nothing of AMQP 1.0. A
test compares them (``tests/amqp10/test_serve.py``).
"""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from core.config.section import Section
from core.config.units import Bytes, Messages, Seconds, Transfers, Unit

UINT_MAX = 2**32 - 1
WINDOW_MAX = 2**31 - 1
"""Serial numbers compare only over half their range [RFC 1982]."""

MIN_MAX_FRAME_SIZE = 512
"""[2.8.19]"""


class FlowReasonSettings(Section):
    """Whether and when a peer is told, in the properties of a flow, why its link waits."""

    enabled: bool = True
    """Whether peers are told."""

    after: Seconds = Field(default=0.05, ge=0.0, le=3600.0)
    """How long a link must have waited before its peer is told."""

    per_second_max: Annotated[int, Unit("flows a second and link")] = Field(default=2, ge=1, le=1000)
    """How often the peer of one link may be told."""


class Amqp10Settings(Section):
    """AMQP 1.0: flow control, and the limits that the broker announces."""

    max_incoming_window: Transfers = Field(default=400, ge=1, le=WINDOW_MAX)
    """The incoming-window of a session: how many transfers a client may send on all its links before it must wait."""

    window_top_up: Transfers = Field(default=200, ge=0, le=WINDOW_MAX)
    """The window is opened again when no more than this is left of it."""

    incoming_window_margin: Transfers = Field(default=400, ge=0, le=WINDOW_MAX)
    """How many transfers are tolerated after an alarm has closed the window: those that were in flight already."""

    flow: Literal["fixed", "adaptive"] = "fixed"
    """Whether publishers get the fixed link credit and session window of the next keys, or what suits their distance,
    their queue and their use of it. With ``adaptive``, ``max_link_credit``, ``link_credit_top_up`` and
    ``unconfirmed_limit`` count for nothing, and ``max_incoming_window`` is what a session has besides what its links
    need."""

    link_unconfirmed_bytes_max: Bytes = Field(default=16 * 2**20, ge=1)
    """With ``adaptive``: how many bytes of one link may be under way, allowed or not confirmed. One message always
    may. With ``fixed`` this and the next two keys bound what links get beyond ``max_link_credit``."""

    connection_unconfirmed_bytes_max: Bytes = Field(default=64 * 2**20, ge=1)
    """With ``adaptive``: the same for all publishing links of one connection together."""

    unconfirmed_bytes_max: Bytes = Field(default=256 * 2**20, ge=1)
    """With ``adaptive``: the same for all publishing links of the broker together."""

    max_link_credit: Messages = Field(default=170, ge=1, le=WINDOW_MAX)
    """The link credit that a publisher gets that does not ask for another."""

    wanted_link_credit_max: Messages = Field(default=4096, ge=1, le=WINDOW_MAX)
    """The most link credit that a publisher gets that asks for so much in its attach. Messages of 1 KiB have 6 MiB then
    while they are under way, as half as many more as the link credit may be; 4,096 are two runs of Spark's sink, so
    that it encodes one while the other is confirmed."""

    link_credit_top_up: Messages = Field(default=85, ge=0, le=WINDOW_MAX)
    """A publisher's link credit is set to its maximum again when no more than this is left of it."""

    unconfirmed_limit: Messages = Field(default=170, ge=1, le=WINDOW_MAX)
    """No new link credit while this many messages of the link are not confirmed."""

    unsettled_limit: Messages = Field(default=4096, ge=1, le=WINDOW_MAX)
    """How many messages a session's publishers with the rcv-settle-mode second may leave unsettled, together. While
    there are as many, these publishers get no new link credit. To settle so many one by one takes about 3 ms."""

    connection_publish_rate: Annotated[int, Unit("messages a second; 0 for no limit")] = Field(
        default=0, ge=0, le=10**9
    )
    """How many messages a second the links of one connection may publish, together. A publisher that could send more
    waits for link credit."""

    connection_publish_rate_bytes: Annotated[int, Unit("bytes a second; 0 for no limit")] = Field(
        default=0, ge=0, le=10**9
    )
    """The same for the bytes of the messages."""

    management_link_credit: Messages = Field(default=8, ge=1, le=WINDOW_MAX)
    """The link credit for requests on a /management link; topped up when half is used. A request is one frame at most,
    so eight that wait take up to 1 MiB with the default max_frame_size, as much as unsent_bytes_max. A client whose
    requests all wait until the queues that they declare or delete are on disk gets up to 64 instead, which are recorded
    together, as long as requests of that size have no more bytes than the frames of this key."""

    max_queue_credit: Messages = Field(default=256, ge=1, le=65536)
    """The most messages that a queue hands over for one consumer at a time, whatever its link credit. With ``adaptive``
    this holds for links that send settled; the next two keys hold for the others."""

    queue_grant_min: Messages = Field(default=16, ge=1, le=65536)
    """With ``adaptive``: how many messages a queue hands over at a time for a consumer that is slow to settle, and for
    each new one."""

    queue_grant_max: Messages = Field(default=1024, ge=1, le=65536)
    """With ``adaptive``: the most messages that a queue hands over at a time for a consumer that settles quickly. They
    have no more than ``unsent_bytes_max`` bytes, as far as the size of the last ones tells; one message always may be
    larger. To prepare a message for the other protocol may take 10 µs, so 1,024 of them hold other clients up for 10
    ms."""

    unsent_bytes_max: Bytes = Field(default=2**20, ge=2**16)
    """A connection takes no more messages from queues while this much of its output waits for the socket or a
    window."""

    channel_max: Annotated[int, Unit("the highest channel number")] = Field(default=63, ge=0, le=65535)
    """One less than the number of sessions that a connection may have."""

    handle_max: Annotated[int, Unit("the highest handle")] = Field(default=255, ge=0, le=UINT_MAX)
    """One less than the number of links that a session may have."""

    max_frame_size: Bytes = Field(default=131072, ge=MIN_MAX_FRAME_SIZE, le=UINT_MAX)
    """The largest frame that the broker accepts; a larger message comes in several frames."""

    pre_open_frame_size_max: Bytes = Field(default=8192, ge=MIN_MAX_FRAME_SIZE, le=UINT_MAX)
    """The largest frame accepted before open: enough for large tokens, too small for attacks."""

    max_message_size: Bytes = Field(default=16 * 2**20, ge=1, le=2**32)
    """The largest message that the broker accepts."""

    idle_time_out: Seconds = Field(default=30.0, ge=1.0, le=86400.0)
    """The idle-time-out announced to the peer, which must send a frame within it; after twice as long the peer is cut
    off."""

    idle_time_out_min: Seconds = Field(default=0.1, ge=0.001, le=60.0)
    """The shortest idle-time-out that a peer may ask for; clients use 0.5 s."""

    close_time_out: Seconds = Field(default=5.0, ge=0.1, le=600.0)
    """How long the broker waits for the answer to its close."""

    partial_delivery_bytes_max: Bytes = Field(default=64 * 2**20, ge=1)
    """How many bytes of incomplete deliveries one connection may have, all links together."""

    frames_per_turn_max: Annotated[int, Unit("frames, a run counts as one")] = Field(default=128, ge=1, le=2**20)
    """How much input of one connection is processed before other connections get their turn."""

    flow_reason: FlowReasonSettings = FlowReasonSettings()

    @property
    def publisher_link_credit_max(self) -> int:
        """The most link credit of a publisher where no policy bounds it."""
        return self.max_link_credit if self.flow == "fixed" else WINDOW_MAX

    @field_validator("window_top_up")
    @classmethod
    def _below_window(cls, top_up: int, info: ValidationInfo) -> int:
        return _not_above(top_up, info, "max_incoming_window")

    @field_validator("queue_grant_max")
    @classmethod
    def _not_below_min(cls, most: int, info: ValidationInfo) -> int:
        least = info.data.get("queue_grant_min")
        if least is not None and most < least:
            raise ValueError(f"must not be less than queue_grant_min, which is {least}")
        return most

    @field_validator("link_credit_top_up")
    @classmethod
    def _below_link_credit(cls, top_up: int, info: ValidationInfo) -> int:
        return _not_above(top_up, info, "max_link_credit")


def _not_above(value: int, info: ValidationInfo, name: str) -> int:
    """Reject a top-up point at the maximum, which would answer every message with a flow, or above it."""
    limit = info.data.get(name)
    if limit is not None and value >= limit:
        raise ValueError(f"must be less than {name}, which is {limit}")
    return value
