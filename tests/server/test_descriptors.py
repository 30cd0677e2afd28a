"""A real process that runs out of descriptors, and one that is told to stop: every client is told, or its connection is
closed."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio

from core.server.descriptors import FILES_MIN, RESERVED, too_few_left, total_limit
from tests.kit.echo import HEADER

LIMIT = 256
IDLE_MAX = 20
"""Descriptors of a broker without connections: 19 with Python 3.11, 20 with 3.14."""
CLIENTS = 400
AT_ONCE_S = 4.0
"""Less than the 5 s that a handshake may take, so no deadline has answered in the broker's place. The tool
``python -m tests.hostile.descriptor_limits`` measures how fast the answers are on an idle machine, and judges that."""

pytestmark = pytest.mark.slow


@contextmanager
def echo_process(*arguments: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.kit.echo_process", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def meet(port: int, answers: list[tuple[bytes, float]], served: list[trio.SocketStream]) -> None:
    """Connect, send a protocol header, and note what came back and how long it took from the connect."""
    start = time.monotonic()
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    answer = b""
    try:
        await stream.send_all(HEADER + b"hello\n")
        while data := await stream.receive_some():
            answer += data
            if answer == HEADER + b"hello\n":
                served.append(stream)
                break
    except trio.BrokenResourceError:
        pass
    answers.append((answer, time.monotonic() - start))
    if stream not in served:
        await stream.aclose()


async def meet_all(port: int) -> Sequence[tuple[bytes, float]]:
    answers: list[tuple[bytes, float]] = []
    served: list[trio.SocketStream] = []
    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(meet, port, answers, served)
    for stream in served:
        await stream.send_all(b"unharmed\n")
        assert await stream.receive_some() == b"unharmed\n"
        await stream.aclose()
    return answers


@pytest.mark.parametrize("used_up", [0, RESERVED + 16], ids=["soft limit", "hard limit"])
def test_when_descriptors_run_out_every_client_gets_an_answer_at_once(used_up: int):
    with echo_process(LIMIT, used_up) as (process, port):
        answers = trio.run(meet_all, port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        log = [json.loads(line) for line in process.stdout]
    assert len(answers) == CLIENTS
    served = [answer for answer, _ in answers if answer == HEADER + b"hello\n"]
    told = [
        answer
        for answer, _ in answers
        if f"refused: the limit of {LIMIT - RESERVED} connections is reached".encode() in answer
    ]
    assert max(seconds for _, seconds in answers) < AT_ONCE_S
    if used_up:
        assert LIMIT - used_up - IDLE_MAX <= len(served) < LIMIT - used_up
        assert "out of file descriptors" in {line.get("reason") for line in log}
    else:
        assert len(served) == LIMIT - RESERVED
        assert len(told) == CLIENTS - len(served), "not everybody was told why"
    assert len([line for line in log if line["event"] == "connection-refused"]) <= 3


def test_connections_leave_the_store_its_descriptors():
    assert not too_few_left(total_limit() - FILES_MIN - 1)
    assert too_few_left(total_limit() - FILES_MIN)


def test_with_no_descriptor_left_at_all_a_connection_is_closed_at_once():
    """Other files than connections use the descriptors up: here the limit is lowered to those in use."""

    async def main() -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as first:
            await first.send_all(HEADER)
            assert await first.receive_some() == HEADER
            highest = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (highest + 1, LIMIT))
            for _ in range(3):
                async with await trio.open_tcp_stream("127.0.0.1", port) as late:
                    with trio.fail_after(AT_ONCE_S):
                        assert await late.receive_some() == b""
            await first.send_all(b"unharmed\n")
            assert await first.receive_some() == b"unharmed\n"

    with echo_process(LIMIT, 0) as (process, port):
        trio.run(main)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert process.stdout is not None
        log = [json.loads(line) for line in process.stdout]
    assert "out of file descriptors" in {line.get("reason") for line in log}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_orderly_with_exit_code_0(number: signal.Signals):
    with echo_process(LIMIT, 0) as (process, port):

        async def main() -> bytes:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                await stream.send_all(HEADER)
                assert await stream.receive_some() == HEADER
                process.send_signal(number)
                return bytes(await stream.receive_some())

        assert trio.run(main) == f"closed: the broker is stopping ({number.name})\n".encode()
        assert process.wait(5) == 0


def test_a_second_signal_does_not_wait_for_any_client():
    with echo_process(LIMIT, 0) as (process, port):

        async def main() -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                await stream.send_all(HEADER)
                await stream.receive_some()
                process.send_signal(signal.SIGTERM)
                await stream.receive_some()
                process.send_signal(signal.SIGTERM)
                with trio.fail_after(AT_ONCE_S):
                    while await stream.receive_some():
                        pass

        trio.run(main)
        assert process.wait(AT_ONCE_S) == 0
