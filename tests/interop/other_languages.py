"""Clients in other languages, each with a suite of its own in a folder here.

They need Node.js or Go and a package registry, which not every machine has. So ``make test`` leaves them out.
``make test-ci``, which continuous integration runs, and ``make interop`` name this file. It can be named by hand, too:

    python -m pytest tests/interop/other_languages.py
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqp10.load.management import ManagementPair
from bench.broker import Broker
from bench.distance import far
from tests.kit.broker_process import BrokerAddress, broker_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
QUEUES = 20
"""How many empty queues a suite gets: more than it has tests."""

JITTER_MS = 20.0
"""The longest delay of a suite whose bytes take random times; a test takes some of them, and waits for seconds."""


@pytest.fixture
def suite(broker: BrokerAddress, tmp_path: Path) -> Callable[..., None]:
    """Run a suite by its commands in a copy of its folder, so that no file is installed into the source tree."""

    def run(folder: str, *commands: list[str], queue_prefix: str, near: str = "", far: str = "") -> None:
        missing = [command[0] for command in commands if shutil.which(command[0]) is None]
        if missing:
            pytest.skip(f"not installed: {missing[0]}")
        with ManagementPair(near or broker.url()) as management:
            for number in range(QUEUES):
                management.declare_queue(f"{queue_prefix}-{number}")
        copy = shutil.copytree(HERE / folder, tmp_path / folder)
        for command in commands:
            done = subprocess.run(
                command,
                cwd=copy,
                env=os.environ | {"HEADGATE_URL": far or broker.url()},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            print(done.stdout)
            assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"

    return run


@pytest.fixture
def delayed(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A broker with adaptive flow control: its URL, and that of a proxy before it that delays bytes at random."""
    configuration = tmp_path / "broker.toml"
    configuration.write_text('[amqp10]\nflow = "adaptive"\n')
    with (
        broker_process("--config", str(configuration)) as broker,
        far(Broker("headgate", broker.url(), broker.pid), 0.0, jitter=JITTER_MS) as url,
    ):
        yield {"near": broker.url(), "far": url}


RHEA = (["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["node", "--test"])
JMS = (
    ["mvn", "--batch-mode", "--quiet", "compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"],
    ["java", "-cp", "target/classes:target/lib/*", "Hello"],
)
QUICK_STARTS = HERE.parents[1] / "docs" / "quick-starts.md"
GO_AMQP = ["go", "test", "-count=1", "-v", "./..."]
ONE_BY_ONE = "TestTenThousandMessagesOnOneSession"
"""Sends ten thousand messages and waits for the outcome of each, which takes minutes behind delays."""


def test_rhea(suite):
    """JavaScript: rhea 3.0.5."""
    suite("rhea", *RHEA, queue_prefix="rhea")


def test_rhea_through_random_delays(suite, delayed):
    """The same, with grants, transfers and outcomes that cross each other."""
    suite("rhea", *RHEA, queue_prefix="rhea", **delayed)


def test_go_amqp(suite):
    """Go: github.com/Azure/go-amqp 1.7.0."""
    suite("go_amqp", GO_AMQP, queue_prefix="go")


def test_go_amqp_through_random_delays(suite, delayed):
    """The same, with grants, transfers and outcomes that cross each other."""
    suite("go_amqp", [*GO_AMQP, "-skip", ONE_BY_ONE], queue_prefix="go", **delayed)


@pytest.mark.parametrize(
    ("language", "folder", "file", "commands"),
    [
        ("javascript", "rhea", "hello.js", [RHEA[0], ["node", "hello.js"]]),
        ("go", "go_amqp", "hello/main.go", [["go", "run", "./hello"]]),
        ("java", "qpid_jms", "src/main/java/Hello.java", JMS),
    ],
    ids=["javascript", "go", "java"],
)
def test_quick_starts(
    broker: BrokerAddress, tmp_path: Path, language: str, folder: str, file: str, commands: list[list[str]]
):
    """The programs of the page, beside the suite of the same client, which says where the client comes from."""
    missing = [command[0] for command in commands if shutil.which(command[0]) is None]
    if missing:
        pytest.skip(f"not installed: {missing[0]}")
    (program,) = re.findall(rf"^```{language}\n(.*?)^```$", QUICK_STARTS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    copy = shutil.copytree(HERE / folder, tmp_path / folder)
    (copy / file).parent.mkdir(exist_ok=True)
    (copy / file).write_text(program, "utf-8")
    with ManagementPair(broker.url()) as management:
        management.declare_queue("hello")
    place = {"HEADGATE_URL": broker.url(), "HEADGATE_JMS_URL": f"amqp://{broker.host}:{broker.port}"}
    said = ""
    for command in commands:
        done = subprocess.run(command, cwd=copy, env=os.environ | place, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        said = done.stdout
    assert "received hello from" in said
