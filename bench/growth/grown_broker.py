"""A broker with some number of things, and the connections that operations use.

The broker runs with default settings, except for limits that would stop the growth: see :data:`SETTINGS`.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from amqp10.cli.free_ports import free_ports
from amqp10.load import wire
from amqp10.load.endpoint import queue_address
from amqp10.load.management import ManagementPair
from amqp10.load.wire import WireError
from bench.broker import SCRATCH, Broker, started
from bench.growth.peer091 import Peer091
from bench.growth.peer10 import Link, Peer10
from bench.growth.processor_time import ProcessorTime
from bench.run import SERVE

SETTINGS = """\
[engine]
queues_max = 2000000
bindings_max = 2000000

[amqp10]
handle_max = 1100000
idle_time_out = "1d"

[amqp091]
consumers_max = 1100000

[admin]
listen = ["127.0.0.1:{admin_port}"]
request_time_out = "10min"

[metrics]
addresses_max = 0
"""
"""The settings that are not the defaults: limits that would stop the growth, an idle time-out that would cut off
connections which only wait, a free port, and no metrics of single addresses, of which the default shows up to 200."""

SIDE = "side"
"""The queue of operations that leave the things of the dimension alone."""
EXCHANGE = "side"
"""The direct exchange of such operations."""
EXPIRING = "expiring"
"""The queue in which messages expire."""
PURGED = tuple(f"purged-{one}" for one in range(200))
ANSWER_SECONDS = 600.0

Opened = TypeVar("Opened")


class GrownBroker:
    """One broker, and what operations on it need. Connections are opened when first used."""

    def __init__(self, broker: Broker, admin_port: int, stack: contextlib.ExitStack) -> None:
        self.broker = broker
        self.url = broker.url
        self.processor_time = ProcessorTime(broker.pid)
        self.admin_port = admin_port
        self.things = 0
        """How many things of the dimension are there."""
        self.links: list[Link] = []
        """The links that an operation has attached, and will detach."""
        self.peers: list[Peer091 | Peer10] = []
        """The connections that an operation has opened, and will close."""
        self._stack = stack
        self._senders: dict[str, Link] = {}
        self._receivers: dict[str, Link] = {}

    def prepare(self) -> None:
        """Declare what operations use, and open their connections, before there are any things."""
        self.peer091.declare([SIDE, EXPIRING, *PURGED])
        self.peer091.declare_exchange(EXCHANGE, "direct")
        self.peer091.bind(SIDE, EXCHANGE, [(SIDE, {})])
        assert self.link_identity
        self.receiver(queue_address(SIDE))

    def keep(self, opened: Opened, close: Callable[[], None]) -> Opened:
        """Close this at the end, whatever happens."""
        self._stack.callback(close)
        return opened

    @cached_property
    def peer091(self) -> Peer091:
        """The connection of AMQP 0.9.1 for operations."""
        return self.keep(peer := Peer091(self.url), peer.close)

    @cached_property
    def things091(self) -> Peer091:
        """The connection of AMQP 0.9.1 to which the things belong."""
        return self.keep(peer := Peer091(self.url), peer.close)

    @cached_property
    def peer10(self) -> Peer10:
        """The connection of AMQP 1.0 for operations."""
        return self.keep(peer := Peer10(self.url), peer.close)

    @cached_property
    def things10(self) -> Peer10:
        """The connection of AMQP 1.0 to which the things belong."""
        return self.keep(peer := Peer10(self.url), peer.close)

    @cached_property
    def management(self) -> ManagementPair:
        """The link pair to the management node."""
        return self._stack.enter_context(ManagementPair(self.url))

    @cached_property
    def link_identity(self) -> str:
        """The broker's name for the link of operations that sends to their queue."""
        self.sender(queue_address(SIDE))
        match self.management.request("GET", "/headgate/links", wire.NULL):
            case {"items": list(items)}:
                for row in items:
                    if isinstance(row, dict) and row.get("queue") == SIDE and row.get("direction") == "in":
                        return str(row["identity"]).replace("/", "%2F")
        raise WireError("the broker shows no link of ours")

    def sender(self, address: str) -> Link:
        """A link of AMQP 1.0 that sends to the address; always the same one."""
        if address not in self._senders:
            (self._senders[address],) = self.peer10.attach(address, role=wire.ROLE_SENDER)
        return self._senders[address]

    def receiver(self, address: str) -> Link:
        """A link of AMQP 1.0 that receives from the address; always the same one."""
        if address not in self._receivers:
            (self._receivers[address],) = self.peer10.attach(address, role=wire.ROLE_RECEIVER)
        return self._receivers[address]

    def get(self, path: str) -> None:
        """Make a request to the admin server and read the whole answer. Raises WireError for a refusal."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                raise WireError(f"GET {path} was answered with {answer.status} {answer.reason}")


@contextlib.contextmanager
def grown_broker() -> Iterator[GrownBroker]:
    """Start a broker for the block."""
    SCRATCH.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="growth-", dir=SCRATCH) as folder:
        admin_port = free_ports(1)[0]
        path = Path(folder) / "broker.toml"
        path.write_text(SETTINGS.format(admin_port=admin_port))
        with started(f"{SERVE} --config {path}") as broker, contextlib.ExitStack() as stack:
            yield GrownBroker(broker, admin_port, stack)
