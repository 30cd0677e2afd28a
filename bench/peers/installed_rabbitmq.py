"""RabbitMQ, where it is installed and runs already: found by its port."""

from __future__ import annotations

from amqp10.load.wire import WireError
from bench.broker import Broker, BrokerError, connect, listening_pid

REMEDY = """\
install RabbitMQ 4.0 or newer, which speaks AMQP 1.0 without a plugin, and start it on this machine; on Debian:
  apt-get install rabbitmq-server        (look at the version; RabbitMQ's own packages are newer)
  RABBITMQ_NODE_PORT=5673 rabbitmq-server -detached
  python -m bench.peers rabbitmq --port 5673"""


def rabbitmq(port: int) -> Broker:
    """The RabbitMQ that listens on this port. Raises BrokerError, with the remedy, when there is none."""
    try:
        pid = listening_pid(port)
    except BrokerError as problem:
        raise BrokerError(f"{problem}, or {REMEDY}") from problem
    try:
        found = connect(f"amqp://guest:guest@127.0.0.1:{port}", pid)
    except (WireError, OSError) as problem:
        raise BrokerError(f"process {pid} listens on port {port} but no AMQP 1.0: {problem}; {REMEDY}") from problem
    if not found.name.startswith("RabbitMQ"):
        raise BrokerError(f"the broker on port {port} is {found.name}, not RabbitMQ; {REMEDY}")
    return found
