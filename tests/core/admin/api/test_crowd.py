"""A thousand clients that ask for the live stream and do not read it: most are refused, and messages go on."""

import time
from pathlib import Path

import httpx
import pytest
import trio

from core.config.admin import AdminSettings
from tests.kit.busy_broker import busy_broker

CROWD = 1000
AT_ONCE = 60
"""How many connections are begun at the same time. The operating system lets no more of them wait."""
ALONE = 25
"""Payments whose rate before the crowd is what that beside it is compared with: half a second's, on an idle machine."""
ASK = b"GET /api/headgate/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def published(admin: httpx.Client) -> int:
    """How many payments were published so far."""
    return admin.get("/api/queues/%2F/payments?columns=message_stats.publish").json()["message_stats"]["publish"]


async def crowd(host: str, port: int) -> list[int]:
    """Let a thousand clients ask; returns the status of each answer. A client that gets the stream reads no further and
    stays until all clients are answered."""
    statuses: list[int] = []
    at_once = trio.Semaphore(AT_ONCE)
    all_answered = trio.Event()

    async def come() -> None:
        async with at_once:
            stream = await trio.open_tcp_stream(host, port)
            await stream.send_all(ASK)
            status = int((await stream.receive_some(64)).split(b" ")[1])
        statuses.append(status)
        if len(statuses) == CROWD:
            all_answered.set()
        if status == 200:
            await all_answered.wait()
        await stream.aclose()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(CROWD):
                nursery.start_soon(come)
    return statuses


@pytest.mark.slow
def test_a_crowd_of_slow_readers_is_refused_and_publishers_go_on(tmp_path: Path):
    with busy_broker(tmp_path) as broker, httpx.Client(base_url=broker.admin_url) as admin:
        quiet, began = published(admin), time.monotonic()
        while (before := published(admin)) < quiet + ALONE:
            continue
        alone = (before - quiet) / (time.monotonic() - began)
        began = time.monotonic()
        statuses = trio.run(crowd, str(admin.base_url.host), admin.base_url.port or 0)
        beside = (published(admin) - before) / (time.monotonic() - began)
    assert statuses.count(200) == AdminSettings().live_clients_max
    assert statuses.count(503) == CROWD - statuses.count(200)
    assert beside >= 0.3 * alone
