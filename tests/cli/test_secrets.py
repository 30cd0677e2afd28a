"""Passwords and data of a broker in a process of its own: who can read its files, its log and its command line."""

import base64
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from amqp10 import client
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.client import NotLetIn, Url
from amqp10.client.settings import ClientSettings
from core.access.passwords import hash_password
from tests.kit.broker_process import ROOT, STOP_SECONDS, broker_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

RIGHT, WRONG, NEW = "right-Tr0ub4dor", "wrong-c0rrecthorse", "new-b4tterystaple"


# --- files -----------------------------------------------------------------------------------------------------------


def modes(folder: Path) -> dict[str, str]:
    """Everything in a folder that others than its owner can read or change, with its mode."""
    paths = [folder, *folder.rglob("*")]
    found = {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in paths if path.exists()}
    return {name: oct(mode) for name, mode in found.items() if mode & 0o077}


def test_data_files_are_the_broker_s_own_whatever_the_umask(tmp_path: Path):
    data = tmp_path / "data"
    before = os.umask(0)
    try:
        with broker_process("--data", str(data)) as broker:
            url = ["--url", broker.url()]
            for name in ("classic", "quorum", "stream"):
                assert run(["queues", "declare", name, "--argument", f"x-queue-type={name}", *url]) is Exit.DONE
                for body in ("small", "x" * 10_000):
                    assert run(["publish", f"/queues/{name}", body, *url]) is Exit.DONE
            assert modes(data) == {}
        assert modes(data) == {}, "nor what the end of the broker has written"
        assert len(list(data.rglob("*"))) > 10
    finally:
        os.umask(before)


# --- log, command line, errors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noted:
    """A broker with the user alice that logs at level debug."""

    address: str
    log: Path
    pid: int

    def url(self, password: str) -> str:
        return f"amqp://alice:{password}@{self.address}"


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[Noted]:
    keys = hash_password(RIGHT, salt=b"salt of the test", iterations=4096)
    config, log = tmp_path / "broker.toml", tmp_path / "log"
    config.write_text(
        '[log]\nlevel = "debug"\n[access]\npassword_iterations = 4096\n[admin]\nenabled = false\n'
        f'[[users]]\nname = "alice"\nscram = "{keys.render()}"\n'
    )
    options = ["--config", str(config), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "amqp10", "serve", *options]
    with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=out) as process:
        try:
            assert process.stdout is not None
            ready = re.search(rb"amqp://(127\.0\.0\.1:\d+)", process.stdout.readline())
            assert ready is not None
            yield Noted(ready[1].decode(), log, process.pid)
        finally:
            process.terminate()
            assert process.wait(STOP_SECONDS) == 0


async def log_in(url: str, mechanism: str) -> None:
    async with client.connect(url, ClientSettings(mechanisms=(mechanism,), reconnect=None)):
        pass


def forms(password: str) -> list[str]:
    """A password as it is, and as a log line might have it."""
    raw = password.encode()
    response = base64.b64encode(b"\0alice\0" + raw).decode()
    return [password, raw.hex(), base64.b64encode(raw).decode().rstrip("="), response]


async def test_a_password_is_in_no_log_line_error_or_command_line(noted: Noted, capsys: pytest.CaptureFixture[str]):
    await log_in(noted.url(RIGHT), "PLAIN")
    with pytest.raises(NotLetIn) as refused:
        await log_in(noted.url(WRONG), "PLAIN")
    assert WRONG not in str(refused.value)
    with BlockingConnection.open(Url.parse(noted.url(RIGHT))) as connection:
        answer = BlockingManagement(connection).request("PUT", "/headgate/users/bob", {"password": NEW})
        assert answer.status < 300
    assert run(["status", "--url", noted.url(WRONG)]) is Exit.NOT_LET_IN
    told = capsys.readouterr()
    process = Path("/proc") / str(noted.pid)
    command = (process / "cmdline").read_bytes().decode() + (process / "environ").read_bytes().decode()
    children = "".join((task / "children").read_text() for task in (process / "task").iterdir())
    assert children == "", "the broker starts no other process"
    written = noted.log.read_text()
    assert "login-failed" in written
    for text in (told.out + told.err, command, written):
        for password in (RIGHT, WRONG, NEW):
            assert [form for form in forms(password) if form in text] == []
