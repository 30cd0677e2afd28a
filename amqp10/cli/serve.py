"""``headgate serve``: run the broker in the foreground."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Parameter

from amqp10.cli.config import read_settings
from amqp10.cli.exits import CommandError, Exit, leaves
from amqp10.serve import serve
from core.access.users import GUEST
from core.config import Settings, load
from core.errors import Invalid
from core.process import headgate_version
from core.server.listener import CannotListen
from core.server.signals import Signals
from core.store.errors import NoSpace, StoreDamaged, StoreFailure, StoreRefused, StoreUnavailable


def serve_command(
    *,
    config: Annotated[
        Path | None, Parameter(env_var="HEADGATE_CONFIG", help="The configuration, a TOML file. Default: none.")
    ] = None,
    listen: Annotated[
        tuple[str, ...],
        Parameter(
            env_var="HEADGATE_LISTEN",
            help="HOST:PORT to listen on; may be given several times. With port 0, any free port.",
        ),
    ] = (),
    data: Annotated[Path | None, Parameter(env_var="HEADGATE_DATA", help="The data folder.")] = None,
    admin: Annotated[
        str | None,
        Parameter(
            env_var="HEADGATE_ADMIN",
            help="HOST:PORT of the admin server with the console and the metrics (default 127.0.0.1:15692), or off.",
        ),
    ] = None,
) -> None:
    """Run the broker until it is interrupted or terminated.

    One line on standard output says that connections are accepted, and where, and where the console is. The log goes to
    standard error. Options go before environment variables, and these before what the configuration says. SIGHUP has it
    read the configuration again.

    For example:

        headgate serve
        headgate serve --config broker.toml
        headgate serve --listen 127.0.0.1:0 --data /tmp/headgate
        headgate serve --admin 127.0.0.1:8080
        headgate serve --admin off
    """
    overrides: dict[str, object] = {}
    if listen:
        overrides["server.listen"] = list(listen)
    if data is not None:
        overrides["data.folder"] = str(data)
    if admin is not None:
        overrides["admin.enabled"] = admin != "off"
        if admin != "off":
            overrides["admin.listen"] = [admin]
    settings = read_settings(config, overrides)

    def ready(addresses: Sequence[tuple[str, int]], console: str) -> None:
        with suppress(OSError):  # the program that started the broker reads no more of its output; clients do connect
            print(ready_line(settings, addresses, pid=os.getpid(), console=console), flush=True)

    try:
        with Signals() as signals:
            read = partial(load, config, overrides)
            trio.run(partial(serve, settings, ready=ready, signals=signals, read=read, config=config))
    except (CannotListen, Invalid, StoreRefused, StoreDamaged, StoreFailure, NoSpace, BaseExceptionGroup) as error:
        first, *others = [(ending(leaf), leaf) for leaf in leaves(error)]
        code, cause = first
        if code is None or any(other is None for other, _ in others):
            raise
        text = cause.strerror if isinstance(cause, CannotListen) else None
        raise CommandError(code, text or str(cause)) from None


def ending(error: BaseException) -> Exit | None:
    """How a broker ends that this has ended; None for a fault of our own."""
    match error:
        case StoreFailure() | NoSpace():
            return Exit.DISK_FAILED
        case StoreDamaged():
            return Exit.DAMAGED
        case StoreUnavailable():
            return Exit.NOT_NOW
        case CannotListen():
            return Exit.NOT_NOW if error.may_pass else Exit.USAGE
        case StoreRefused() | Invalid():
            return Exit.USAGE
        case _:
            return None


def ready_line(settings: Settings, addresses: Sequence[tuple[str, int]], *, pid: int, console: str = "") -> str:
    """What says that the broker is ready: a URL for each address, with guest in it when guest may connect, and what
    there is to say of the console."""
    login = "" if settings.users else f"{GUEST}:{GUEST}@"
    urls = [f"amqp://{login}{f'[{host}]' if ':' in host else host}:{port}" for host, port in addresses]
    return f"Headgate {headgate_version()} is ready at {' and '.join(urls)} (pid {pid}){console and f', {console}'}"
