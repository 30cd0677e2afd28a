"""Makes an admin server from its settings. Modules outside of core.admin that need a server import only this module.

What answers requests is loaded when the first client connects; see :mod:`core.admin.serving`.
"""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from structlog.typing import FilteringBoundLogger

from core.admin.console.login_link import LoginLink, link_url
from core.admin.encrypted import EncryptedStream
from core.admin.sampling import Sampling, record
from core.admin.serving import AdminServer
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.errors import Invalid
from core.observe.scrape import MetricSources
from core.server.run import read_clocks

if TYPE_CHECKING:
    from core.admin.service import AdminService

TOKEN_BYTES_MIN = 16
TOKEN_BYTES_MAX = 1024


async def open_admin_server(
    settings: AdminSettings,
    *,
    sources: MetricSources,
    control: BrokerControl,
    traffic: Mapping[str, Traffic],
    encrypt: Callable[[trio.SocketStream], EncryptedStream] | None = None,
    log: FilteringBoundLogger,
) -> AdminServer:
    """Return a server that listens; its ``run`` serves.

    Raises CannotListen, and Invalid for a token that cannot be read or used.
    """
    overview, timelines = record(control, settings, traffic=traffic, clock=read_clocks)
    token, second = settings.token_file, settings.read_token_file
    own_token = None if token is None else read_token(token)
    own_read_token = None if second is None else read_token(second, "admin.read_token_file")
    started = sources.monotonic()
    secret, login_link = LoginLink.make(random_bytes=secrets.token_bytes, monotonic=lambda: read_clocks().monotonic)

    def load() -> "AdminService":
        from core.admin.service import make_service

        return make_service(
            settings,
            token=own_token,
            read_token=own_read_token,
            login_link=login_link,
            control=control,
            overview=overview,
            sources=sources,
            started=started,
            clock=read_clocks,
            encrypt=encrypt,
            log=log,
        )

    sampling = Sampling(overview=overview, timelines=timelines)
    server = AdminServer(load, settings=settings, log=log, background=[sampling.run])
    await server.open()
    if settings.users_only or own_token is not None:
        server.login_url = link_url("https" if settings.tls else "http", server.listening_on, secret)
    return server


def read_token(path: Path, setting: str = "admin.token_file") -> bytes:
    """Return the token in a file, without surrounding white space. Raises Invalid, without the token in its text."""
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise Invalid(f"cannot read {setting} {path}: {error.strerror}") from error
    if not TOKEN_BYTES_MIN <= len(token) <= TOKEN_BYTES_MAX or not token.isascii() or b" " in token:
        raise Invalid(
            f"{setting} {path} must have one token of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} ASCII characters"
        )
    return token
