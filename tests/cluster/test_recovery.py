"""Three real nodes, whose etcd loses its data: one begins a new cluster with its copies, and the others copy."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from tests.cluster.test_any_node import connected
from tests.cluster.test_changing_members import HOSTS, Brokers
from tests.cluster.test_real_streams import STREAM, publish, read
from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes
from tests.kit.command_line import run_here

pytestmark = [pytest.mark.slow]

KEPT = "kept"
QUORUM = ("--argument", "x-queue-type=quorum")
OF_STREAMS = ("--argument", "x-queue-type=stream")
BODIES = [f"m{number}" for number in range(40)]
SETTLED = 15
ON_STREAM = [f"s{number}" for number in range(25)]


def ends(capsys: pytest.CaptureFixture[str], data: Path) -> dict[int, int]:
    """How far the copies of a stopped node go, as the command says."""
    capsys.readouterr()
    assert run(["cluster", "copies", "--data", str(data), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert not any(row["trouble"] for row in said["groups"])
    return {row["group"]: row["end"] for row in said["groups"] if row["end"]}


def furthest(capsys: pytest.CaptureFixture[str], folders: dict[str, Path]) -> str:
    """The node with the most batches. With nothing under way when the nodes ended, it has at least what each has."""
    found = {name: ends(capsys, folder) for name, folder in folders.items()}
    best = max(found, key=lambda name: sum(found[name].values()))
    assert all(found[best].get(group, 0) >= end for one in found.values() for group, end in one.items())
    return best


def same_ends(statuses: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all nodes have the same batches, and the nodes say that of each other."""
    rows = [[(row["group"], row["end"], any(row["lag"].values())) for row in one["groups"]] for one in statuses]
    return bool(rows[0]) and all(one == rows[0] for one in rows) and not any(lags for _, _, lags in rows[0])


def moved_aside(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}-before"))


def led(nodes: ClusterNodes, name: str) -> bool:
    """Whether all used groups have a leader, as a node says that it shares definitions with."""
    status = nodes.status(name)
    return status["joined"] and all(row["leader"] for row in status["groups"])


def filled(nodes: ClusterNodes) -> dict[int, str]:
    """Publish and settle, until all copies are the same. Returns what is in the stream."""
    for name, arguments in ((KEPT, QUORUM), (STREAM, OF_STREAMS), ("empty", QUORUM)):
        nodes.command("a", "queues", "declare", name, *arguments)
    nodes.command("a", "bindings", "create", "amq.topic", KEPT, "--key", "orders.#")
    for name in NAMES:
        nodes.until(lambda name=name: "empty" in nodes.command(name, "queues", "list"), "each node has the queues")
    nodes.command("a", "publish", f"/queues/{KEPT}", *BODIES)
    taken = nodes.command("b", "consume", f"/queues/{KEPT}", "--count", str(SETTLED)).split()
    assert taken == BODIES[:SETTLED]
    with connected(nodes, "c") as channel:
        assert publish(channel, ON_STREAM) == ON_STREAM
    before = read(nodes, "a", "first", least=len(ON_STREAM), last=ON_STREAM[-1])
    nodes.until(lambda: same_ends([nodes.status(name) for name in NAMES]), "the copies are the same")
    return before


def check_all_is_there(nodes: ClusterNodes, second: str, third: str, before: dict[int, str]) -> None:
    """The two nodes that have copied have all messages, and one of them leads."""
    nodes.until(
        lambda: all(row["leader"] in (second, third) for row in nodes.status(second)["groups"]), "another leads"
    )
    assert read(nodes, second, "first", least=len(ON_STREAM), last=ON_STREAM[-1]) == before
    with connected(nodes, third) as channel:
        assert publish(channel, ["after"]) == ["after"]
        method, _, _ = channel.basic_get(KEPT)
        assert method.redelivered
        channel.basic_nack(method.delivery_tag)
    assert read(nodes, third, len(ON_STREAM), least=1, last="after") == {len(ON_STREAM): "after"}
    nodes.command(third, "publish", "/exchanges/amq.topic/orders.new", "bound")
    found = nodes.command(second, "consume", f"/queues/{KEPT}", "--drain").split()
    assert found == [*BODIES[SETTLED:], "bound"]


