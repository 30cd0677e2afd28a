"""Imports the broker for ``headgate serve``, without packages that structlog would import and the log does not use."""

import sys
from collections.abc import Sequence
from pathlib import Path

UNUSED = ("greenlet", "rich")
"""structlog imports these wherever they are installed. rich shows tracebacks in colours; the log of a broker has plain
ones. Commands show tables with rich, so it is installed wherever there is the command ``headgate``. It takes 3.3 MiB
and 60 ms of CPU time. greenlet has threads of its own, which a broker does not use. Other packages bring it; it takes
1.1 MiB."""


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
    """See :func:`amqp10.cli.serving.run_broker`."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment] # Python's way to say that there is no such module
    try:
        from amqp10.cli import serving
    finally:
        for name in hidden:
            del sys.modules[name]  # what imports it later shall find it
    serving.run_broker(config, listen=listen, data=data, admin=admin, changes=changes, dev=dev, nodes=nodes)
