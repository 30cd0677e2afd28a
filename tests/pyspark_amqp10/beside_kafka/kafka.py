"""One Kafka node on loopback, with its default settings: its jars come by Maven, its data is in a temporary folder."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from amqp10.cli.free_ports import free_ports
from bench.broker import ROOT, SCRATCH, STOP_SECONDS, Broker, BrokerError, await_listening

POM = Path(__file__).with_name("pom.xml")
BUILT = ROOT / "build/bench-kafka"
JAVA_OPTIONS = (
    *("-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
"""As in the scripts that come with Kafka, but for the log."""
CONNECTOR_JARS = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
"""Artifacts of the connector that Spark does not have itself."""
START_SECONDS = 60.0
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""
"""What one node that is broker and controller needs; all else is as Kafka has it by default."""


def class_path(profile: str, *, artifacts: Sequence[str] = (), version: str | None = None, maven: str = "mvn") -> str:
    """The class path of one profile of the Maven project, fetched the first time.

    artifacts: only these. version: of Spark's connector, instead of the project's. Raises BrokerError when Maven is
    missing or cannot have it.
    """
    file = BUILT / f"{profile}-{version or 'default'}"
    if not file.exists() or file.stat().st_mtime < POM.stat().st_mtime:
        if (found := shutil.which(maven)) is None:
            raise BrokerError(
                f"there is no command {maven}: install Maven and Java 17 or newer (Debian: apt-get install maven)"
            )
        BUILT.mkdir(parents=True, exist_ok=True)
        words = [found, "--batch-mode", "--quiet", "--file", str(POM), "--activate-profiles", profile]
        words += ["dependency:build-classpath", f"-Dmdep.outputFile={file}"]
        words += [f"-DincludeArtifactIds={','.join(artifacts)}"] if artifacts else []
        words += [f"-Dspark.version={version}"] if version else []
        if (status := subprocess.run(words, stdout=sys.stderr).returncode) != 0:
            raise BrokerError(f"mvn ended with {status}; its reason is above")
    return file.read_text().strip()


def settings(port: int, controller: int, data: Path) -> str:
    """The configuration of the node."""
    return SETTINGS.format(port=port, controller=controller, data=data)


@contextlib.contextmanager
def kafka() -> Iterator[Broker]:
    """Start a Kafka node; it is stopped at the end. The broker's URL is HOST:PORT. Raises BrokerError."""
    if (java := shutil.which("java")) is None:
        raise BrokerError("there is no command java: install Java 17 or newer")
    classes = class_path("broker")
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=SCRATCH) as scratch:
        folder, (port, controller_port) = Path(scratch), free_ports(2)
        file, log = folder / "server.properties", folder / "log"
        file.write_text(settings(port, controller_port, folder / "data"))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        words = [java, "-cp", classes, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(file)]
        made = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            raise BrokerError(f"Kafka's folder could not be made: {made.stdout[-1000:]}")
        with log.open("wb") as output:
            words = [java, *JAVA_OPTIONS, "-cp", classes, "kafka.Kafka", str(file)]
            process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            await_listening(process, port, log, START_SECONDS)
            yield Broker(f"Kafka {_version(classes)}", f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _version(classes: str) -> str:
    """The version of Kafka in a class path."""
    names = (Path(jar).stem for jar in classes.split(":"))
    return next((name.rpartition("-")[2] for name in names if name.startswith("kafka_")), "of unknown version")
