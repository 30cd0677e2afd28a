"""``python -m tests.kit.echo_process``: a process that serves the echo protocol, for tests of descriptors and signals.

Its arguments are how many descriptors the process may have, and how many it uses up by itself. It prints the port, then
its log as lines of JSON.
"""

import os
import resource
import sys
import time
from functools import partial

import trio

from core.config.log import LogSettings
from core.config.server import ServerSettings
from core.observe.log import open_log
from core.server.run import Server, serve
from core.server.signals import Signals
from tests.kit.echo import EchoBroker


def main() -> None:
    """Serve until a signal comes."""
    limit, used_up = (int(argument) for argument in sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(used_up)]
    broker = EchoBroker()
    settings = ServerSettings(listen=("127.0.0.1:0",))
    with open_log(LogSettings(form="json"), sys.stdout, monotonic=time.monotonic) as log, Signals() as signals:
        server = Server(settings=settings, engine=broker, factories=[broker.factory()], log=log)
        started = partial(serve, signals=signals, reload=lambda: None)
        trio.run(started, server, lambda addresses: print(addresses[0][1], flush=True))
    for descriptor in held:
        os.close(descriptor)


if __name__ == "__main__":
    main()
