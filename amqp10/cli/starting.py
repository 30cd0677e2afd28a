"""Imports the broker for ``headgate serve``, without modules that packages import and an idle broker does not use."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES: dict[str, Any] = sys.modules
"""What imports find. None says that there is no such module."""
UNUSED = ("greenlet", "rich")
"""structlog imports these wherever they are installed. rich shows tracebacks in colours; the log of a broker has plain
ones. Commands show tables with rich, so it is installed wherever there is the command ``headgate``. It takes 3.3 MiB
and 60 ms of CPU time. greenlet has threads of its own, which a broker does not use. Other packages bring it; it takes
1.1 MiB."""
LATER = ("asyncio", "ssl")
"""structlog imports asyncio, for coroutines that write lines, which the log does not use; it takes 1.5 MiB. Trio and
the broker import ssl, for TLS, which a broker uses once it has a certificate; it takes 1.2 MiB."""


class Later:
    """Stands for a module that is imported when one of its names is first used."""

    __spec__ = None  # Python's import asks for it, and would have the module imported

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> object:
        if MODULES.get(self.__name__) is self:
            del MODULES[self.__name__]
        found: object = getattr(import_module(self.__name__), name)
        setattr(self, name, found)  # so this is not called for each record of TLS
        return found


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
    imported_serving().run_broker(config, listen=listen, data=data, admin=admin, changes=changes, dev=dev, nodes=nodes)


def imported_serving() -> ModuleType:
    """Import :mod:`amqp10.cli.serving` without these modules."""
    with instead(dict.fromkeys(UNUSED) | {name: Later(name) for name in LATER}):
        from amqp10.cli import serving
    return serving


@contextmanager
def instead(others: Mapping[str, Later | None]) -> Iterator[None]:
    """Have imports find these instead of modules that nothing has imported yet. What imports them afterwards finds the
    modules."""
    hidden = {name: other for name, other in others.items() if name not in MODULES}
    MODULES.update(hidden)
    try:
        yield
    finally:
        for name, other in hidden.items():
            if name in MODULES and MODULES[name] is other:
                del MODULES[name]
