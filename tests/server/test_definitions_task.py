"""Records of definitions are taken to the disk by threads, and the loop goes on meanwhile."""

import threading
from contextlib import closing
from pathlib import Path

import trio

from core.engine.routing.topology import numbered_identities
from core.server.definitions_task import record_definitions
from core.server.worker_threads import WorkerThreads
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, DefinitionsDatabase, open_definitions
from core.store.sealed_file import judged
from tests.kit.engine import queue

IDENTITY = "0123456789abcdef" * 2


def begin(database: DefinitionsDatabase, name: str) -> list:
    records = []
    with database.together(records.append):
        database.add_queue(queue(name), IDENTITY)
    return records


async def test_a_thread_waits_for_the_disk_and_a_turn_follows(tmp_path: Path):
    with closing(open_definitions(tmp_path, new_identity=numbered_identities())) as database:
        threads, turns = [], []
        run = WorkerThreads()

        async def noted(work) -> None:
            def wait() -> None:
                threads.append(threading.current_thread())
                work()

            await run(wait)

        async with trio.open_nursery() as nursery:
            progressed = trio.Event()

            def turn() -> None:
                turns.append(record.done)
                progressed.set()

            nursery.start_soon(record_definitions, database, noted, turn)
            await trio.testing.wait_all_tasks_blocked()
            (record,) = begin(database, "a")
            assert not record.done
            with trio.fail_after(10):
                await progressed.wait()
            nursery.cancel_scope.cancel()
        assert turns == [True]
        assert len(threads) == 2
        assert threading.main_thread() not in threads
        assert judged(tmp_path / DEFINITIONS_FILE).seal == judged(tmp_path / COPY_FILE).seal
        assert begin(database, "b") == [], "the record is finished at once"


async def test_a_stop_finishes_the_record_that_is_under_way(tmp_path: Path):
    with closing(open_definitions(tmp_path, new_identity=numbered_identities())) as database:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record_definitions, database, WorkerThreads(), lambda: None)
            await trio.testing.wait_all_tasks_blocked()
            (record,) = begin(database, "a")
            nursery.cancel_scope.cancel()
        assert record.done
        assert judged(tmp_path / DEFINITIONS_FILE).seal == judged(tmp_path / COPY_FILE).seal
