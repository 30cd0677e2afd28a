"""The commands that a page shows are typed against a broker process, and must give the output that the page shows.

A ``console`` block has commands behind ``$`` and below each its output. A line ``…`` stands for any lines, and ``…`` in
a line for any text.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from amqp10.cli.main import run as headgate
from tests.kit.command_line import HEADGATE, Ran

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
OPERATING = ROOT / "docs" / "operating"
EXAMPLES = ROOT / "examples"
CHART = TUTORIALS / "07-one-connection.svg"
SECONDS_MAX = 30
SVG = "{http://www.w3.org/2000/svg}"

OF_A_CLUSTER = TUTORIALS / "16-cluster.md"
"""Needs three brokers: tests/docs/test_cluster_tutorial.py."""
OF_SPARK = TUTORIALS / "17-spark.md"
"""Needs Java: tests/pyspark_amqp10/test_examples.py."""
PAGES = [
    ROOT / "README.md",
    *sorted(set(TUTORIALS.glob("*.md")) - {OF_A_CLUSTER, OF_SPARK}),
    OPERATING / "troubleshooting.md",
    OPERATING / "policies.md",
    OPERATING / "definitions.md",
    OPERATING / "alarms.md",
]
"""The pages in the order in which they are read; all of them run on one broker."""


class Step(NamedTuple):
    """A command and its output."""

    command: str
    answer: str


def steps(page: Path) -> Iterator[Step]:
    """Every command of a page, in order."""
    for text in re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, answer = part.partition("\n")
            yield Step(command, answer)


def pattern(answer: str) -> str:
    """A regular expression for an answer; spaces at the end of lines do not matter, nor how wide columns are."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r" *\n"
        for line in answer.splitlines()
    ]
    return re.sub(r"(?:\\ ){2,}", " {2,}", "".join(lines))


def programs(page: Path) -> Iterator[Path]:
    """The examples that a page runs."""
    for step in steps(page):
        yield from (ROOT / word for word in shlex.split(step.command) if re.fullmatch(r"examples/\w+\.py", word))


def to_run(page: Path) -> object:
    """A page as a parameter. It is marked ``interop`` when one of its programs needs python-qpid-proton."""
    needs_proton = any("from proton" in program.read_text(encoding="utf-8") for program in programs(page))
    return pytest.param(page, id=page.stem, marks=[pytest.mark.interop] if needs_proton else [])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user whose broker runs."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    serve = [*HEADGATE, "serve", "--listen", "127.0.0.1:0", "--admin", "off"]
    serve += ["--data", str(tmp_path_factory.mktemp("data"))]
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
@pytest.mark.parametrize("page", [to_run(page) for page in PAGES])
def test_commands_answer_as_the_page_says(page: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]):
    found = list(steps(page))
    assert found
    for step in found:
        program, *arguments = shlex.split(step.command.removeprefix(".venv/bin/"))
        if program == "headgate":
            done = in_this_process(arguments, environment, capsys)
        else:
            done = of_its_own([sys.executable, *arguments], environment)
        assert done.code == 0, f"{step.command}\n{done.err}"
        assert re.fullmatch(pattern(step.answer), done.out), f"{step.command}\n{done.out}"


def of_its_own(command: list[str], environment: dict[str, str]) -> Ran:
    """Run a command as a process."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def in_this_process(words: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run a command in this process, where all of ``headgate`` is loaded already. Loading takes longer than most
    commands."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with chdir(ROOT):
            code = headgate(words)
    finally:
        os.environ.clear()
        os.environ.update(before)
    told = capsys.readouterr()
    return Ran(code, told.out, told.err)


def test_every_example_is_run():
    """An example is run by a page, by a test that names it, or by an example that imports it."""
    run = {program for page in PAGES for program in programs(page)}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    texts += [path.read_text(encoding="utf-8") for path in run]
    idle = [
        path.name
        for path in EXAMPLES.glob("*.py")
        if path not in run and not any(path.name in text or f"from {path.stem} import" in text for text in texts)
    ]
    assert idle == []


@pytest.mark.slow
def test_the_chart_of_one_connection_is_drawn(environment: dict[str, str], tmp_path: Path):
    picture = tmp_path / "chart.svg"
    command = [sys.executable, "examples/07_one_connection.py", "--seconds", "0.6", "--chart", str(picture)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (done.returncode, done.stderr) == (0, "")
    assert curves(picture).keys() == curves(CHART).keys()
    for points in curves(picture).values():
        assert [x for x, _ in points] == sorted(x for x, _ in points)


def test_the_chart_in_the_tutorial_shows_one_slow_pair():
    """The page says this about its chart; the test reads the numbers of the picture. The y axis grows downwards."""
    lines = curves(CHART)
    assert {len(points) for points in lines.values()} == {60}
    middle = {title: sum(y for _, y in points[25:35]) for title, points in lines.items()}
    assert middle["slow, consumed"] > middle["quick, consumed"]
    assert middle["slow, published"] > middle["quick, published"]


def curves(picture: Path) -> dict[str, list[tuple[float, float]]]:
    """The lines of a chart by their titles, as points. All points are inside the picture."""
    root = ElementTree.parse(picture).getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    found: dict[str, list[tuple[float, float]]] = {}
    for line in root.iter(f"{SVG}polyline"):
        title = line.findtext(f"{SVG}title")
        assert title is not None
        pairs = (point.split(",") for point in line.attrib["points"].split())
        found[title] = [(float(x), float(y)) for x, y in pairs]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in found[title])
    return found
