"""A broker in a process of its own: how it ends, and how much memory it uses."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import trio

from amqp10.wire.framing import PROTOCOL_HEADER_SASL
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach, Close
from tests.kit.attacked_server import SocketPeer
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.hostile import frame
from tests.kit.wire import numbered

pytestmark = pytest.mark.slow

CONFIGURATION = """
[server]
handshake_time_out = "60s"
stop_grace = "700ms"
linger = "500ms"
"""
HALF_OPEN = 500
MIB = 2**20
STOPPED_SECONDS = 4.5
"""The longest time from the signal to the end. The grace is a fraction of that; with the usual grace it would be more
than 5 s."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    """A broker with a short grace at its stop. Every test checks that it ends with status 0."""
    configuration = tmp_path / "broker.toml"
    configuration.write_text(CONFIGURATION)
    with broker_process("--config", str(configuration)) as address:
        yield address


async def consumer_of_a_dynamic_node(broker: BrokerAddress, stack: ExitStack, *, link_credit: int) -> SocketPeer:
    """A connection that publishes to a dynamic node of its own and consumes from it."""
    stream = await trio.open_tcp_stream(broker.host, broker.port)
    stack.callback(stream.socket.close)
    peer = SocketPeer(stream)
    await peer.log_in()
    await peer.send(Attach(name="own", handle=1, role=True, source=Source(dynamic=True), target=Target()))
    attach = await peer.expect(Attach)
    assert attach.source is not None
    assert isinstance(attach.source, Source)
    await peer.attach_sender(str(attach.source.address))
    await peer.send(peer.grant(link_credit))
    return peer


async def test_a_stop_with_unsettled_deliveries(broker: BrokerAddress):
    """Every peer is told. The broker waits for a peer that does not answer no longer than the grace."""
    with ExitStack() as stack:
        peer = await consumer_of_a_dynamic_node(broker, stack, link_credit=10)
        await peer.publish(numbered(10))
        assert await peer.bodies(10) == numbered(10)
        deaf = await consumer_of_a_dynamic_node(broker, stack, link_credit=1000)
        await deaf.publish([bytes(60_000)] * 150)
        silent = await trio.open_tcp_stream(broker.host, broker.port)
        stack.callback(silent.socket.close)
        await silent.send_all(PROTOCOL_HEADER_SASL)
        assert (await silent.receive_some()).startswith(PROTOCOL_HEADER_SASL)
        began = trio.current_time()
        os.kill(broker.pid, signal.SIGTERM)
        close = await peer.expect(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:connection:forced"
        assert "SIGTERM" in (close.error.description or "")
        await peer.send(Close())
        assert await peer.rest() == b""
        assert await SocketPeer(silent).rest() == b""
        with trio.fail_after(STOPPED_SECONDS):
            while running(broker.pid):  # noqa: ASYNC110 - a process has no event to wait for
                await trio.sleep(0.01)
        assert trio.current_time() - began < STOPPED_SECONDS


def running(pid: int) -> bool:
    """True while the process has not ended, also when its parent has not asked for its status."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def half_open(broker: BrokerAddress, data: bytes, n: int) -> None:
    """Open this many connections that send these bytes and no more, and close them."""
    with ExitStack() as stack:
        for _ in range(n):
            stream = await trio.open_tcp_stream(broker.host, broker.port)
            stack.callback(stream.socket.close)
            await stream.send_all(data)
        await trio.sleep(0.1)


async def test_half_open_connections_cost_little_and_leave_nothing(broker: BrokerAddress):
    """Each connection makes the broker keep a SASL frame that lacks a byte: the most that a stranger can make it
    keep."""
    process = psutil.Process(broker.pid)
    data = PROTOCOL_HEADER_SASL + frame(b"", size=8192, kind=1) + bytes(8183)
    await half_open(broker, data, 20)
    before = process.memory_info().rss
    peak = 0
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            nonlocal peak
            while True:
                peak = max(peak, process.memory_info().rss)
                await trio.sleep(0.01)

        nursery.start_soon(watch)
        await half_open(broker, data, HALF_OPEN)
        nursery.cancel_scope.cancel()
    assert (peak - before) / HALF_OPEN < MIB / 10
    for _ in range(6):  # the allocator's arenas grow for some rounds, and then no more
        await half_open(broker, data, HALF_OPEN)
    filled = process.memory_info().rss
    for _ in range(3):
        await half_open(broker, data, HALF_OPEN)
    assert process.memory_info().rss - filled < 5 * MIB, "8 KiB left of each connection would be 12 MiB"
