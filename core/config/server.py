"""Settings of the server: where it listens, how many connections it admits, how long it waits."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, field_validator

from core.config.address import parse_address
from core.config.section import Section
from core.config.units import Connections, Seconds, Unit


class ServerSettings(Section):
    """Sockets and connections, whatever the protocol."""

    listen: tuple[str, ...] = Field(default=("127.0.0.1:5672",), min_length=1, strict=False)
    """Addresses to listen on, HOST:PORT. Any that is not a loopback address needs [[users]]."""

    connections_max: Connections | None = Field(default=None, ge=1)
    """Connections served at once. When not set: the limit on open files, less a reserve of 64."""

    unauthenticated_max: Connections = Field(default=4096, ge=1)
    """Connections of all peers whose handshake is not complete."""

    unauthenticated_per_host_max: Connections = Field(default=1024, ge=1)
    """Connections of one remote address whose handshake is not complete."""

    accept_backlog: Connections = Field(default=1024, ge=1, le=65535)
    """Connections that the operating system queues for the broker."""

    handshake_time_out: Seconds = Field(default=5.0, ge=0.1, le=600.0)
    """From accept to open, in all. A peer that takes longer is cut off."""

    linger: Seconds = Field(default=1.0, ge=0.0, le=60.0)
    """How long a peer may take to read the good-bye and to close."""

    drain_time: Seconds = Field(default=0.0, ge=0.0, le=3600.0)
    """How long a stop first lets consumers settle their deliveries, as headgate drain does. With 0 it does not wait:
    unsettled deliveries return to their queues, and are delivered again."""

    stop_grace: Seconds = Field(default=5.0, ge=0.0, le=3600.0)
    """How long a stop waits for the peers to close before it cuts them off."""

    frame_taps_max: Connections = Field(default=4, ge=0, le=1000)
    """Connections whose frames operators may trace at the same time (headgate trace frames)."""

    rounds_per_wake_up_max: Annotated[int, Unit("engine turns")] = Field(default=8, ge=1, le=1000)
    """How often the engine and the peers alternate after one peer's input, before other peers get their turn."""

    @field_validator("listen")
    @classmethod
    def _addresses(cls, listen: Iterable[str]) -> Iterable[str]:
        for address in listen:
            parse_address(address)
        return listen
