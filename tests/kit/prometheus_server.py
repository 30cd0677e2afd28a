"""A real Prometheus on a free port, with this project's own files, for one broker.

In a copy of the files the times are shortened, so that it scrapes and evaluates several times a second; everything else
is what users run. With ``as_shipped`` the times are kept too.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

from amqp10.cli.free_ports import free_ports
from tests.kit.monitoring_files import RULES_FILE, SCRAPE_FILE

POLL_S = 0.1
DEADLINE_S = 20.0
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer, with its present value."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Alert:
    """One instance of an alert."""

    state: str
    """``pending`` or ``firing``."""
    labels: dict[str, str]
    """Of the series, and ``alertname`` and ``severity`` of the rule."""


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A Prometheus that runs, and the questions that a test can ask it."""

    process: subprocess.Popen[str]
    http: httpx.Client

    def ask(self, question: str) -> list[Sample]:
        """Evaluate an expression at the present time."""
        answer = self.http.post("/api/v1/query", data={"query": question}).json()
        assert answer["status"] == "success", f"{question}: {answer['error']}"
        return [Sample(series["metric"], float(series["value"][1])) for series in answer["data"]["result"]]

    def firing(self, alert: str) -> list[dict[str, str]]:
        """The labels of each instance of an alert that fires."""
        found = (one for one in self.alerts() if one.state == "firing")
        return [one.labels for one in found if one.labels["alertname"] == alert]

    def alerts(self) -> list[Alert]:
        """The alerts that are pending or fire now."""
        alerts = self.http.get("/api/v1/alerts").json()["data"]["alerts"]
        return [Alert(one["state"], one["labels"]) for one in alerts]

    def names(self) -> set[str]:
        """The names of all series."""
        return set(self.http.get("/api/v1/label/__name__/values").json()["data"])

    def until(self, look: Callable[[], Answer]) -> Answer:
        """Call ``look`` until it returns something, and return that."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := look()):
            assert time.monotonic() < deadline, "it did not happen in time"
            self.pause()
        return found

    def pause(self) -> None:
        """Wait a little, and check that the server still runs."""
        try:
            status = self.process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"Prometheus ended with status {status}")


@contextmanager
def prometheus_server(
    program: str, folder: Path, *, broker: str, token_file: Path | None = None, as_shipped: bool = False
) -> Iterator[PrometheusServer]:
    """Scrape the admin server at ``broker``, HOST:PORT, until the block ends. ``program`` is the Prometheus to
    start."""
    scrapes, rules = _for_broker(broker, token_file), RULES_FILE.read_text()
    if not as_shipped:
        scrapes = _replaced(scrapes, r"_interval: 15s", "_interval: 300ms", times=2)
        rules = _hurried(rules)
    (folder / SCRAPE_FILE.name).write_text(scrapes)
    (folder / RULES_FILE.name).write_text(rules)
    [port] = free_ports(1)
    command = [
        program,
        f"--config.file={folder / SCRAPE_FILE.name}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (
        subprocess.Popen(command, text=True) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        try:
            server = PrometheusServer(process, client)
            server.until(lambda: _is_ready(client))
            yield server
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def _for_broker(broker: str, token_file: Path | None) -> str:
    text = _replaced(SCRAPE_FILE.read_text(), r"127\.0\.0\.1:15692", broker, times=1)
    if token_file is not None:
        text = _replaced(text, r"# (authorization:|  credentials_file:)", r"\1", times=2)
        text = _replaced(text, r"(credentials_file): .*", rf"\1: {token_file}", times=1)
    return text


def _hurried(rules: str) -> str:
    """The rules with shorter times: a ``for`` of up to a minute becomes 300 ms, and a range of a minute becomes two
    seconds."""
    text = _replaced(rules, r"for: (30s|1m)", "for: 300ms")
    return _replaced(text, r"\[1m\]", "[2s]")


def _replaced(text: str, pattern: str, by: str, *, times: int | None = None) -> str:
    changed, count = re.subn(pattern, by, text)
    assert count if times is None else count == times, f"{pattern} was found {count} times"
    return changed


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").is_success
    except httpx.TransportError:
        return False
