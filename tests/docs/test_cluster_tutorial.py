"""The tutorial of the cluster: its commands are typed against a real demo, whose leader is killed.

Which node leads is left to chance, and ports are free ones here. So each name and URL of the page stands for a node
that has that part in the demo.
"""

import os
import re
import shlex
import signal
import time
from collections.abc import Iterator

import pytest

from tests.docs.test_transcripts import OF_A_CLUSTER, pattern, steps
from tests.kit.command_line import HEADGATE, run_process
from tests.kit.demo_cluster import NEXT_LEADER, RunningDemo, demo_cluster

URLS = {"a": "amqp://guest:guest@127.0.0.1:5701", "b": "amqp://guest:guest@127.0.0.1:5702",
        "c": "amqp://guest:guest@127.0.0.1:5703"}  # fmt: skip
SECONDS_MAX = 20.0
"""How long the state that a node shows may take to become that of the page."""
LEADER, NEXT, OTHER = "b", "c", "a"
"""Who has which part on the page."""


class Parts:
    """Who has which part in the demo."""

    def __init__(self, demo: RunningDemo) -> None:
        self.nodes = demo.nodes()
        self.leader = demo.leader()
        self.next = ""

    def command(self, shown: str) -> str:
        """The command of the page with the URL that stands for the one in it. Until the leader has ended, any other
        node may be asked; later, what is consumed is at the next leader."""
        if URLS[LEADER] in shown:
            return shown.replace(URLS[LEADER], self.nodes[self.leader][0])
        if URLS[NEXT] in shown:
            return shown.replace(URLS[NEXT], self.nodes[self.next][0])
        other = next(name for name in self.nodes if name not in (self.leader, self.next))
        return shown.replace(URLS[OTHER], self.nodes[other][0])


def without_names(text: str) -> str:
    """The text with one word for all nodes, and one for all ports."""
    return re.sub(r":\d{4,5}\b", ":PORT", re.sub(r"\b[abc]\b", "N", text))


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[RunningDemo, list[str]]]:
    """One demo for both tests, and what it said when it was ready."""
    with demo_cluster() as running:
        running.nodes()
        yield running, list(running.lines)


@pytest.mark.slow
def test_commands_of_the_tutorial_answer_as_it_says(demo: tuple[RunningDemo, list[str]]):
    running, _ = demo
    parts, kinds = Parts(running), []
    for step in steps(OF_A_CLUSTER):
        program, *words = shlex.split(parts.command(step.command))
        kinds.append(words[0])
        if program == "kill":
            os.kill(parts.nodes[parts.leader][1], signal.SIGKILL)
            parts.next = running.until(NEXT_LEADER)["name"]
            continue
        until = time.monotonic() + SECONDS_MAX
        while True:
            done = run_process(*HEADGATE, *words, url="amqp://127.0.0.1:1")
            assert done.code == 0, f"{step.command}\n{done.err}"
            if re.fullmatch(pattern(without_names(step.answer)), without_names(done.out)):
                break
            # Each node learns a moment later than the next leader that the leader has ended.
            assert words[0] == "cluster", done.out
            assert time.monotonic() < until, done.out
    assert kinds == ["publish", "cluster", "-9", "cluster", "consume"]


@pytest.mark.slow
def test_what_the_tutorial_shows_of_the_demo_is_what_the_demo_says(demo: tuple[RunningDemo, list[str]]):
    """The texts that the demo prints, but for numbers and names, which differ each time."""
    _, lines = demo
    said = {_shape(line) for line in lines if line.strip()}
    blocks = re.findall(r"^```text\n(.*?)^```$", OF_A_CLUSTER.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = {_shape(line) for line in blocks[0].splitlines() if line.strip()}
    assert shown == said


def _shape(line: str) -> str:
    line = re.sub(r"in /\S+", "in FOLDER", line.strip().replace(", the leader", ""))
    line = re.sub(r"^kill +kill", "kill", line)
    return re.sub(r"\d[\d.]*", "9", re.sub(r"\b[abc]\b", "N", line))
