"""Runs the broker for ``headgate serve``: its settings, the line that says that it is ready, and how it ends."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from amqp10.cli.config import all_overrides, read_with_origins
from amqp10.cli.exits import CommandError, Exit, leaves
from amqp10.serve import serve
from core.access.users import GUEST
from core.config import Settings, load
from core.errors import Invalid
from core.process import headgate_version
from core.server.listener import CannotListen
from core.server.signals import Signals
from core.standard_streams import print_notice
from core.store.errors import NoSpace, StoreDamaged, StoreFailure, StoreRefused, StoreUnavailable


def run_broker(
    config: Path | None,
    *,
    listen: Sequence[str],
    data: Path | None,
    admin: str | None,
    changes: Sequence[str],
    dev: bool,
    nodes: int | None,
) -> None:
    """Serve until the broker is interrupted or terminated. An option overrides the configuration. With ``dev`` the data
    folder is thrown away at the end. With ``nodes`` that many processes serve, on the same addresses.

    Raises CommandError for settings that cannot be used, and when the broker cannot start or has failed.
    """
    if not dev:
        _run_broker(config, listen=listen, data=data, admin=admin, changes=changes, nodes=nodes)
        return
    if data is not None:
        raise CommandError(Exit.USAGE, "--dev throws its data away: leave out --data, or leave out --dev")
    memory = Path("/dev/shm")  # files that are never written to a disk, where the system has such a place
    with TemporaryDirectory(prefix="headgate-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        _run_broker(config, listen=listen, data=Path(folder), admin=admin, changes=changes, nodes=nodes)


def _run_broker(
    config: Path | None,
    *,
    listen: Sequence[str],
    data: Path | None,
    admin: str | None,
    changes: Sequence[str],
    nodes: int | None,
) -> None:
    """Serve until the broker is interrupted or terminated.

    Raises CommandError for settings that cannot be used, and when the broker cannot start or has failed.
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
    if nodes is not None:
        from amqp10.cli.nodes import run_nodes

        run_nodes(nodes, config, changes=changes, overrides=overrides, ready_line=ready_line)
        return
    settings, _ = read_with_origins(config, changes, overrides)
    given, origins = all_overrides(changes, overrides)

    def ready(addresses: Sequence[tuple[str, int]], console: str, encrypted: Sequence[tuple[str, int]]) -> None:
        print_notice(ready_line(settings, addresses, pid=os.getpid(), console=console, encrypted=encrypted))

    try:
        with Signals() as signals:
            read = partial(load, config, given, origins=origins)
            trio.run(partial(serve, settings, ready=ready, signals=signals, read=read, config=config))
    except (CannotListen, Invalid, StoreRefused, StoreDamaged, StoreFailure, NoSpace, BaseExceptionGroup) as error:
        first, *others = [(ending(leaf), leaf) for leaf in leaves(error)]
        code, cause = first
        if code is None or any(other is None for other, _ in others):
            raise
        text = cause.strerror if isinstance(cause, CannotListen) else None
        raise CommandError(code, text or str(cause)) from None


def ending(error: BaseException) -> Exit | None:
    """The exit code of a broker that this error has ended. None for a bug."""
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


def ready_line(
    settings: Settings,
    addresses: Sequence[tuple[str, int]],
    *,
    pid: int,
    console: str = "",
    encrypted: Sequence[tuple[str, int]] = (),
) -> str:
    """The line that says that the broker is ready, with a URL for each address and the text about the console.

    The URLs have the login of the user guest if the configuration has no users. Those of ``encrypted`` addresses are
    amqps URLs.
    """
    login = "" if settings.users else f"{GUEST}:{GUEST}@"
    urls = [
        f"{'amqps' if (host, port) in encrypted else 'amqp'}://{login}{f'[{host}]' if ':' in host else host}:{port}"
        for host, port in addresses
    ]
    return f"Headgate {headgate_version()} is ready at {' and '.join(urls)} (pid {pid}){console and f', {console}'}"
