"""The login link that ``headgate serve`` shows on its terminal, and nowhere else."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
stop_grace = "100ms"
[admin]
listen = ["127.0.0.1:0"]
users_only = true
"""
LINK = re.compile(r"once and within five minutes: (http://127\.0\.0\.1:\d+)/console/#login=([0-9a-f]{64})")


def start(folder: Path, output: int) -> "subprocess.Popen[bytes]":
    """Start a broker whose console needs a login, and which writes its log into the folder."""
    (folder / "broker.toml").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "amqp10", "serve", "--data", str(folder / "data"), "--config"]
    with (folder / "broker.log").open("w") as log:
        return subprocess.Popen([*command, str(folder / "broker.toml")], cwd=ROOT, stdout=output, stderr=log)


def read_until(file: int, found: "re.Pattern[str]") -> "re.Match[str]":
    """Read what the broker says until it matches."""
    said = ""
    while (match := found.search(said)) is None:
        said += os.read(file, 4096).decode()
    return match


def test_the_terminal_shows_a_link_that_logs_in_and_the_log_does_not(tmp_path: Path):
    ours, theirs = pty.openpty()
    process = start(tmp_path, theirs)
    try:
        url, secret = read_until(ours, LINK).groups()
        headers = {"x-headgate-request": "1", "origin": url}
        with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            assert client.get("/api/nodes").status_code == 401
            assert client.post("/console/login", json={"link": secret}).status_code == 200
            assert client.get("/api/nodes").status_code == 200
            assert client.post("/console/login", json={"link": secret}).status_code == 401
    finally:
        process.terminate()
        process.wait(30)
        os.close(ours)
        os.close(theirs)
    assert "console-login" in (tmp_path / "broker.log").read_text()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_what_is_no_terminal_gets_no_link(tmp_path: Path):
    ours, theirs = os.pipe()
    process = start(tmp_path, theirs)
    os.close(theirs)
    try:
        ready = read_until(ours, re.compile(r"is ready at .*\n"))
    finally:
        process.terminate()
        process.wait(30)
    rest = b""
    while more := os.read(ours, 4096):
        rest += more
    os.close(ours)
    assert "login=" not in ready.string + rest.decode()
