"""``headgate debug bundle``: the content of the file, which has no secret in it."""

import json
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp10.cli.bundle import REDACTED, redacted
from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from core.access.passwords import hash_password
from tests.kit.broker_process import ROOT, STOP_SECONDS

PASSWORD, TOKEN, BODY, FILTER = "pw-Tr0ub4dor", "token-c0rrecthorse", "body-b4ttery", "pw-in-a-name"
KEYS = hash_password(PASSWORD, salt=b"0123456789abcdef", iterations=4096).render()
SECRETS = [PASSWORD, TOKEN, BODY, *re.split(r"[$:]", KEYS)[2:]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker that has a user, an admin server with a token, and a message in a queue."""
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "token").write_text(TOKEN)
    [port] = free_ports(1)
    (folder / "broker.toml").write_text(
        f'[admin]\nenabled = true\nlisten = ["127.0.0.1:{port}"]\ntoken_file = "{folder}/token"\n'
        f'[[users]]\nname = "alice"\nscram = "{KEYS}"\n'
    )
    options = ["--config", str(folder / "broker.toml"), "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    command = [sys.executable, "-m", "amqp10", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(r"amqp://(127\.0\.0\.1:\d+)", process.stdout.readline())
            assert ready is not None
            yield f"amqp://alice:{PASSWORD}@{ready[1]}"
            process.terminate()
            assert process.wait(STOP_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_the_content_of_a_bundle(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "bundle.zip"
    assert run(["queues", "declare", "orders", "--url", url]) is Exit.DONE
    assert run(["publish", "/queues/orders", BODY, "--url", url]) is Exit.DONE
    capsys.readouterr()
    assert run(["debug", "bundle", str(file), "--url", url]) is Exit.DONE
    told = capsys.readouterr()
    assert str(file) in told.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {"status.json", "configuration.toml", "queues.json", "links.json", "stalls.json", "policies.json"} <= set(
        texts
    )
    assert {"environment.json", "problems.txt", "memory.json", "drain.json"} <= set(texts)
    assert "rabbitmq_connections" in texts["metrics.txt"]
    assert json.loads(texts["queues.json"])[0]["messages_ready"] == 1
    assert json.loads(texts["environment.json"])["packages"]["trio"]
    assert "alice" in texts["configuration.toml"]
    for name, text in texts.items():
        assert [secret for secret in SECRETS if secret in text] == [], name
    assert run(["debug", "bundle", str(file), "--url", url]) is Exit.USAGE  # the file exists
    assert "exists" in capsys.readouterr().err.lower()


def test_a_broker_that_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "bundle.zip"
    nowhere = ["--url", f"amqp://alice:{PASSWORD}@127.0.0.1:1"]
    assert run(["debug", "bundle", str(file), *nowhere]) is Exit.UNREACHABLE
    assert not file.exists()
    assert run(["debug", "bundle", str(file), "--data", str(tmp_path / "none"), *nowhere]) is Exit.DONE
    assert "not in the bundle: broker: " in capsys.readouterr().err
    with zipfile.ZipFile(file) as archive:
        assert "store: " in archive.read("problems.txt").decode()
        assert PASSWORD not in archive.read("problems.txt").decode()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"amqp://alice:{PASSWORD}@host:5672/", f"amqp://{REDACTED}@host:5672/"),
        ("http://host:5672/a@b", "http://host:5672/a@b"),
        (f'scram = "{KEYS}"', f'scram = "{REDACTED}"'),
        (f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {REDACTED}"),
        ("nothing of that", "nothing of that"),
    ],
)
def test_text_that_looks_like_a_secret(text: str, left: str):
    assert redacted(text) == left
