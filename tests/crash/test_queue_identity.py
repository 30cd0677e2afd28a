"""The identity of a queue's declaration stays the same over every stop and start. A new declaration has another."""

import signal
from pathlib import Path

import pytest
import trio

from amqp10.client import ClientConnection, connect
from tests.crash.cycle import CLIENT, KINDS, Subject, broker, declare, encoded

SUBJECTS = [Subject(kind, kind) for kind in KINDS]


async def identities(connection: ClientConnection) -> dict[str, str]:
    """Return the identity of each queue's declaration, by the queue's name."""
    answer = await connection.request("GET", "/headgate/queues")
    assert isinstance(answer.body, dict)
    return {row["name"]: row["queue_identity"] for row in answer.body["items"] if row["name"] in KINDS}


@pytest.mark.slow
async def test_an_identity_outlives_kills_and_stops_and_ends_with_its_queue(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    told: list[dict[str, str]] = []
    with trio.fail_after(60):
        for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            async with broker(folder) as (url, process), connect(url, CLIENT) as connection:
                for subject in SUBJECTS:
                    await declare(connection, subject)
                    await (await connection.open_sender(f"/queues/{subject.name}")).send(encoded(len(told)))
                told.append(await identities(connection))
                process.send_signal(end)
                await trio.to_thread.run_sync(process.wait)
        async with broker(folder) as (url, process), connect(url, CLIENT) as connection:
            told.append(await identities(connection))
            for subject in SUBJECTS:
                await connection.request("DELETE", f"/queues/{subject.name}")
                await declare(connection, subject)
            anew = await identities(connection)
            process.kill()
            await trio.to_thread.run_sync(process.wait)
        async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
            last = await identities(connection)
    assert set(told[0]) == set(KINDS)
    assert len(set(told[0].values())) == len(KINDS)
    assert told == [told[0]] * len(told), "an identity changed over a stop"
    assert last == anew
    assert not set(anew.values()) & set(told[0].values()), "a declaration anew has an identity of before"
