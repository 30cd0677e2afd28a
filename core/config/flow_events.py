"""Settings of the flow events."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Bytes, Seconds, Unit


class FlowEventsSettings(Section):
    """What the broker records of its own flow control, and where that is kept."""

    enabled: bool = False
    """Whether flow events of all connections are recorded into the stream $flow. Without it nothing is called on any
    hot path; a client that attaches a receiver to /flow/self gets those of its own connection all the same."""

    interval: Seconds = Field(default=0.01, ge=0.001, le=10.0)
    """What happens on a link within this time is added up to one record."""

    pack_interval: Seconds = Field(default=0.1, ge=0.01, le=60.0)
    """How often what was recorded is packed into messages of the stream."""

    ring_records_max: Annotated[int, Unit("records")] = Field(default=10_000, ge=100, le=1_000_000)
    """Records that wait to be packed, about half a KiB each."""

    self_records_max: Annotated[int, Unit("records")] = Field(default=500, ge=10, le=10_000)
    """Records that wait for one receiver of /flow/self."""

    stream_age_max: Seconds = Field(default=86_400.0, ge=60.0, le=31_536_000.0)
    """How long the stream keeps them. It is used when the stream is made, as stream_bytes_max is."""

    stream_bytes_max: Bytes = Field(default=256 * 2**20, ge=2**20, le=2**40)
    """How much the stream keeps."""
