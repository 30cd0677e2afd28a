"""Broker processes that start at a tenth of the cost: forks of a process that has imported what a broker imports.

``headgate serve`` takes 0.6 s of CPU until it is ready, and nearly all of that is the import. Each process of the tests
therefore has one process that does the import once, and asks it for brokers. A fork runs ``main`` of the command as
``python -m amqp10`` does, with arguments, environment, standard output and standard error of its own. Tests and
measurements of the start, of what is imported and of memory start ``python -m amqp10`` instead.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from amqp10.cli.main import main
from amqp10.cli.starting import imported_serving

REQUEST_BYTES_MAX = 1 << 17
"""Arguments and environment of a broker. Linux's buffer of a socket has room for a packet of this size."""
NUMBER = struct.Struct("i")
"""The process sends its number for each broker, and the status of the broker at its end."""
_ONE_AT_A_TIME = threading.Lock()
"""Tests start brokers in several threads. Without it each thread could make a process that forks, and all of these but
the one that is kept would end, without a word about the ends of their brokers."""


class PreparedBroker:
    """A running ``headgate``, with those methods of :class:`subprocess.Popen` that tests use."""

    def __init__(self, *arguments: str, stderr: int = 2, environment: Mapping[str, str] = os.environ) -> None:
        """``stderr``: the descriptor of the file to which the log goes. Raises struct.error if the process that should
        fork has ended."""
        request = json.dumps([arguments, dict(environment)]).encode()
        said, stdout = os.pipe()
        news, status = os.pipe()
        try:
            with _ONE_AT_A_TIME:
                forking = _forking_process()
            socket.send_fds(forking, [request], [stdout, stderr, status])
        finally:
            os.close(stdout)
            os.close(status)
        self.stdout = open(said, encoding="utf-8")  # noqa: SIM115
        self._news = open(news, "rb", buffering=0)  # noqa: SIM115
        (self.pid,) = NUMBER.unpack(self._news.read(NUMBER.size))
        self.returncode: int | None = None

    def wait(self, time_out_s: float | None = None) -> int:
        """The status with which the broker ended, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._news, selectors.EVENT_READ)
                if not selector.select(time_out_s):
                    raise subprocess.TimeoutExpired("headgate", time_out_s or 0.0)
            with self._news:
                (self.returncode,) = NUMBER.unpack(self._news.read(NUMBER.size))
        return self.returncode

    def poll(self) -> int | None:
        """The status, or None while the broker runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Have it end in order."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


@cache
def _forking_process() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.kit.prepared_broker", str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], pass_fds=[theirs.fileno()])
    atexit.register(process.wait)
    atexit.register(process.kill)  # before the wait
    return ours


def _fork_when_asked(tests: socket.socket) -> None:
    """Returns in each fork, and ends the process with the tests."""
    running: dict[int, int] = {}  # the descriptor for the news of each broker, by its process
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    with tests, woken, wakes, selectors.DefaultSelector() as selector:
        selector.register(tests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if woken in ready:
                woken.recv(1024)
                _tell_ended(running)
            if tests not in ready:
                continue
            request, descriptors, _, _ = socket.recv_fds(tests, REQUEST_BYTES_MAX, 3)
            if not request:
                sys.exit()
            *outputs, news = descriptors
            process = os.fork()
            if not process:
                break
            for one in outputs:
                os.close(one)
            running[process] = news
            os.write(news, NUMBER.pack(process))
        signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, one in enumerate(outputs, 1):
        os.dup2(one, number)
    for one in (*descriptors, *running.values()):
        os.close(one)
    arguments, environment = json.loads(request)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)


def _tell_ended(running: dict[int, int]) -> None:
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        news = running.pop(process)
        with suppress(BrokenPipeError):  # the test waits for it no more
            os.write(news, NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(news)


if __name__ == "__main__":
    imported_serving()
    gc.collect()
    gc.freeze()  # each fork would copy the pages of the objects that it examines
    _fork_when_asked(socket.socket(fileno=int(sys.argv[1])))
    main()
