"""Settings of the flow events."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Bytes, Seconds, Unit


class FlowEventsSettings(Section):
    """What the broker records about its own flow control, and where it keeps that."""

    enabled: bool = False
    """Whether flow events of all connections are recorded into the stream $flow. Without it no hot path is burdened. A
    client that attaches a receiver to /flow/self gets the events of its own connection in either case."""

    interval: Seconds = Field(default=0.01, ge=0.001, le=10.0)
    """The events on a link within this time are added up into one record."""

    pack_interval: Seconds = Field(default=0.1, ge=0.01, le=60.0)
    """How often records are packed into messages of the stream."""

    ring_records_max: Annotated[int, Unit("records")] = Field(default=10_000, ge=100, le=1_000_000)
    """Records that wait to be packed, about half a KiB each."""

    self_records_max: Annotated[int, Unit("records")] = Field(default=500, ge=10, le=10_000)
    """Records that wait for one receiver of /flow/self."""

    stream_age_max: Seconds = Field(default=86_400.0, ge=60.0, le=31_536_000.0)
    """How long the stream keeps messages. Like stream_bytes_max it takes effect when the stream is declared."""

    stream_bytes_max: Bytes = Field(default=256 * 2**20, ge=2**20, le=2**40)
    """How many bytes of messages the stream keeps."""
