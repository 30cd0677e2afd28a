"""Definitions that are damaged, and data that no definition knows, against a broker in a process of its own.

Every loss is reported, and a start deletes only what a client has deleted.
"""

import json
import shutil
import subprocess
import sys
from contextlib import closing, redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
import trio

from amqp10.cli.exits import Exit
from amqp10.cli.main import run as headgate
from amqp10.client import connect
from amqp10.client_core.message import Message
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from core.engine.routing.topology import numbered_identities
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, open_definitions
from core.store.descriptions import DESCRIPTION_FILE, folder_of
from tests.crash.cycle import CLIENT, KINDS, Subject, broker, declare, log_of, read_all
from tests.kit.broker_process import ROOT
from tests.kit.prepared_broker import PreparedBroker

COUNT = 20
BOTH = (DEFINITIONS_FILE, COPY_FILE)


async def fill(url: str) -> None:
    """Declare a queue of each type, and publish messages of which every second has a large body."""
    async with connect(url, CLIENT) as connection:
        for kind in KINDS:
            await declare(connection, Subject(kind, kind))
            sender = await connection.open_sender(f"/queues/{kind}")
            messages = [
                Message(body=str(number).rjust(5000 if number % 2 else 1).encode(), header=Header(durable=True))
                for number in range(COUNT)
            ]
            fates = await sender.send_many(messages)
            assert [fate.fate for fate in fates] == [Accepted()]


async def described(folder: Path) -> None:
    """Wait until the folder of each queue has its description."""
    files = [folder_of(folder, kind, number) / DESCRIPTION_FILE for number, kind in enumerate(KINDS, 1)]
    for _ in range(1500):
        if all(file.exists() for file in files):
            return
        await trio.sleep(0.02)
    raise AssertionError(f"a queue is not described after 30 s: {files}")


async def stop(process: PreparedBroker) -> None:
    process.terminate()
    assert await trio.to_thread.run_sync(partial(process.wait, 30)) == 0


async def check_all_is_there(folder: Path, *, kinds: tuple[str, ...] = KINDS) -> None:
    """Start a broker on the folder, check that it has all messages of these queues, and kill it."""
    async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
        for kind in kinds:
            found = [one.number for one in await read_all(connection, Subject(kind, kind), settle=False)]
            assert found == list(range(COUNT)), kind


def refused(folder: Path) -> str:
    """The error of a broker that does not start on the folder. The folder stays as it is."""
    before = {path: path.read_bytes() for path in folder.glob("*.db")}
    command = [
        sys.executable,
        "-m",
        "amqp10",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--data",
        str(folder),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert {path: path.read_bytes() for path in folder.glob("*.db")} == before
    return ended.stderr


def store(folder: Path, *words: str) -> str:
    """The output of the command ``store``, in this process, because a process of its own takes as long as a broker's
    start."""
    said, told = StringIO(), StringIO()
    with redirect_stdout(said), redirect_stderr(told):
        code = headgate(["store", *words, "--data", str(folder)])
    assert code is Exit.DONE, told.getvalue()
    return said.getvalue()


def forget_queues(folder: Path) -> None:
    """Change the definitions as if they had never had the queues. Their seal still proves them."""
    with closing(open_definitions(folder, new_identity=numbered_identities())) as database:
        database._change_all("nothing", [("DELETE FROM queues", ())])
        database._change_all("nothing", [("DELETE FROM deleted", ())])


@pytest.mark.slow
async def test_definitions_are_lost_and_found(tmp_path: Path) -> None:
    filled, folder = tmp_path / "filled", tmp_path / "data"
    with trio.fail_after(240):
        async with broker(filled) as (url, _):
            older = {name: (filled / name).read_bytes() for name in BOTH}
            await fill(url)
            await described(filled)

        shutil.copytree(filled, folder)
        image = bytearray((folder / DEFINITIONS_FILE).read_bytes())
        image[len(image) // 2] ^= 1
        (folder / DEFINITIONS_FILE).write_bytes(image)
        (folder / COPY_FILE).write_bytes((filled / COPY_FILE).read_bytes())
        await check_all_is_there(folder)
        (folder / COPY_FILE).unlink()
        await check_all_is_there(folder)
        assert "definitions-rebuilt" in log_of(folder).read_text()

        for name in BOTH:
            (folder / name).write_bytes(older[name])
        text = refused(folder)
        assert "the definitions are older than they must be" in text
        assert f"headgate store rebuild --data {folder}" in text
        for name in BOTH:
            (folder / name).unlink()
        assert "that there were some" in refused(folder)
        assert "queue 'stream' came back from its folder" in store(folder, "rebuild")
        await check_all_is_there(folder)

        forget_queues(folder)
        async with broker(folder):
            pass
        assert log_of(folder).read_text().count("queue-data-set-aside") == 3
        told = store(folder, "lost")
        for kind in KINDS:
            assert f"queue {kind}," in told
            assert f"queue '{kind}' is defined again" in store(folder, "adopt", kind)
        assert store(folder, "lost") == "nothing was set aside\n"
        await check_all_is_there(folder)

        async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
            for kind in KINDS:
                assert (await connection.request("DELETE", f"/queues/{kind}")).status == 200
        async with broker(folder) as (url, process):
            await stop(process)
        assert store(folder, "lost") == "nothing was set aside\n"
        for place in ("queues", "streams", "quorum/queues"):
            assert not [path for path in (folder / place).iterdir() if path.name.isdigit()], place
        async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
            for kind in KINDS:
                await declare(connection, Subject(kind, kind))
                assert not await read_all(connection, Subject(kind, kind), settle=False)


async def test_a_description_that_is_damaged_or_missing_is_told_by_name_and_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
        for kind in KINDS:
            await declare(connection, Subject(kind, kind))
        await described(folder)
    damaged = folder_of(folder, "classic", 1) / DESCRIPTION_FILE
    image = bytearray(damaged.read_bytes())
    image[-1] ^= 1
    damaged.write_bytes(image)
    (folder_of(folder, "quorum", 2) / DESCRIPTION_FILE).unlink()
    (told,) = [line for line in store(folder, "check").splitlines() if "/description at 0" in line]
    assert told.endswith("; the next start writes it anew from the definitions")
    for _ in range(2):
        async with broker(folder):
            pass
    warnings = [json.loads(line) for line in log_of(folder).read_text().splitlines() if "not-sound" in line]
    assert [(line["queue"], line["why"]) for line in warnings] == [
        ("classic", "it is damaged"),
        ("quorum", "it is missing"),
    ]
    assert "description" not in store(folder, "check")
