"""What a page shows as typed and answered is typed, against a broker process, and must be answered like that.

A ``console`` block has commands behind ``$`` and below each its output. A line ``…`` stands for any lines, and ``…`` in
a line for any text.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
OPERATING = ROOT / "docs" / "operating"
SECONDS_MAX = 30

PAGES = [
    pytest.param(TUTORIALS / "01-one-connection.md", marks=pytest.mark.interop),
    pytest.param(TUTORIALS / "02-work-queue.md", marks=pytest.mark.interop),
    TUTORIALS / "03-publish-subscribe.md",
    pytest.param(TUTORIALS / "04-request-reply.md", marks=pytest.mark.interop),
    pytest.param(TUTORIALS / "05-streams.md", marks=pytest.mark.interop),
    TUTORIALS / "06-dead-letters.md",
    TUTORIALS / "07-durable-queues-and-policies.md",
    TUTORIALS / "08-two-protocols.md",
    OPERATING / "troubleshooting.md",
    OPERATING / "policies.md",
    OPERATING / "definitions.md",
    OPERATING / "alarms.md",
]
PROGRAMS = {"headgate": [sys.executable, "-m", "amqp10"], "python": [sys.executable]}


class Step(NamedTuple):
    """A command and what it answers."""

    command: str
    answer: str


def steps(page: Path) -> Iterator[Step]:
    """Every command of a page, in order."""
    for text in re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, answer = part.partition("\n")
            yield Step(command, answer)


def pattern(answer: str) -> str:
    """A regular expression for an answer; spaces at the end of lines do not matter."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in answer.splitlines()
    ]
    return "".join(lines)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user whose broker runs."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    serve = [*PROGRAMS["headgate"], "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path_factory.mktemp("data"))]
    with subprocess.Popen(
        serve, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as broker:
        assert broker.stdout is not None
        ready = re.search(r"amqp://\S+", broker.stdout.readline())
        assert ready is not None
        yield environment | {"HEADGATE_URL": ready[0]}
        broker.terminate()
        assert broker.wait(SECONDS_MAX) == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_answer_as_the_page_says(page: Path, environment: dict[str, str]):
    found = list(steps(page))
    assert found
    for step in found:
        program, *arguments = shlex.split(step.command)
        done = subprocess.run(
            [*PROGRAMS[program], *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, f"{step.command}\n{done.stderr}"
        assert re.fullmatch(pattern(step.answer), done.stdout), f"{step.command}\n{done.stdout}"
