"""A stop waits until no delivery is unsettled, for a limited time."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from amqp10.client import ClientError, Message, connect
from core.server.run import finish_work
from tests.kit.broker_process import READY, ROOT, STOP_SECONDS


async def test_the_wait_ends_when_nothing_is_unsettled(autojump_clock: MockClock):
    left, drained = [3, 2, 1, 0], []
    begin = trio.current_time()
    await finish_work(drain=lambda: drained.append(len(left)), unsettled=lambda: left.pop(0), seconds=60)
    assert (drained, left) == ([4], [])
    assert trio.current_time() - begin == pytest.approx(0.15)


async def test_the_wait_ends_when_the_time_is_over(autojump_clock: MockClock):
    begin = trio.current_time()
    await finish_work(drain=lambda: None, unsettled=lambda: 1, seconds=60)
    assert trio.current_time() - begin == pytest.approx(60)


async def test_without_a_drain_time_there_is_no_wait():
    await finish_work(drain=lambda: pytest.fail("drained"), unsettled=lambda: 1, seconds=0)


@contextmanager
def broker(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process whose stop begins with maintenance mode, and its URL."""
    (folder / "broker.toml").write_text('[server]\ndrain_time = "20s"\n')
    options = ["--config", str(folder / "broker.toml"), "--data", str(folder / "data")]
    command = [sys.executable, "-m", "amqp10", "serve", "--listen", "127.0.0.1:0", "--admin", "off", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = READY.search(process.stdout.readline())
            assert ready is not None
            yield process, f"amqp://guest:guest@{ready['host']}:{ready['port']}"
        finally:
            process.kill()


@pytest.mark.slow
async def test_a_stop_lets_a_consumer_settle_what_it_has(tmp_path: Path):
    with broker(tmp_path) as (process, url):
        async with connect(url) as client:
            await client.request("PUT", "/queues/q", {})
            sender, receiver = await client.open_sender("/queues/q"), await client.open_receiver("/queues/q")
            await sender.send(Message(body="hello"))
            delivery = await receiver.receive()
            process.send_signal(signal.SIGTERM)
            shown = {"draining": False}
            while not shown["draining"]:
                shown = (await client.request("GET", "/headgate/drain")).body
            assert shown["unsettled"] == 1
            delivery.accept()
            with suppress(ClientError):  # the stop may come before the answer
                await client.request("GET", "/headgate/drain")
        assert await trio.to_thread.run_sync(process.wait, STOP_SECONDS) == 0
