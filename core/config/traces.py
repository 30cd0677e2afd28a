"""Settings of traces."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from core.config.section import Section
from core.config.units import Seconds, Unit


class TraceSettings(Section):
    """Spans of OpenTelemetry that show how messages went through the broker. There are none while endpoint is empty,
    and then no hot path is burdened."""

    endpoint: str = Field(default="", max_length=2048)
    """Where spans are sent, by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces. This needs the extra
    headgate[traces]."""

    sample_rate: Annotated[float, Unit("share of messages")] = Field(default=0.0, ge=0.0, le=1.0)
    """The share of messages without a traceparent that are traced. Messages with one are traced when it says that they
    are sampled, and never otherwise."""

    messages_max: Annotated[int, Unit("messages")] = Field(default=10_000, ge=10, le=1_000_000)
    """Traced messages that are followed at once: not yet answered, in queues, and with consumers, each so many."""

    spans_max: Annotated[int, Unit("spans")] = Field(default=10_000, ge=10, le=1_000_000)
    """Spans that wait to be sent, about half a KiB each."""

    export_interval: Seconds = Field(default=1.0, ge=0.01, le=60.0)
    """How often spans are sent."""

    export_time_out: Seconds = Field(default=10.0, ge=0.1, le=60.0)
    """How long sending spans may take, with its retries; they are lost then."""

    @field_validator("endpoint")
    @classmethod
    def _is_url(cls, endpoint: str) -> str:
        try:
            parts = urlsplit(endpoint)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"must be http[s]://HOST[:PORT]/PATH: {error}") from None
        if endpoint and (parts.scheme not in ("http", "https") or not host or parts.username is not None):
            raise ValueError("must be http[s]://HOST[:PORT]/PATH, without a user")
        return endpoint
