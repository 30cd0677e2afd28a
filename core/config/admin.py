"""Settings of the admin server: metrics, health and the API over HTTP."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from core.config.address import is_loopback, parse_address
from core.config.section import Section
from core.config.units import Bytes, Connections, FilePath, Seconds, Unit


class AdminSettings(Section):
    """Metrics, health checks, the API and the console over HTTP, on a port of their own."""

    enabled: bool = True
    """Whether there is an admin server. The code that answers its clients is loaded for the first of them, and takes
    9 MiB. When nothing is set in this table and its address is taken, the broker starts without it and says so; once
    anything is set, that is an error."""

    token_file: FilePath | None = None
    """A file with the token, of 16 characters or more, that requests must carry: Authorization: Bearer TOKEN. Health
    checks need none. When not set, no request needs a token."""

    read_token_file: FilePath | None = None
    """A file with a second token, which allows to read everything and change nothing. Only beside a token_file."""

    users_only: bool = False
    """Whether every request must carry a token, or the name and the password of a user: Authorization: Basic. When not
    set, and without a token_file, a request from this machine that carries neither may do everything."""

    listen: tuple[str, ...] = Field(default=("127.0.0.1:15692",), min_length=1, strict=False)
    """Addresses to listen on, HOST:PORT. Any that is not a loopback address needs a token_file."""

    tls: bool = False
    """Whether all of these addresses use TLS, with the certificates of [tls]."""

    hosts: tuple[str, ...] = Field(default=(), strict=False)
    """Further names that a request's Host field may have, without a port. The hosts of listen, the address of the
    connection and the loopback names need not be listed."""

    connections_max: Connections = Field(default=32, ge=1, le=1000)
    """Connections served at once."""

    request_time_out: Seconds = Field(default=10.0, ge=0.1, le=600.0)
    """From accept to the last byte of the answer, in all. A client that takes longer is cut off."""

    request_head_max: Bytes = Field(default=16 * 1024, ge=1024, le=2**20)
    """Size of a request line with its header fields."""

    body_max: Bytes = Field(default=64 * 1024, ge=1024, le=2**24)
    """Size of a request's body. Only requests that change something have one, and only definitions more than 64 KiB."""

    links_max: Annotated[int, Unit("links")] = Field(default=1000, ge=1, le=100_000)
    """Links that one answer of /metrics/links shows."""

    live_clients_per_user_max: Annotated[int, Unit("clients")] = Field(default=8, ge=1, le=100)
    """The most clients of the live stream of one user. Fewer than live_clients_max leave places for other users."""

    live_clients_max: Annotated[int, Unit("clients")] = Field(default=8, ge=1, le=100)
    """Clients that follow /api/headgate/live at once. Each also takes one of connections_max."""

    session_idle: Seconds = Field(default=30 * 60.0, ge=1.0, le=24 * 3600.0)
    """A login of the console ends when no request came with it for so long. A page that can be seen makes a request
    every second or two."""

    session_age_max: Seconds = Field(default=12 * 3600.0, ge=1.0, le=30 * 24 * 3600.0)
    """A login of the console ends so long after it began, whether it is used or not."""

    sessions_max: Annotated[int, Unit("logins")] = Field(default=100, ge=1, le=1000)
    """Logins of the console that last at once. Of one user there are 16 at most."""

    timelines_max: Annotated[int, Unit("things")] = Field(default=500, ge=0, le=10_000)
    """Links with time lines of five minutes, and as many sessions, channels and queues. 20 KiB for each."""

    flow_map_max: Annotated[int, Unit("edges")] = Field(default=500, ge=1, le=10_000)
    """Edges that the flow map shows: the most blocked first, then the busiest."""

    @property
    def asked_for(self) -> bool:
        """Whether any of these settings was set. Then a start without the admin server is an error."""
        return bool(self.model_fields_set)

    @field_validator("read_token_file")
    @classmethod
    def _beside_a_token(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("token_file") is None:
            raise ValueError("needs a token_file: without one, any client of the API could change everything")
        return path

    @field_validator("listen")
    @classmethod
    def _addresses(cls, listen: Iterable[str], info: ValidationInfo) -> Iterable[str]:
        for address in listen:
            host, _ = parse_address(address)
            if not is_loopback(host) and info.data.get("token_file") is None:
                raise ValueError("can be reached from other machines; set admin.token_file or listen on 127.0.0.1")
        return listen