def test_a_node_begins_a_new_cluster_when_an_etcd_of_ones_own_has_lost_its_data(capsys: pytest.CaptureFixture[str]):
    with cluster_nodes(groups=2, forwards=True) as nodes:
        before = filled(nodes)
        in_use = run(["cluster", "recover", "--data", str(nodes.data("a"))])
        assert in_use == Exit.USAGE
        assert "is in use by process" in capsys.readouterr().err
        for name in NAMES:
            nodes.kill(name)
        settings = {name: str(nodes.data(name).parent / f"{name}.toml") for name in NAMES}
        assert run(["cluster", "recover", "--config", settings["a"]]) == Exit.REFUSED
        assert "etcd answers, and still has this cluster, so nothing is lost" in capsys.readouterr().err
        nodes.etcd.stop()
        for member in range(3):
            shutil.rmtree(nodes.etcd.folder(member))
        first = furthest(capsys, {name: nodes.data(name) for name in NAMES})
        second, third = (name for name in NAMES if name != first)
        files = sorted(path.name for path in nodes.data(first).iterdir())
        assert run(["cluster", "recover", "--config", settings[first], "--dry-run"]) == 0
        told = capsys.readouterr().out
        assert "Nothing was changed" in told
        assert KEPT in told
        assert sorted(path.name for path in nodes.data(first).iterdir()) == files
        for name in (first, second):  # the second one is a mistake, which must harm nothing
            assert run(["cluster", "recover", "--config", settings[name]]) == 0
        assert run(["cluster", "recover", "--config", settings[first]]) == 0, "given again"
        assert "is to begin cluster" in capsys.readouterr().out
        for member in range(3):
            nodes.etcd.start(member)
        nodes.etcd.leader()
        for _ in range(2):  # it is killed somewhere on its way
            nodes.start(first)
            nodes.kill(first)
        nodes.start(first)
        nodes.until(lambda: led(nodes, first), "the node leads the groups alone")
        nodes.start(second)
        nodes.until(lambda: "already, and this node begins cluster" in str(nodes.status(second)["trouble"]), "refused")
        nodes.kill(second)
        nodes.start(third)
        nodes.until(lambda: "the data folder of this node is of" in str(nodes.status(third)["trouble"]), "refused")
        nodes.kill(third)
        for name in (second, third):
            moved_aside(nodes.data(name))
            nodes.start(name)
        nodes.until(
            lambda: (
                all(row["state"] == "member" and row["here"] for row in nodes.status(first)["nodes"])
                and not any(row["trouble"] or any(row["lag"].values()) for row in nodes.status(first)["groups"])
            ),
            "the others have copied",
        )
        for name in (second, third):
            nodes.until(
                lambda name=name: "empty" in nodes.command(name, "queues", "list"), "the others have the queues"
            )
        nodes.kill(first)
        check_all_is_there(nodes, second, third, before)
        nodes.start(first)
        nodes.until(lambda: nodes.status(first)["joined"], "the recovered node is back")
        nodes.until(lambda: KEPT in nodes.command(first, "queues", "list"), "and has its definitions")


@pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2")
def test_a_node_begins_a_new_cluster_with_an_etcd_that_it_starts_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    brokers, nodes = Brokers(tmp_path), tmp_path / "nodes"
    brokers.port, brokers.etcd_port = free_ports(2)
    words = [word for name, host in HOSTS.items() for word in ("--node", f"{name}={host}")]
    ports = ["--port", str(brokers.port), "--etcd-port", str(brokers.etcd_port)]
    assert run(["cluster", "init", str(nodes), *words, *ports]) == 0
    with ExitStack() as stack:
        stack.callback(brokers.stop_all)
        for name in HOSTS:
            brokers.start(name)
        brokers.until(lambda: brokers.all_led("a"), "each group has a leader")
        for name, arguments in ((KEPT, QUORUM), (STREAM, OF_STREAMS)):
            assert run_here("queues", "declare", name, *arguments, url=brokers.urls["a"]).code == 0
        brokers.until(
            lambda: run_here("publish", f"/queues/{KEPT}", *BODIES, url=brokers.urls["b"]).code == 0, "published"
        )
        brokers.until(lambda: same_ends([brokers.status(name) for name in HOSTS]), "the copies are the same")
        for name in HOSTS:
            brokers.kill(name)
        first = furthest(capsys, {name: brokers.data(name) for name in HOSTS})
        others = [name for name in HOSTS if name != first]
        for name in others:
            shutil.rmtree(brokers.data(name) / "etcd")
        configuration = ["--config", str(nodes / first / "headgate.toml"), "--data", str(brokers.data(first))]
        assert run(["cluster", "recover", *configuration]) == 0
        brokers.start(first)
        brokers.until(lambda: all(row["leader"] == first for row in brokers.status(first)["groups"]), "it leads alone")
        url = brokers.urls[first]
        assert run_here("publish", f"/queues/{KEPT}", "alone", url=url).code == 0, "its etcd has a majority of one"
        for name in others:
            moved_aside(brokers.data(name))
            brokers.start(name)
        brokers.until(lambda: all(row["here"] for row in brokers.status(first)["nodes"]), "the others are here")
        brokers.until(
            lambda: not any(row["trouble"] or any(row["lag"].values()) for row in brokers.status(first)["groups"]),
            "the others have copied",
        )
        brokers.until(lambda: all((brokers.data(name) / "etcd" / "member").exists() for name in others), "three etcds")
        no_node = ["cluster", "leave", "z"]
        brokers.until(  # it looks at the votes first
            lambda: run_here(*no_node, url=url).code == Exit.NOT_FOUND, "all members of etcd vote"
        )
        brokers.kill(first)
        brokers.until(lambda: all(row["leader"] in others for row in brokers.status(others[0])["groups"]), "led again")
        found = run_here("consume", f"/queues/{KEPT}", "--drain", url=brokers.urls[others[1]]).out.split()
        assert found == [*BODIES, "alone"]
