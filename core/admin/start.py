"""Makes an admin server from its settings. Modules outside of core.admin that need a server import only this module.

Importing this module loads prometheus-client, starlette and hypercorn, which take some megabytes. So it is imported
only if the broker is to have an admin server.
"""

from collections.abc import Mapping
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from core.admin.api.opening import live_feed, make_api, record
from core.admin.application import LinkCollector, admin_application
from core.admin.exposition import Collector
from core.admin.health import Health
from core.admin.sampling import Sampling
from core.admin.serving import AdminServer
from core.admin.signing_in import SignIn
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.errors import Invalid
from core.server.run import read_clocks

TOKEN_BYTES_MIN = 16
TOKEN_BYTES_MAX = 1024


async def open_admin_server(
    settings: AdminSettings,
    *,
    health: Health,
    collect: Collector,
    collect_links: LinkCollector,
    control: BrokerControl,
    traffic: Mapping[str, Traffic],
    log: FilteringBoundLogger,
) -> AdminServer:
    """Return a server that listens; its ``run`` serves.

    Raises CannotListen, and Invalid for a token that cannot be read or used.
    """
    overview, timelines = record(control, settings, traffic=traffic, clock=read_clocks)
    live = live_feed(control, overview, clients_max=settings.live_clients_max, clock=read_clocks)
    app = admin_application(
        settings=settings,
        token=None if settings.token_file is None else read_token(settings.token_file),
        read_token=None
        if settings.read_token_file is None
        else read_token(settings.read_token_file, "admin.read_token_file"),
        sign_in=None if control.access is None else SignIn(control.access),
        api=make_api(control, live, body_max=settings.body_max, log=log),
        health=health,
        collect=collect,
        collect_links=collect_links,
        log=log,
    )
    sampling = Sampling(overview=overview, timelines=timelines)
    server = AdminServer(app, settings=settings, log=log, background=[sampling.run, live.run])
    await server.open()
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
