"""For the tests of the connector and of the pipeline: one Spark session for all of them, and what happens where Spark
cannot run.

This is a plugin of pytest, which ``tests/conftest.py`` names. Without the extra ``pipeline`` each module in
:data:`FOLDERS` is one skipped test that says so. With it but without Java, what asks for the session, or is marked
``spark`` because it starts a Spark of its own, is skipped; everything else runs.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.java import JAVA_VERSION_MIN, java_problem
from amqp10.cli.pipeline import NEEDED_MODULES
from tests.kit.broker_process import BrokerAddress, broker_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqp10.client import Message
    from tests.pyspark_amqp10.source_peer import Peer

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "pipeline")
"""Whose tests need what the extra ``pipeline`` installs."""

MISSING = [module for module in NEEDED_MODULES if find_spec(module) is None]
INSTALL = f"not installed: {', '.join(MISSING)}; make test installs it where there is Java {JAVA_VERSION_MIN} or newer"

TAKEN_MAX = 1_000_000
"""More messages than any test leaves in a queue."""

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Without Java's second compiler and its threads that collect garbage in parallel, which pay only in processes that go
on for longer than tests do, or have processors of their own. Without the second compiler Java has room for 48 MiB of
compiled code; Spark's needs more, and what was thrown away for it was compiled again, for a sixth of the processor time
of four runs. And without the verification of Spark's own classes, a fifth of the processor time until the first query
has ended."""

SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "tests",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark finds the line of the program in each function of a column, for error messages. No test reads it.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""Small and by itself: two cores, the loopback interface only. 200 shuffle partitions, Spark's own default, would make
every test with state wait for 200 tasks. transformWithState wants RocksDB."""


class SkippedModule(pytest.Module):
    """A module of tests that cannot even be imported."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Say why."""
        pytest.skip(INSTALL, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Without the extra: do not import what imports Spark."""
    if MISSING and _is_here(module_path):
        module: pytest.Module = SkippedModule.from_parent(parent, path=module_path)
        return module
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put these tests first. Without Java or the extra: skip what needs Spark to run.

    A process that has run out of tests takes some of those that another would run last. At the beginning of the order,
    the tests of the one session stay in one process: a second session takes as long to start, and its Java runs
    everything for the first time. They are also the longest tests: at the end, a processor would wait for them.
    """
    items.sort(key=lambda item: not _is_here(item.path))
    reason = _why_spark_cannot_run()
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("spark") is not None or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_spark_cannot_run() -> str | None:
    if MISSING:
        return INSTALL
    problem = java_problem(os.environ)
    return None if problem is None else f"Spark cannot run: {problem}"


@cache
def _is_here(path: Path) -> bool:
    """Kept for each path: a collection asks for every test, and has a hundred tests in a module."""
    return any(path.is_relative_to(folder) for folder in FOLDERS)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The one Spark of these tests. It keeps its files in a temporary folder; nobody else may stop it."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder = SparkSession.builder.config(map=SPARK_SETTINGS).config(
        map={
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
        }
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def peer(pytestconfig: pytest.Config) -> "Peer | None":
    """Another broker instead of ours: ``python -m tests.pyspark_amqp10.source_peer``."""
    return pytestconfig.pluginmanager.get_plugin("peer")


@pytest.fixture(scope="session")
def broker(peer: "Peer | None") -> Iterator[BrokerAddress]:
    """One broker for all tests here; each uses queues of its own."""
    if peer is not None:
        yield peer.address
        return
    with broker_process() as address:
        yield address


@pytest.fixture(scope="session")
def broker_options(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The options with which the connector finds the broker, and is let in."""
    password_file = tmp_path_factory.mktemp("login") / "password"
    password_file.write_text("guest\n", encoding="ascii")
    return {"url": f"amqp://{broker.host}:{broker.port}", "user": "guest", "passwordFile": str(password_file)}


@pytest.fixture(scope="session")
def declare(broker: BrokerAddress, peer: "Peer | None") -> Callable[..., str]:
    """Make a queue, with arguments written as ``x-queue-type=stream``; its address."""

    from amqp10.cli.main import run as headgate

    def call(name: str, *arguments: str) -> str:
        if peer is not None:
            return peer.declare(name, *arguments)
        given = [word for argument in arguments for word in ("--argument", argument)]
        assert headgate(["queues", "declare", name, "--url", broker.url(), *given]) is Exit.DONE
        return f"/queues/{name}"

    return call


@pytest.fixture(scope="session")
def take(broker_options: dict[str, str]) -> Callable[[str], "list[Message]"]:
    """Take all messages that are in a queue now."""

    from amqp10.client import Message

    def call(address: str) -> list[Message]:
        from amqp10.blocking.links import ReceivingLink
        from pyspark_amqp10.login import Login

        options = broker_options
        login = Login.parse(options["url"], user=options["user"], password_file=options["passwordFile"])
        with login.connect() as connection:
            link = ReceivingLink.open(connection, address, settled=True)
            runs = link.fetch(TAKEN_MAX, within_s=30)
            return [Message.decode(entry) for run in runs for entry in run.entries]

    return call
