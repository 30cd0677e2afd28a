"""Data folders of format 1 are upgraded by the start that finds them, and nothing in them is lost.

``format_1.tar.xz`` has two, made by the last version that wrote that format: ``killed`` as SIGKILL left it, with the
definitions still in SQLite's write-ahead log, and ``stopped`` as SIGTERM left it. Each has a classic queue, a quorum
queue and a stream, named by their type, to which the numbers 0 to 39 were sent; every tenth body has 5,000 bytes more.
The first ten of the classic and the quorum queue were accepted. A fourth queue, ``gone``, was declared and deleted.
"""

import json
from pathlib import Path

import pytest
import trio

from amqp10.client import connect
from core.store.definitions import COPY_FILE
from core.store.folder import FORMAT
from core.store.lost import LOST_FOLDER
from tests.crash.cycle import CLIENT, KINDS, Subject, broker, declare, read_all
from tests.kit.archived_folder import unpack

FOLDERS = Path(__file__).with_name("format_1.tar.xz")
SENT, ACCEPTED = 40, 10


@pytest.mark.parametrize("ended", ["killed", "stopped"])
def test_a_folder_of_format_1_is_upgraded_with_everything_in_it(tmp_path: Path, ended: str) -> None:
    unpack(FOLDERS, tmp_path)
    folder = tmp_path / ended
    assert json.loads((folder / "format.json").read_text())["format"] == 1
    trio.run(_check_twice, folder)
    assert json.loads((folder / "format.json").read_text())["format"] == FORMAT
    assert (folder / COPY_FILE).exists()
    assert (folder / "queues" / "5" / "description").exists(), "the number of a deleted queue was given again"


async def _check_twice(folder: Path) -> None:
    for _ in range(2):
        async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
            for kind in KINDS:
                found = [one.number for one in await read_all(connection, Subject(kind, kind), settle=False)]
                assert found == list(range(ACCEPTED if kind != "stream" else 0, SENT)), kind
            await declare(connection, Subject("classic", "new"))
        assert not (folder / LOST_FOLDER).exists()
