"""A broker in a process of its own: how it answers signals and the end of its terminal."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.clock import Now
from core.config.store import StoreSettings
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.routing.topology import numbered_identities
from core.server.data import OpenData, StartGivenUp

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 30.0
CONFIGURATION = """
[server]
listen = ["127.0.0.1:0"]
stop_grace = "100ms"
[log]
form = "json"
[admin]
enabled = false
"""


class Running:
    """The process of a broker, and its log."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process = process
        self.url = url
        self.configuration = folder / "broker.toml"
        self._log = folder / "broker.log"

    def lines(self, event: str) -> list[dict[str, object]]:
        """The lines of this event so far."""
        said = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        return [line for line in said if line["event"] == event]

    def wait_for(self, reached: Callable[[], bool]) -> None:
        """Read the log until it has a line of this event: the process sends no notice of a line."""
        until = time.monotonic() + SECONDS_MAX
        while not reached():
            assert time.monotonic() < until, self._log.read_text()
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.01)

    def ended(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        return self.process.wait(SECONDS_MAX)


@contextmanager
def running(folder: Path, *, terminal: int | None = None, wrapper: tuple[str, ...] = ()) -> Iterator[Running]:
    """A broker that is ready. It is killed at the end of the block, if it still runs. ``terminal`` becomes its
    controlling terminal."""
    configuration = folder / "broker.toml"
    configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "amqp10", "serve", "--config", str(configuration), "--data", str(folder / "data")]
    if terminal is not None:
        command = [sys.executable, "-c", CONTROLLED, *command]
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen(
            [*wrapper, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        ready = re.search(r"is ready at (\S+)", process.stdout.readline().decode())
        assert ready is not None, (folder / "broker.log").read_text()
        yield Running(folder, process, ready[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


CONTROLLED = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def test_sighup_reloads_and_never_ends_the_broker(tmp_path: Path):
    with running(tmp_path) as broker:
        broker.configuration.write_text(CONFIGURATION + "[amqp10]\nmax_link_credit = 50\nlink_credit_top_up = 20\n")
        broker.configuration.write_text(broker.configuration.read_text().replace("100ms", "200ms"))
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for(lambda: bool(broker.lines("configuration-reloaded")))
        (line,) = broker.lines("configuration-reloaded")
        assert line["taken"] == "server.stop_grace"
        assert line["needs_restart"] == "amqp10.max_link_credit, amqp10.link_credit_top_up"
        broker.configuration.write_text("[server]\nlisten = 5\n")
        broker.process.send_signal(signal.SIGHUP)
        broker.wait_for(lambda: bool(broker.lines("configuration-not-reloaded")))
        broker.process.send_signal(signal.SIGTERM)
        assert broker.ended() == Exit.DONE


def test_a_command_reloads_and_says_what_has_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with running(tmp_path) as broker:
        reload = ["config", "reload", "--json", "--url", broker.url]
        broker.configuration.write_text(CONFIGURATION.replace("100ms", "200ms") + "[engine]\nqueues_max = 5\n")
        assert run(reload) == Exit.DONE
        said = json.loads(capsys.readouterr().out)
        assert said == {"taken": ["server.stop_grace"], "needs_restart": ["engine.queues_max"], "problems": []}
        broker.configuration.write_text('[server]\nlinger = "1 parsec"\nlisten = 5\n')
        assert run(reload) == Exit.REFUSED
        assert "nothing was changed" in (told := capsys.readouterr().err)
        assert all(f"{broker.configuration}:{line}: " in told for line in (2, 3)), told
        assert len(broker.lines("configuration-not-reloaded")) == 2


def test_a_terminal_that_is_closed_ends_the_broker_in_order(tmp_path: Path):
    ours, theirs = pty.openpty()
    with ExitStack() as stack:
        master = stack.enter_context(os.fdopen(ours, "rb", buffering=0))
        terminal = stack.enter_context(os.fdopen(theirs, "rb", buffering=0))
        broker = stack.enter_context(running(tmp_path, terminal=terminal.fileno()))
        terminal.close()
        broker.process.send_signal(signal.SIGHUP)  # the terminal still exists
        broker.wait_for(lambda: bool(broker.lines("configuration-reloaded")))
        master.close()
        assert broker.ended() == Exit.DONE
    with running(tmp_path) as broker:
        assert broker.lines("store-opened")[0]["clean"] is True


def test_a_stop_while_the_data_folder_is_read_gives_the_start_up_and_changes_nothing(tmp_path: Path):
    with running(tmp_path) as broker:
        for words in (["queues", "declare", "q"], ["publish", "/queues/q", "--count", "10", "--size", "10"]):
            assert run([*words, "--url", broker.url]) is Exit.DONE
        broker.process.kill()
        broker.ended()
    log = LogCapture()
    with pytest.raises(StartGivenUp):
        OpenData(
            tmp_path / "data",
            StoreSettings(),
            clock=lambda: Now(0.0, 0.0),
            log=structlog.wrap_logger(None, processors=[log]),
            annotations=PlainAnnotations(),
            new_identity=numbered_identities(),
            stop_wanted=lambda: True,
        )
    with running(tmp_path) as broker:
        assert broker.lines("store-opened")[0]["messages"] == 10


def test_under_nohup_sighup_changes_nothing(tmp_path: Path):
    with running(tmp_path, wrapper=("nohup",)) as broker:
        broker.process.send_signal(signal.SIGHUP)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.ended() == Exit.DONE
        assert broker.lines("configuration-reloaded") == []


def test_signal_after_signal_ends_in_order_too(tmp_path: Path):
    with running(tmp_path) as broker:
        while broker.process.poll() is None:
            broker.process.send_signal(signal.SIGTERM)
            broker.process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        assert broker.ended() == Exit.DONE
    with running(tmp_path) as broker:
        assert broker.lines("store-opened")[0]["clean"] is True


def gone() -> int:
    """The writing end of a pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    return write


@pytest.mark.parametrize("program", ["amqp10 serve", "core"])
@pytest.mark.parametrize("both", [False, True], ids=["standard output", "standard error too"])
def test_a_reader_of_the_ready_line_that_has_gone_ends_nothing(tmp_path: Path, program: str, both: bool):
    """Without ``PYTHONUNBUFFERED``, which would hide that Python writes the line once more when the process ends."""
    configuration = tmp_path / "broker.toml"
    configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", *program.split(), "--config", str(configuration), "--data", str(tmp_path / "data")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(SECONDS_MAX)
        told = os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "PYTHONUNBUFFERED": ""}
        with ExitStack() as stack:
            output = stack.enter_context(os.fdopen(gone(), "wb"))
            error = output if both else subprocess.DEVNULL
            process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, env=told, stdout=output, stderr=error))
            stack.callback(process.kill)
            assert manager.recv(1024) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == Exit.DONE


@pytest.mark.parametrize("output", ["gone", "full"])
def test_output_whose_reader_has_gone_is_forgotten_and_output_on_a_full_disk_is_not(output: str):
    """``headgate … | head``, and ``headgate … > file``."""
    command = [sys.executable, "-m", "amqp10", "config", "show"]
    number = gone() if output == "gone" else os.open("/dev/full", os.O_WRONLY)
    with os.fdopen(number, "wb") as file:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": ""}, stdout=file, stderr=subprocess.PIPE, text=True
        )
    if output == "gone":
        assert (done.returncode, done.stderr) == (Exit.DONE, "")
    else:
        assert done.returncode != Exit.DONE
        assert "No space left on device" in done.stderr
