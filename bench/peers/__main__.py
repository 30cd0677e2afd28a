"""Brokers to compare with: prints --peer-url and --peer-pid for `python -m bench.run`.

  python -m bench.peers artemis                    ActiveMQ Artemis, embedded; built with Maven the first time
  python -m bench.peers artemis --data FOLDER      the same, and durable messages are kept on disk
  python -m bench.peers rabbitmq --port 5673       the RabbitMQ that runs there already

then, in another terminal, with the line that it prints:

  python -m bench.run unbatched-12 --client go-amqp --peer-url amqp://guest:guest@127.0.0.1:40123 --peer-pid 4711

Artemis runs until it is interrupted (Ctrl-C). Exit status: 0; 2 when there is no such broker.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from amqp10.load.wire import WireError
from bench.broker import Broker, BrokerError
from bench.peers.embedded_artemis import artemis, build, built
from bench.peers.installed_rabbitmq import rabbitmq


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("broker", choices=["artemis", "rabbitmq"])
    parser.add_argument("--port", type=int, help="to listen on (a free one), or where RabbitMQ listens (5672)")
    parser.add_argument("--data", type=Path, help="Artemis: the folder for durable messages; without it, none is kept")
    given = parser.parse_args(words)
    try:
        if given.broker == "rabbitmq":
            if given.data is not None:
                parser.error("--data is for artemis: a RabbitMQ that runs has its own folder")
            show(rabbitmq(given.port or 5672))
        else:
            run_artemis(given.port or 0, given.data)
    except (BrokerError, WireError, OSError) as problem:
        print(f"no peer: {problem}", file=sys.stderr)
        return 2
    return 0


def run_artemis(port: int, data: Path | None) -> None:
    """Build it when necessary, start it, and wait for a signal."""
    if not built():
        print("building Artemis; the first time, Maven fetches its packages", file=sys.stderr, flush=True)
        build()
    print("starting Artemis", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), artemis(port, data) as broker:
        show(broker)
        signal.pause()


def show(broker: Broker) -> None:
    """Print the options of this broker."""
    print(broker.name, file=sys.stderr)
    print(f"--peer-url {broker.url} --peer-pid {broker.pid}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
