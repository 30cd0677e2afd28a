"""A client of another project goes on at another node of a cluster, which the first one has announced.

``make interop`` runs this: it needs Java, Maven and etcd."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.cluster_nodes import NAMES, cluster_nodes

HERE = Path(__file__).parent
MAVEN = ["mvn", "--batch-mode", "--quiet", "compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]


@pytest.mark.parametrize("loses_leader", [False, True])
def test_qpid_jms_needs_the_url_of_one_node(tmp_path: Path, loses_leader: bool):
    """It goes on at another node when that node ends, and where it is, with the same links, when the leader ends."""
    copy = tmp_path / "jms"
    shutil.copytree(HERE / "qpid_jms", copy)
    subprocess.run(MAVEN, cwd=copy, check=True)
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        assert leader is not None
        entry = next(name for name in NAMES if name != leader)
        nodes.command(entry, "queues", "declare", "orders", "--argument", "x-queue-type=quorum")
        for name in NAMES:
            nodes.until(lambda name=name: "orders" in nodes.command(name, "queues", "list"), "each node has the queue")
        nodes.until(lambda: all(row["here"] for row in nodes.status(entry)["nodes"]), "the others are here")
        port = nodes.address(entry).port
        command = ["java", "-cp", "target/classes:target/lib/*", "GoesOn"]
        environment = os.environ | {"HEADGATE_URL": f"failover:(amqp://127.0.0.1:{port}?amqp.saslMechanisms=PLAIN)"}
        with subprocess.Popen(
            command, cwd=copy, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as client:  # fmt: skip
            assert client.stdin is not None
            assert client.stdout is not None
            said = []
            for line in client.stdout:
                said.append(line)
                if line == "half\n":
                    nodes.kill(leader if loses_leader else entry)
                    client.stdin.write("\n")
                    client.stdin.flush()
        assert client.returncode == 0, "".join(said)
        assert said[-1].startswith("ok: all messages have come")
        assert (f":{port}?" in said[-1]) is loses_leader
