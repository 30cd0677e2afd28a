"""A data folder that goes away, or becomes read-only, while the broker serves."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import trio

from amqp10.cli.exits import Exit
from amqp10.client import Uncertain, Unsent, connect
from amqp10.wire.messaging import Accepted
from tests.crash.cycle import CLIENT, KINDS, Subject, broker, declare, encoded, log_of, read_all


async def lose(folder: Path, kind: str) -> None:
    """Publish, let the folder go away, publish again: no confirm comes, and the broker ends. Put the folder back: every
    message is there."""
    subject = Subject(kind, "q")
    elsewhere = folder.with_name("elsewhere")
    async with broker(folder) as (url, process):
        async with connect(url, CLIENT) as connection:
            await declare(connection, subject)
            sender = await connection.open_sender("/queues/q")
            fates = await sender.send_many([encoded(number) for number in range(50)])
            assert [fate.fate for fate in fates] == [Accepted()]
            shutil.move(folder, elsewhere)
            fate = await sender.send(encoded(50))
            assert isinstance(fate, Uncertain | Unsent), fate
        status = await trio.to_thread.run_sync(partial(process.wait, 10))
    assert status == Exit.DISK_FAILED
    last = log_of(folder).read_text().splitlines()[-1]
    assert "Nothing is confirmed any more" in last
    assert "Traceback" not in log_of(folder).read_text()
    shutil.move(elsewhere, folder)
    async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
        await declare(connection, subject)  # the definitions stayed the same, or this would be refused
        found = [one.number for one in await read_all(connection, subject, settle=False)]
    assert found[:50] == list(range(50))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_row_0_15_nothing_is_confirmed_without_a_stored_copy(tmp_path: Path, kind: str) -> None:
    with trio.fail_after(60):
        await lose(tmp_path / "data", kind)
