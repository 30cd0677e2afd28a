"""Three nodes beside three nodes: the judgement of a fail-over, what is refused, and a short measurement."""

import os
import re
from pathlib import Path

import pytest

from bench.broker import Broker, BrokerError, started
from bench.cluster.__main__ import SCENARIOS, chosen, main, said
from bench.cluster.fail_over import DrainedMessages, FailOverClient, faults
from bench.cluster.nodes import PeerCluster
from bench.results import Results
from bench.run import HEADGATE


def drained(*leader: int, flagged: tuple[int, ...] = ()) -> DrainedMessages:
    """What was in the queue of one client."""
    found = DrainedMessages()
    for number in leader:
        found.take(b"leader:%d" % number, flagged=number in flagged)
    return found


@pytest.mark.parametrize(
    ("came", "unanswered", "flagged", "wrong"),
    [
        ((0, 1, 2), (), (), []),
        ((0, 2), (), (), ["leader: 1 lost"]),
        ((0, 1, 1, 2), (), (), ["leader: 1 duplicated"]),
        ((0, 1, 1, 2), (1,), (), []),
        ((0, 1, 1, 2), (), (1,), []),
        ((0, 2, 1), (), (), ["leader: 1 reordered"]),
        ((0, 1, 2, 3), (3,), (), []),
        ((0, 1, 2, 1), (1,), (), []),
        ((), (), (), ["leader: 3 lost"]),
    ],
)
def test_what_was_accepted_has_to_be_there_once_and_in_order(came, unanswered, flagged, wrong) -> None:
    accepted, sent_again = {"leader": 3, "elsewhere": 0}, {"leader": set(unanswered), "elsewhere": set()}
    assert faults(accepted, sent_again, drained(*came, flagged=flagged)) == wrong


def test_what_is_missing_is_counted_for_each_client() -> None:
    found = drained(0, 2, 2, 5)
    assert found.lost({"leader": 4, "elsewhere": 1}) == {"leader": 2, "elsewhere": 1}
    assert found.lost({"leader": 1, "elsewhere": 0}) == {"leader": 0, "elsewhere": 0}


def test_the_gap_is_the_longest_one_that_ends_after_the_kill() -> None:
    client = FailOverClient("leader", ["amqp://one"], accepted_at=[0.0, 5.0, 5.5, 7.0, 7.1])
    assert client.gap(since=5.6) == 1.5
    assert client.gap(since=4.0) == 5.0


def test_a_fail_over_in_words() -> None:
    figures = {"gap_leader_s": 1.5, "gap_elsewhere_s": 0.25, "messages": 1200, "void": ""}
    assert said(figures) == "leader 1.500 s, elsewhere 0.250 s (1,200 messages)"
    with_it, without = figures | {"took_etcd_leader": "yes"}, figures | {"took_etcd_leader": "no"}
    assert said(with_it) == "leader 1.500 s, elsewhere 0.250 s (with etcd's leader, 1,200 messages)"
    assert said(without) == "leader 1.500 s, elsewhere 0.250 s (without etcd's leader, 1,200 messages)"
    assert said({"void": "elsewhere: 1 lost"}) == "VOID: elsewhere: 1 lost"


def test_the_cpu_time_of_a_cluster_is_that_of_all_its_processes() -> None:
    alone = Broker("one", "amqp://one", os.getpid())
    both = Broker("two", "amqp://two", os.getpid(), (os.getppid(),))
    assert both.resident_bytes() > alone.resident_bytes()
    assert both.cpu_seconds() > 0
    with pytest.raises(BrokerError, match="the process of three is gone"):
        Broker("three", "amqp://three", os.getpid(), (2**22 + 1,)).cpu_seconds()


def test_the_scenarios_have_the_goals_of_a_cluster() -> None:
    goals = {one.name: (one.goal.rate_ratio_min, one.goal.cpu_ratio_max) for one in chosen([], None)}
    assert goals == {
        "cluster-quorum-12": (2.0, 0.5),
        "cluster-quorum-1024": (2.0, 0.5),
        "cluster-quorum-4096": (2.0, 0.5),
        "cluster-quorum-unbatched-12": (None, 0.5),
    }
    assert [one.traffic.seconds for one in chosen(["quorum-12"], 0.5)] == [0.5]


@pytest.mark.parametrize("name", ["bulk-12", "quorum-13"])
def test_other_scenarios_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert f"no scenario '{name}' with a quorum queue" in capsys.readouterr().err


def test_the_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SCENARIOS)


@pytest.mark.parametrize(
    "words", [["--peer-url", "amqp://one"], ["--peer-url", "amqp://one", "--peer-pid", "1"], ["--runs", "0"]]
)
def test_a_wrong_command_line_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_peer_that_is_not_there_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--peer-url", "amqp://127.0.0.1:1", "--peer-pid", "1"]
    assert main(words * 3) == 2
    assert "cannot measure" in capsys.readouterr().err


def test_a_node_of_the_peer_is_started_by_a_command() -> None:
    with started(HEADGATE) as one:
        peer = PeerCluster([one.url] * 3, [one.pid, 2, 3], f"echo {{number}} {one.pid}")
        assert [broker.pid for broker in peer.brokers] == [one.pid, 2, 3]
        assert peer.brokers[0].others == (2, 3)
        peer.restart(2)
        assert [broker.pid for broker in peer.brokers] == [one.pid, 2, one.pid]
        silent = PeerCluster([one.url] * 3, [one.pid, 2, 3], "echo node {number} does not start")
        with pytest.raises(BrokerError, match="node 1 does not start"):
            silent.restart(0)


@pytest.mark.slow
def test_a_short_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    words = ["quorum-12", "--runs", "1", "--seconds", "0.5", "--fail-overs", "1", "--output", str(file)]
    assert main(words) == 0, capsys.readouterr()
    rates, fail_over = Results.read(file).entries
    assert rates.figures["rate"].median > 0
    assert fail_over.figures["gap_leader_s"].median > 0
    assert fail_over.figures["gap_elsewhere_s"].median > 0
    assert fail_over.runs[0]["took_etcd_leader"] in ("yes", "no")
    said_of_it = capsys.readouterr().out
    assert "0 of 4 goals met" in said_of_it, "without a peer, nothing is judged"
    assert re.search(r"etcd has \d+% of the CPU time", said_of_it)
