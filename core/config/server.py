"""Settings of the server: where it listens, how many connections it admits, how long it waits."""

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from core.config.address import parse_address
from core.config.section import Section
from core.config.units import Connections, Seconds, Unit


class ServerSettings(Section):
    """Sockets and connections, whatever the protocol."""

    listen: tuple[str, ...] = Field(default=("127.0.0.1:5672",), strict=False)
    """Addresses to listen on without TLS, HOST:PORT. Any that is not a loopback address needs [[users]]. The list may
    be empty beside tls_listen."""

    tls_listen: tuple[str, ...] = Field(default=(), strict=False)
    """Addresses to listen on with TLS, HOST:PORT; the usual port is 5671. They need tls.certificate and tls.key."""

    proxy_from: tuple[str, ...] = Field(default=(), strict=False)
    """Networks of proxies, such as 10.0.0.0/8, whose connections begin with the PROXY protocol, version 1 or 2, which
    tells where the client is. A connection from there without it is refused; from elsewhere it is not understood."""

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

    stop_spread: Seconds = Field(default=0.0, ge=0.0, le=3600.0)
    """Over how long a stop spreads its closes, so that thousands of clients do not connect to other brokers at the
    same moment. Connections that were not closed yet are served meanwhile. With 0 all are closed at once."""

    stop_grace: Seconds = Field(default=5.0, ge=0.0, le=3600.0)
    """How long a stop waits for the peers to close before it cuts them off."""

    frame_taps_max: Connections = Field(default=4, ge=0, le=1000)
    """Connections whose frames operators may trace at the same time (headgate trace frames)."""

    rounds_per_wake_up_max: Annotated[int, Unit("engine turns")] = Field(default=8, ge=1, le=1000)
    """How often the engine and the peers alternate after one peer's input, before other peers get their turn."""

    @field_validator("listen", "tls_listen")
    @classmethod
    def _addresses(cls, listen: Iterable[str]) -> Iterable[str]:
        for address in listen:
            parse_address(address)
        return listen

    @field_validator("proxy_from")
    @classmethod
    def _networks(cls, networks: Iterable[str]) -> Iterable[str]:
        for network in networks:
            ip_network(network)
        return networks

    @model_validator(mode="after")
    def _some_address(self) -> Self:
        if not self.listen and not self.tls_listen:
            raise ValueError("must have an address in listen or in tls_listen")
        return self
