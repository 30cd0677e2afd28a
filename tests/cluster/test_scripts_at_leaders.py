"""Two broker processes as nodes of a cluster: a script is connected to one, and its links are at the other one, which
leads the queue."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp10.client import ClientSettings, Message
from amqp10.client.scripts import connect
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import run_here

QUEUE = "/queues/far-orders"
WAIT_S = 20.0
ALONE = '[admin]\nenabled = false\n[cluster]\ntrust_loopback = true\nnode = "{}"\n'


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[BrokerAddress, BrokerAddress]]:
    """Nodes a and b; queues whose names begin with far live on b."""
    (tmp_path / "b.toml").write_text(ALONE.format("b"))
    with broker_process("--config", str(tmp_path / "b.toml")) as home:
        other = f'[[cluster.nodes]]\nname = "b"\naddress = "{home.host}:{home.port}"\nqueues = ["far*"]\n'
        (tmp_path / "a.toml").write_text(ALONE.format("a") + other)
        with broker_process("--config", str(tmp_path / "a.toml")) as entry:
            yield entry, home


def peers(node: BrokerAddress) -> set[str]:
    """For which nodes the links to the queue are; "" for those of clients."""
    done = run_here("links", "list", "--json", url=node.url())
    assert done.code == 0, done.err
    return {(row["client"] or {}).get("node", "") for row in json.loads(done.out) if row["address"] == QUEUE}


@pytest.mark.slow
@pytest.mark.parametrize(("most", "at_entry", "at_home"), [(6, set(), {""}), (0, {""}, {"a"})])
def test_a_script_uses_the_leader_unless_it_is_to_stay(nodes, most, at_entry, at_home):
    entry, home = nodes
    with connect(home.url()) as connection:
        connection.request("PUT", QUEUE, {"arguments": {"x-queue-type": "classic"}})
    with (
        connect(entry.url(), ClientSettings(leader_connections_max=most)) as connection,
        connection.open_sender(QUEUE) as sender,
        connection.open_receiver(QUEUE) as receiver,
    ):
        sender.send(Message(b"one"), within_s=WAIT_S)
        delivery = receiver.receive(within_s=WAIT_S)
        assert delivery.message.body == b"one"
        delivery.accept()
        assert (peers(entry), peers(home)) == (at_entry, at_home)
