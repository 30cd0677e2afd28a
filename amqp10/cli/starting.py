"""Imports the broker for ``headgate serve``, without modules that packages import and an idle broker does not use."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

UNUSED = ("greenlet", "rich")
"""structlog imports these wherever they are installed. rich shows tracebacks in colours; the log of a broker has plain
ones. Commands show tables with rich, so it is installed wherever there is the command ``headgate``. It takes 3.3 MiB
and 60 ms of CPU time. greenlet has threads of its own, which a broker does not use. Other packages bring it; it takes
1.1 MiB."""
LATER = ("asyncio", "ssl")
"""structlog imports asyncio, for coroutines that write lines, which the log does not use; it takes 1.5 MiB. Trio and
the broker import ssl, for TLS, which a broker uses once it has a certificate; it takes 1.2 MiB."""


class Later(ModuleType):
    """Stands for a module that is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
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
    with instead(dict.fromkeys(UNUSED) | {name: Later(name) for name in LATER}):
        from amqp10.cli import serving
    serving.run_broker(config, listen=listen, data=data, admin=admin, changes=changes, dev=dev, nodes=nodes)


@contextmanager
def instead(others: dict[str, ModuleType | None]) -> Iterator[None]:
    """Have imports find these instead of modules that nothing has imported yet. None says that there is no module.
    What imports them afterwards finds the modules."""
    hidden = {name: other for name, other in others.items() if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type] # None is Python's way to say that there is no such module
    try:
        yield
    finally:
        for name, other in hidden.items():
            if name in sys.modules and sys.modules[name] is other:
                del sys.modules[name]
