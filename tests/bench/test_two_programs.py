"""The two programs that compare AMQP 1.0 with 0.9.1, run as they are, for a second: rows 3.8, 3.9 and 3.29.

The test asserts only what holds on every machine. The figures themselves are in docs/benchmarks.md.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from amqp10.cli.main import run
from tests.kit.broker_process import ROOT, broker_process
from tests.kit.cases import case

pytestmark = pytest.mark.slow

Figures = Mapping[str, float]


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., dict[str, Figures]]:
    """Run a program on a broker whose syncs take 20 ms longer; returns the figures of its result file, by case."""

    def run_program(program: str, *words: str) -> dict[str, Figures]:
        output = tmp_path / "result.json"
        command = [sys.executable, "-m", program, "--sync-delay", "20", "--output", str(output), *words]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        entries = json.loads(output.read_text(encoding="utf-8"))["entries"]
        assert [entry["void"] for entry in entries] == [""] * len(entries), "nothing lost, doubled or out of order"
        assert output.with_suffix(".html").exists()
        return {entry["scenario"].rpartition(",")[0].partition(", ")[2]: entry["runs"][0] for entry in entries}

    return run_program


@case("engine", "3.8")
@case("engine", "3.29")
def test_two_senders(measured: Callable[..., dict[str, Figures]]):
    """row 3.8: on AMQP 1.0 only the link to the slow queue is held up, on 0.9.1 both publishers are.
    row 3.29: one of the two programs."""
    figures = measured("bench.two_senders", "--seconds", "0.5")
    assert set(figures) == {"0.9.1, both", "0.9.1, classic alone", "1.0, both", "1.0, classic alone"}
    assert figures["0.9.1, both"]["ratio"] < 1.5
    assert figures["0.9.1, both"]["blocks"] > 0
    assert figures["1.0, both"]["ratio"] > 2


@case("engine", "3.9")
@case("engine", "3.29")
def test_one_sender_one_receiver(measured: Callable[..., dict[str, Figures]]):
    """row 3.9: on 0.9.1 the consumer waits for its own connection's publisher, on AMQP 1.0 it does not.
    row 3.29: the other program. A run ends with its backlog too, and on a busy machine half a second passed without a
    confirm, so both are larger than what is needed. Where other work takes the processor from one run and not from the
    other, their rates say nothing, so they are measured up to three times."""
    for _ in range(3):
        figures = measured("bench.one_sender_one_receiver", "--seconds", "1.5", "--messages", "100000")
        assert set(figures) == {"0.9.1, both", "0.9.1, receiver alone", "1.0, both", "1.0, receiver alone"}
        for protocol in ("0.9.1", "1.0"):
            assert figures[f"{protocol}, both"]["published"] > 0
        if figures["1.0, both"]["consumed_rate"] > 2 * figures["0.9.1, both"]["consumed_rate"]:
            return
    raise AssertionError(f"the consumer waits as long with AMQP 1.0 as with 0.9.1: {figures}")


@case("engine", "3.29")
def test_the_queues_are_listed_with_name_type_and_messages(capsys: pytest.CaptureFixture[str]):
    """row 3.29: the list of queues that a reader watches while the programs run."""
    with broker_process() as broker:

        def headgate(*words: str) -> str:
            assert run([*words, "--url", broker.url()]) == 0
            return capsys.readouterr().out

        for kind, count in (("classic", "3"), ("quorum", "2")):
            headgate("queues", "declare", kind, "--argument", f"x-queue-type={kind}")
            headgate("publish", f"/queues/{kind}", "m", "--count", count)
        listed = json.loads(headgate("queues", "list", "--json"))
        table = headgate("queues", "list").splitlines()
    shown = {(row["name"], row["type"], row["messages"]) for row in listed}
    assert shown == {("classic", "classic", 3), ("quorum", "quorum", 2)}
    assert [line.split()[:3] for line in table] == [
        ["name", "type", "messages"], ["classic", "classic", "3"], ["quorum", "quorum", "2"],
    ]  # fmt: skip
