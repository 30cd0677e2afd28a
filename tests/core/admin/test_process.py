"""A whole broker with an admin server: it answers, tells of an alarm and of the stop, and ends with the broker."""

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
from proton.utils import BlockingConnection

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from tests.kit.broker_process import READY, ROOT, STOP_SECONDS

TOKEN = "a-token-for-a-test"


@dataclass(frozen=True, slots=True)
class Broker:
    """A process, where it serves messages, and where it answers over HTTP."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    admin: httpx.Client


def configuration(folder: Path, listen: str = "127.0.0.1:0") -> str:
    """The path of a file."""
    (folder / "token").write_text(f"{TOKEN}\n")
    file = folder / "broker.toml"
    file.write_text(f'[admin]\nenabled = true\nlisten = ["{listen}"]\ntoken_file = "{folder}/token"\n')
    return str(file)


@contextmanager
def broker_with_admin(folder: Path) -> Iterator[Broker]:
    """Runs until the block ends."""
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

        with socket.create_connection(broker.address) as lingering:  # keeps the broker from ending for a while
            lingering.sendall(b"AMQP\x03\x01\x00\x00")
            assert lingering.recv(8) == b"AMQP\x03\x01\x00\x00"
            broker.process.send_signal(signal.SIGTERM)
            assert status_after_stop(broker.admin) == 503
        assert broker.process.wait(STOP_SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            broker.admin.get("/livez")


def seconds_of_closed_windows(admin: httpx.Client) -> float:
    """By the memory alarm."""
    name = 'headgate_session_window_closed_seconds_total{direction="in",reason="memory"}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", admin.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def status_after_stop(admin: httpx.Client) -> int:
    """What /readyz says once the broker has taken notice of the signal."""
    while True:
        answer = admin.get("/readyz")
        if answer.status_code != 200:
            assert answer.json()["reasons"] == [{"reason": "draining"}]
            return answer.status_code


@pytest.mark.slow
def test_a_port_in_use_is_named_before_anybody_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        file = configuration(tmp_path, place)
        assert (
            run(["serve", "--config", file, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]) is Exit.USAGE
        )
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == f"headgate: cannot listen on {place}: Address already in use"
    assert told.out == ""


@pytest.mark.slow
def test_a_token_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = configuration(tmp_path)
    (tmp_path / "token").write_text("short")
    assert run(["serve", "--config", file, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]) is Exit.USAGE
    assert "admin.token_file" in capsys.readouterr().err.splitlines()[-1]
