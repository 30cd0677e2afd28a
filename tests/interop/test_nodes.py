"""Two broker processes as nodes of a cluster: clients at node a, queues on node b."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.kit.broker_process import BrokerAddress, broker_process

ADDRESS = "/queues/far-orders"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[BrokerAddress, BrokerAddress]]:
    """Nodes a and b; queues whose names begin with far live on b."""
    home_file = tmp_path / "b.toml"
    home_file.write_text('[admin]\nenabled = false\n[cluster]\nnode = "b"\ntrust_loopback = true\n')
    with broker_process("--config", str(home_file)) as home:
        entry_file = tmp_path / "a.toml"
        entry_file.write_text(
            '[admin]\nenabled = false\n[cluster]\nnode = "a"\ntrust_loopback = true\n'
            f'[[cluster.nodes]]\nname = "b"\naddress = "{home.host}:{home.port}"\nqueues = ["far*"]\n'
        )
        with broker_process("--config", str(entry_file)) as entry:
            yield entry, home


def test_publish_and_consume_at_the_other_node(
    nodes: tuple[BrokerAddress, BrokerAddress], connect: Callable[..., Any], proton: ModuleType
):
    entry, home = nodes
    at_home = connect(home.url()).opened()
    assert at_home.request("PUT", ADDRESS, {"arguments": {"x-queue-type": "classic"}}).subject == "201"
    peer = connect(entry.url()).opened()
    sender = peer.sender(ADDRESS)
    peer.until(lambda: sender.credit > 0, "link credit")
    sent = [sender.send(proton.Message(body=f"{n}")) for n in range(10)]
    peer.until(lambda: all(one.remote_state == proton.Delivery.ACCEPTED for one in sent), "the confirms")
    receiver = peer.receiver(ADDRESS, name="in")
    receiver.flow(20)
    peer.until(lambda: len(peer.received.get("in", [])) == 10, "the messages")
    assert [one.message.body for one in peer.received["in"]] == [f"{n}" for n in range(10)]
    receiver.drain(0)
    peer.until(lambda: receiver.credit == 0, "the end of the drain")
