"""``headgate serve`` and ``headgate config``: a start, and the errors that prevent one."""

import errno
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amqp10.cli.exits import EPILOGUE, LASTING, Exit
from amqp10.cli.main import run
from amqp10.cli.serving import ending, ready_line
from core.access.passwords import hash_password
from core.config import Settings, UserSettings, load
from core.errors import Invalid
from core.process import headgate_version
from core.server.listener import CannotListen
from core.store.errors import NoSpace, StoreDamaged, StoreFailure, StoreRefused, refusal
from core.store.folder import open_folder
from tests.kit.broker_process import STOP_SECONDS

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def offline_folder(folder: Path) -> Iterator[Path]:
    """A data folder that a process uses."""
    used = open_folder(folder / "data")
    yield folder / "data"
    used.close()


def test_a_port_in_use(broker_url, capsys, tmp_path):
    place = broker_url.rpartition("@")[2]
    assert run(["serve", "--listen", place, "--data", str(tmp_path)]) is Exit.NOT_NOW
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"headgate: cannot listen on {place}: Address already in use"


def test_a_data_folder_in_use(capsys, tmp_path):
    with offline_folder(tmp_path) as data:
        assert run(["serve", "--listen", "127.0.0.1:0", "--data", str(data)]) is Exit.NOT_NOW
    assert "is in use by" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CannotListen(errno.EADDRINUSE, "in use"), Exit.NOT_NOW),
        (CannotListen(errno.EADDRNOTAVAIL, "the network is not there yet"), Exit.NOT_NOW),
        (CannotListen(errno.EACCES, "a port below 1024"), Exit.USAGE),
        (CannotListen(socket.EAI_NONAME, "no such host"), Exit.USAGE),
        (Invalid("a token that is none"), Exit.USAGE),
        (refusal(PermissionError(errno.EACCES, "not yours"), "the folder"), Exit.USAGE),
        (refusal(OSError(errno.EROFS, "read only"), "the folder"), Exit.USAGE),
        (refusal(OSError(errno.ENOSPC, "full"), "the folder"), Exit.NOT_NOW),
        (refusal(OSError(errno.EIO, "failing"), "the folder"), Exit.NOT_NOW),
        (StoreRefused("of a newer format"), Exit.USAGE),
        (StoreDamaged("record 7"), Exit.DAMAGED),
        (StoreFailure("sync", "1.log", OSError(errno.EIO, "failing")), Exit.DISK_FAILED),
        (NoSpace("1.log"), Exit.DISK_FAILED),
        (OSError(errno.EBADF, "a bug of ours"), None),
        (AssertionError("a bug of ours"), None),
    ],
)
def test_how_a_broker_ends(error: Exception, code: Exit | None):
    assert ending(error) is code


def test_every_exit_code_stands_in_the_page_and_says_whether_a_start_is_repeated():
    page = (ROOT / "docs" / "operating" / "running.md").read_text()
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| (yes|no|–) \|$", page, re.MULTILINE)
    assert [int(code) for code, _ in rows] == sorted(Exit)
    assert {int(code) for code, again in rows if again == "no"} == LASTING
    assert all(f"{code.value} " in EPILOGUE for code in Exit)


@pytest.mark.parametrize(
    ("words", "complaints"),
    [
        (["--listen", "5672"], ["must be HOST:PORT"]),
        (["--listen", "0.0.0.0:0"], ["can be reached from other machines, and there are no users"]),
        (["--config", "/nonexistent/broker.toml"], ["/nonexistent/broker.toml: No such file or directory"]),
    ],
)
def test_a_configuration_that_cannot_be_used(words, complaints, capsys):
    assert run(["serve", *words]) is Exit.USAGE
    told = capsys.readouterr().err
    assert told.startswith("headgate: the configuration cannot be used:\n")
    assert all(complaint in told for complaint in complaints)


def test_every_problem_of_a_file_is_told_at_once_with_its_line(tmp_path, capsys):
    file = tmp_path / "broker.toml"
    file.write_text('[amqp10]\nmax_link_credits = 5\n\n[server]\nlisten = ["127.0.0.1:5672"]\nlinger = "1 parsec"\n')
    for command in (["config", "check"], ["serve", "--config"]):
        assert run([*command, str(file)]) is Exit.USAGE
        told = capsys.readouterr().err
        assert f"{file}:2: amqp10.max_link_credits is not a key; did you mean amqp10.max_link_credit?" in told
        assert f"{file}:6: server.linger" in told


def test_config_check_and_show(tmp_path, capsys):
    file = tmp_path / "broker.toml"
    file.write_text("[amqp10]\nmax_link_credit = 50\nlink_credit_top_up = 20\n")
    assert run(["config", "check", str(file)]) is Exit.DONE
    assert capsys.readouterr().out == f"{file} is good\n"
    assert run(["config", "check"]) is Exit.DONE
    capsys.readouterr()
    assert run(["config", "show", str(file)]) is Exit.DONE
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["amqp10"]["max_link_credit"] == 50
    assert load(file).amqp10.max_link_credit == 50


def test_the_ready_line_names_every_address_and_guest_only_where_guest_may_connect():
    addresses = [("127.0.0.1", 5672), ("::1", 5673)]
    version = headgate_version()
    assert ready_line(Settings(), addresses, pid=7) == (
        f"Headgate {version} is ready at amqp://guest:guest@127.0.0.1:5672 and amqp://guest:guest@[::1]:5673 (pid 7)"
    )
    alice = UserSettings(name="alice", scram=hash_password("secret", salt=b"0123456789abcdef"))
    assert ready_line(Settings(users=(alice,)), addresses[:1], pid=7) == (
        f"Headgate {version} is ready at amqp://127.0.0.1:5672 (pid 7)"
    )


def test_every_setting_can_be_set_and_tells_where_it_comes_from(capsys):
    environ = {**os.environ, "HEADGATE__LOG__LEVEL": "debug", "HEADGATE__SERVER__CONNECTIONS_MAX": "7"}
    words = ["config", "show", "--json", "--origin", "--set", "server.connections_max=9"]
    command = [sys.executable, "-m", "amqp10", *words]
    told = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True).stdout
    found = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(told)}
    assert found["log.level"] == ('"debug"', "environment HEADGATE__LOG__LEVEL")
    assert found["server.connections_max"] == ("9", "command line")
    assert found["data.folder"][1] == "default"
    assert run(["config", "show", "--set", "server.connections_max=many"]) is Exit.USAGE
    assert "command line: server.connections_max" in capsys.readouterr().err


def test_a_trial_broker_keeps_no_data(tmp_path, capsys):
    assert run(["serve", "--dev", "--data", str(tmp_path)]) is Exit.USAGE
    assert "throws its data away" in capsys.readouterr().err
    options = ["--dev", "--listen", "127.0.0.1:0", "--admin", "off"]
    command = [sys.executable, "-m", "amqp10", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = re.search(r"amqp://\S+", line)
            assert url is not None
            assert run(["queues", "declare", "kept", "--url", url[0]]) is Exit.DONE
            files = [one.resolve() for one in Path(f"/proc/{process.pid}/fd").iterdir()]
            folders = {parent for file in files for parent in file.parents if parent.name.startswith("headgate-")}
            assert folders
            assert all(folder.exists() for folder in folders)
        finally:
            process.terminate()
            process.communicate(timeout=STOP_SECONDS)
    assert [path for path in folders if path.exists()] == []
