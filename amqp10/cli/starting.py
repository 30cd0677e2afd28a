"""Imports the broker for ``headgate serve``, without a package that structlog would import and the log does not use."""

import sys
from collections.abc import Sequence
from pathlib import Path

UNUSED = "rich"
"""structlog imports rich wherever it is installed, to show tracebacks in colours; the log of a broker has plain ones.
cyclopts needs rich, so it is installed wherever there is the command ``headgate``. It takes 3.3 MiB and 60 ms of CPU
time."""


def run_broker(config: Path | None, *, listen: Sequence[str], data: Path | None, admin: str | None) -> None:
    """See :func:`amqp10.cli.serving.run_broker`."""
    is_loaded = UNUSED in sys.modules
    if not is_loaded:
        sys.modules[UNUSED] = None  # type: ignore[assignment] # Python's way to say that there is no such module
    try:
        from amqp10.cli import serving
    finally:
        if not is_loaded:
            del sys.modules[UNUSED]  # what imports it later shall find it
    serving.run_broker(config, listen=listen, data=data, admin=admin)
