"""The demo of a cluster with real nodes: the leader is killed and started again, and nothing is left at any end."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from amqp10.cli.exits import Exit
from tests.kit.broker_process import ROOT
from tests.kit.command_line import run_here
from tests.kit.demo_cluster import NEXT_LEADER, SECONDS_MAX, RunningDemo, demo_cluster

pytestmark = pytest.mark.slow

FAIL_OVER_SECONDS_MAX = 15.0
"""2 s until a node is away, an election of etcd of 1 to 2 s, and what a busy machine takes."""


def descendants(demo: RunningDemo) -> list[psutil.Process]:
    return psutil.Process(demo.process.pid).children(recursive=True)


def all_end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=SECONDS_MAX)
    assert alive == []


def test_the_leader_is_killed_another_one_leads_and_enter_starts_it_again(tmp_path: Path):
    keyboard, terminal = pty.openpty()
    with demo_cluster("--data", str(tmp_path), stdin=terminal) as demo:
        os.close(terminal)
        nodes, leader = demo.nodes(), demo.leader()
        url, pid = nodes[leader]
        published = run_here("publish", "/queues/orders", "hello", "--count", "10", url=url)
        assert published.code == 0, published.err
        os.kill(pid, signal.SIGKILL)
        found = demo.until(NEXT_LEADER)
        assert float(found["seconds"]) < FAIL_OVER_SECONDS_MAX
        consumed = run_here("consume", "/queues/orders", "--drain", url=nodes[found["name"]][0])
        assert consumed.out.count("hello") == 10
        before = len(demo.lines)
        os.write(keyboard, b"\n")
        demo.until(rf"{leader} \| is ready at {url}, process", after=before)
        demo.until(rf"{leader} \| its etcd runs as process", after=before)
        left = descendants(demo)
        assert len(left) == 6
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(SECONDS_MAX) == 0
        all_end(left)
    os.close(keyboard)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c", "a.toml", "b.toml", "c.toml"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_no_process_is_left_whatever_ends_the_demo(number: signal.Signals):
    with demo_cluster() as demo:
        demo.nodes()
        left = descendants(demo)
        assert len(left) == 6
        demo.process.send_signal(number)
        assert demo.process.wait(SECONDS_MAX) == (-9 if number == signal.SIGKILL else 0)
        all_end(left)
    folder = Path(demo.lines[0].split(" in ")[1].strip())
    assert folder.exists() is (number == signal.SIGKILL)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningDemo]:
    """A demo for tests after which it goes on."""
    with demo_cluster() as demo:
        yield demo


def test_an_etcd_that_is_killed_is_started_again_by_its_broker(running: RunningDemo):
    url, pid = running.nodes()["a"]
    [etcd] = psutil.Process(pid).children()
    etcd.kill()
    running.until(r"a \| its etcd has ended, and starts again in 0.5 s")
    running.until(r"a \| its etcd runs again as process")
    own = json.loads(run_here("cluster", "status", "--json", url=url).out)["engine"]["own"]
    assert (own["starts"], own["running"], own["why"]) == (2, True, "")
    [again] = psutil.Process(pid).children()
    assert again.pid == own["pid"] != etcd.pid
    alarms = {row["name"]: row for row in json.loads(run_here("alarms", "list", "--json", url=url).out)}
    assert "ended with status -9" in alarms["etcd"]["cause"], "it is on until etcd has run for some seconds"


def test_a_taken_port_ends_the_demo_with_the_reason(running: RunningDemo):
    url, _ = running.nodes()["a"]
    port = int(url.rpartition(":")[2]) - 1
    command = [sys.executable, "-m", "amqp10", "demo", "cluster", "--port", str(port)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == Exit.NOT_NOW, done.stderr
    assert "node a has ended" in done.stderr
    assert "in use" in done.stderr


def test_without_etcd_the_remedy_is_said(tmp_path: Path):
    command = [sys.executable, "-m", "amqp10", "demo", "cluster"]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == Exit.USAGE
    assert "apt install etcd-server" in done.stderr
