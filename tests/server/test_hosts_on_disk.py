"""Virtual hosts in a data folder: what a start finds of them after a kill, and a deletion that a kill interrupts."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
import structlog

from core.config.settings import Settings
from core.config.store import StoreSettings
from core.engine.broker import Broker
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.virtual_hosts import NEXT_S, HostLimits, VirtualHosts
from core.errors import PreconditionFailed
from core.message import Attributes
from core.server.data import OpenData
from core.store.definitions import DEFINITIONS_FILE, PolicyDeclaration
from tests.kit.engine import NOW, Peer, binding, entries_for, exchange, later, queue
from tests.kit.storage import work

KINDS = ("classic", "quorum", "stream")
_IDENTITIES = count(1)


class Life:
    """One start on a data folder; its lanes are moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.data = OpenData(
            folder,
            StoreSettings(),
            clock=lambda: NOW,
            log=structlog.get_logger(),
            annotations=PlainAnnotations(),
            new_identity=lambda: f"{next(_IDENTITIES):032x}",
        )
        broker = Broker(Settings(), storage=self.data.storage, new_identity=lambda: f"{next(_IDENTITIES):032x}")
        self.hosts = VirtualHosts(broker, keeper=self.data.hosts)

    def run(self) -> None:
        """Run turns, writes and syncs until nothing is left to do, and deletions are done."""
        now = NOW
        while self.hosts.turn(now) | work(self.data.storage, now.monotonic) or len(self.hosts.all) > len(
            self.hosts.names
        ):
            now = later(now.monotonic - NOW.monotonic + NEXT_S)


@contextmanager
def life(folder: Path) -> Iterator[Life]:
    """A start that ends like a kill: nothing is written when the block ends."""
    one = Life(folder)
    try:
        yield one
    finally:
        one.data.close()


def fill(one: Life, name: str) -> None:
    """Declare a queue of each kind with a message that names the virtual host."""
    host = one.hosts.named(name)
    peer = Peer(host, owner=name)
    for kind in KINDS:
        host.declare_queue(queue(kind, x_queue_type=kind), "setup")
        peer.publish(kind, [f"{kind} of {name}".encode()], Attributes(durable=True))
    host.declare_exchange(exchange("x"))
    host.bind(binding("x", "classic", name), "setup")
    host.policies.set(PolicyDeclaration(name="p", pattern=name, definition={"max-length": 10}))
    one.run()


def found(one: Life, name: str) -> dict[str, list[bytes]]:
    """The messages of the queues that are no streams."""
    host, taken = one.hosts.named(name), {}
    for kind in ("classic", "quorum"):
        peer = Peer(host, owner=name)
        consumer = peer.consume(kind, 10)
        one.run()
        taken[kind] = entries_for(peer.mailbox.take(), consumer)
    return taken


def test_names_messages_and_limits_of_each_are_there_after_a_kill(tmp_path: Path):
    with life(tmp_path) as one:
        one.hosts.add("b")
        one.hosts.set_limits("b", HostLimits(max_queues=3))
        one.hosts.set_limits("/", HostLimits(max_connections=7))
        for name in one.hosts.names:
            fill(one, name)
    with life(tmp_path) as one:
        assert one.hosts.names == ["/", "b"]
        assert one.hosts.limits("b").shown() == {"max-queues": 3}
        assert one.hosts.limits("/").shown() == {"max-connections": 7}
        for name in one.hosts.names:
            host = one.hosts.named(name)
            assert {row["name"]: row["type"] for row in host.snapshot("queues")} == dict(zip(KINDS, KINDS, strict=True))
            assert [row["binding_key"] for row in host.snapshot("bindings")] == [name]
            assert [row["pattern"] for row in host.snapshot("policies")] == [name]
            assert found(one, name) == {kind: [f"{kind} of {name}".encode()] for kind in ("classic", "quorum")}
    with life(tmp_path) as one:
        one.hosts.delete("b")
        one.run()
        assert one.hosts.names == ["/"]
        assert len(one.hosts.default.snapshot("queues")) == len(KINDS)
    with life(tmp_path) as one:
        assert one.hosts.names == ["/"]
        assert one.hosts.add("b")
        assert one.hosts.limits("b").shown() == {}
        assert one.hosts.named("b").snapshot("policies") == []


def test_a_deletion_that_a_kill_interrupts_goes_on_at_the_next_start(tmp_path: Path):
    with life(tmp_path) as one:
        one.hosts.add("b")
        fill(one, "b")
        one.hosts.delete("b")
    with life(tmp_path) as one:
        closed: list[str] = []
        one.hosts.closing = closed.append
        one.hosts.resume()
        assert one.hosts.find("b") is None
        one.run()
        assert closed == ["b"]
        assert not one.hosts.deleting("b")
    with life(tmp_path) as one:
        one.hosts.resume()
        assert one.hosts.names == ["/"]
        assert not [path for path in tmp_path.glob("streams/*") if path.is_dir()]


def test_a_folder_without_other_virtual_hosts_has_no_trace_of_any(tmp_path: Path):
    with life(tmp_path) as one:
        fill(one, "/")
    with closing(sqlite3.connect(tmp_path / DEFINITIONS_FILE)) as file:
        assert file.execute("SELECT name FROM vhosts").fetchall() == [("/",)]


def test_what_the_disk_refuses_is_not_made(tmp_path: Path):
    with life(tmp_path) as one:
        (tmp_path / DEFINITIONS_FILE).rename(tmp_path / "moved")
        with pytest.raises(PreconditionFailed, match="virtual host 'b' cannot be kept"):
            one.hosts.add("b")
        assert one.hosts.names == ["/"]
