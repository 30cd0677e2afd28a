"""A whole broker with an admin server: the admin server answers, shows an alarm and the stop, and ends with the
broker."""

import errno
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import structlog
from proton.utils import BlockingConnection
from structlog.testing import LogCapture

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.admin.serving import AdminServer
from core.config import Settings
from core.config.address import is_loopback, parse_address
from core.process import console
from core.server.listener import CannotListen
from tests.kit.broker_process import READY, ROOT, STOP_SECONDS

TOKEN = "a-token-for-a-test"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's process, the address for messages, and the address for HTTP."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    admin: httpx.Client


def configuration(folder: Path, listen: str = "127.0.0.1:0") -> str:
    """Write a configuration; returns the path of the file."""
    (folder / "token").write_text(f"{TOKEN}\n")
    file = folder / "broker.toml"
    file.write_text(f'[admin]\nenabled = true\nlisten = ["{listen}"]\ntoken_file = "{folder}/token"\n')
    return str(file)


@contextmanager
def broker_with_admin(folder: Path) -> Iterator[Broker]:
    """Run a broker until the block ends."""
    options = ["--config", configuration(folder), "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    command = [sys.executable, "-m", "amqp10", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            ready = READY.search(process.stdout.readline())
            assert ready is not None
            lines = map(json.loads, process.stderr)
            place = next(line["addresses"] for line in lines if line["event"] == "admin-listening")
            with httpx.Client(base_url=f"http://{place}", headers={"authorization": f"Bearer {TOKEN}"}) as admin:
                yield Broker(process, (ready["host"], int(ready["port"])), admin)
        finally:
            process.kill()


@pytest.mark.slow
def test_a_broker_tells_of_itself_until_its_end(tmp_path: Path):
    with broker_with_admin(tmp_path) as broker:
        for path in ("/livez", "/readyz", "/startupz", "/healthz/publish"):
            assert broker.admin.get(path).json() == {"status": "ok"}
        assert httpx.get(broker.admin.base_url.join("/metrics")).status_code == 401
        assert "\nrabbitmq_connections 0.0\n" in broker.admin.get("/metrics").text
        assert "# TYPE headgate_link_" in broker.admin.get("/metrics/links").text

        assert broker.admin.get("/api/overview").json()["product_name"] == "Headgate"
        assert broker.admin.put("/api/queues/%2F/kept", json={}).status_code == 201
        assert broker.admin.get("/api/headgate/queues/kept").json()["messages_ready"] == 0
        assert httpx.get(broker.admin.base_url.join("/api/queues")).status_code == 401
        assert {lane["name"] for lane in broker.admin.get("/api/headgate/store").json()["lanes"]} >= {"classic"}

        url = f"amqp://guest:guest@{broker.address[0]}:{broker.address[1]}"
        assert run(["alarms", "set", "memory", "--url", url]) is Exit.DONE
        scraped = broker.admin.get("/metrics").text
        assert '\nrabbitmq_auth_attempts_succeeded_total{protocol="amqp10"} 1.0\n' in scraped
        assert '\nheadgate_alarm_seconds_total{alarm="disk"} 0.0\n' in scraped
        assert '\nheadgate_alarm_seconds_total{alarm="memory"} 0.0\n' not in scraped
        publisher = BlockingConnection(url, timeout=10, allowed_mechs="PLAIN")
        publisher.create_sender("/queues/kept")
        first, second = seconds_of_closed_windows(broker.admin), seconds_of_closed_windows(broker.admin)
        assert 0.0 < first < second < 60.0, "by one clock"
        publisher.close()
        blocked = broker.admin.get("/healthz/publish")
        assert blocked.status_code == 503
        assert [reason["reason"] for reason in blocked.json()["reasons"]] == ["memory"]
        assert broker.admin.get("/readyz").status_code == 200

        with socket.create_connection(broker.address) as lingering:  # keeps the broker from ending
            lingering.sendall(b"AMQP\x03\x01\x00\x00")
            assert lingering.recv(8) == b"AMQP\x03\x01\x00\x00"
            broker.process.send_signal(signal.SIGTERM)
            assert status_after_stop(broker.admin) == 503
        assert broker.process.wait(STOP_SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            broker.admin.get("/livez")


def seconds_of_closed_windows(admin: httpx.Client) -> float:
    """For how many seconds the memory alarm has closed windows."""
    name = 'headgate_session_window_closed_seconds_total{direction="in",reason="memory"}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", admin.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def status_after_stop(admin: httpx.Client) -> int:
    """The status of /readyz once the broker has taken notice of the signal."""
    while True:
        answer = admin.get("/readyz")
        if answer.status_code != 200:
            assert answer.json()["reasons"] == [{"reason": "draining"}]
            return answer.status_code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("admin", "said"), [("127.0.0.1:0", r", console at (http://127\.0\.0\.1:\d+/)"), ("off", "()")]
)
def test_the_line_of_the_start_names_the_console(admin: str, said: str, tmp_path: Path):
    options = ["--admin", admin, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "amqp10", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(rf"\(pid \d+\){said}\n", process.stdout.readline())
            assert ready is not None
            if ready[1]:
                assert "<title>" in httpx.get(ready[1]).text
        finally:
            process.kill()


async def taken() -> AdminServer:
    """Open an admin server on an address that is in use; returns the error."""
    raise CannotListen(errno.EADDRINUSE, "cannot listen on 127.0.0.1:15692: Address already in use")


def test_the_console_is_on_unless_something_else_is_set():
    assert Settings().admin.enabled
    assert all(is_loopback(parse_address(address)[0]) for address in Settings().admin.listen)


async def test_a_broker_for_which_nothing_was_set_starts_without_a_console_and_says_why():
    log = LogCapture()
    said, admin = await console(Settings(), taken, structlog.wrap_logger(None, processors=[log]))
    assert (said, admin) == ("no console: cannot listen on 127.0.0.1:15692: Address already in use", None)
    assert [(line["event"], line["log_level"]) for line in log.entries] == [("admin-not-listening", "warning")]


@pytest.mark.parametrize("told", [{"enabled": True}, {"listen": ["127.0.0.1:15692"]}])
async def test_a_console_that_was_asked_for_is_there_or_the_start_fails(told: dict[str, object]):
    settings = Settings.model_validate({"admin": told})
    with pytest.raises(CannotListen, match="already in use"):
        await console(settings, taken, structlog.wrap_logger(None, processors=[]))


@pytest.mark.slow
def test_a_port_in_use_is_named_before_any_client_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        file = configuration(tmp_path, place)
        assert (
            run(["serve", "--config", file, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")])
            is Exit.NOT_NOW
        )
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == (
        f"headgate: admin server: cannot listen on {place}: Address already in use; give it another address with "
        "admin.listen or --admin HOST:PORT, or turn it off with --admin off"
    )
    assert told.out == ""


@pytest.mark.slow
def test_a_token_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = configuration(tmp_path)
    (tmp_path / "token").write_text("short")
    assert run(["serve", "--config", file, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]) is Exit.USAGE
    assert "admin.token_file" in capsys.readouterr().err.splitlines()[-1]
