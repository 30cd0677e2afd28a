"""Descriptions of queues: written some time after the declaration, and not into the folders of deleted queues."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from core.clock import Now
from core.server.describing import DESCRIBED_AFTER_S, DESCRIBED_AT_ONCE, Describer
from core.store.definitions import StoredQueue
from core.store.descriptions import folder_of, read_description
from tests.kit.engine import queue

IDENTITY = "0123456789abcdef" * 2


def clock() -> Now:
    return Now(trio.current_time(), 0.0)


def stored(number: int) -> StoredQueue:
    return StoredQueue(number, queue(f"q{number}"), IDENTITY)


class Thread:
    """The thread of a describer: runs what it gets at once, or when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.between: list[object] = []
        """Called before the work, one for each call."""

    async def __call__(self, work) -> None:
        await trio.lowlevel.checkpoint()
        self.calls += 1
        if self.between:
            self.between.pop(0)()
        work()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "queues").mkdir()
    return tmp_path


def described(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "queues").iterdir() if read_description(path) is not None)


async def test_a_description_is_written_some_time_after_the_declaration(root: Path, autojump_clock: MockClock):
    describer, thread = Describer(root, start=1, clock=clock), Thread()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(describer.run, thread, lambda: None)
        await wait_all_tasks_blocked()
        describer.add("/", stored(1), 5)
        await trio.sleep(DESCRIBED_AFTER_S - 0.01)
        describer.add("/", stored(2), 6)
        assert described(root) == []
        await trio.sleep(0.02)
        assert described(root) == ["1"]
        await trio.sleep(DESCRIBED_AFTER_S)
        assert described(root) == ["1", "2"]
        nursery.cancel_scope.cancel()
    found = read_description(folder_of(root, "classic", 1))
    assert found is not None
    assert (found.queue, found.host, found.generation) == (stored(1), "/", 5)
    assert thread.calls == 2


async def test_a_queue_that_is_deleted_soon_gets_none_and_no_folder(root: Path, autojump_clock: MockClock):
    describer, thread = Describer(root, start=1, clock=clock), Thread()
    describer.add("/", stored(1), 5)
    describer.forget(1)
    describer.forget(7)
    await describer.write_all(thread)
    assert (list((root / "queues").iterdir()), thread.calls) == ([], 0)


async def test_an_orderly_stop_writes_all_a_few_at_a_time(root: Path, autojump_clock: MockClock):
    describer, thread = Describer(root, start=1, clock=clock), Thread()
    for number in range(2 * DESCRIBED_AT_ONCE + 1):
        describer.add("/", stored(number), 5)
    await describer.write_all(thread)
    assert (len(described(root)), thread.calls) == (2 * DESCRIBED_AT_ONCE + 1, 3)


async def test_a_queue_that_is_deleted_while_its_description_is_written_leaves_nothing(
    root: Path, autojump_clock: MockClock
):
    describer, thread = Describer(root, start=1, clock=clock), Thread()
    seen = []

    def delete() -> None:
        for number in (1, 3):
            describer.forget(number)

    thread.between = [delete, lambda: seen.append([describer.writes(number) for number in (1, 2, 3)])]
    for number in (1, 2, 3):
        describer.add("/", stored(number), 5)
    folder = folder_of(root, "classic", 3)
    folder.mkdir()
    (folder / "data").touch()  # the lane removes it, and what is in it, after what comes before
    await describer.write_all(thread)
    assert described(root) == ["2"]
    assert seen == [[True, False, True]]
    assert not any(describer.writes(number) for number in (1, 2, 3))
    assert sorted(path.name for path in (root / "queues").iterdir()) == ["2", "3"]


async def test_what_a_stop_cancels_is_written_in_order_behind_it(root: Path, autojump_clock: MockClock):
    describer, thread = Describer(root, start=1, clock=clock), Thread()
    describer.add("/", stored(1), 5)
    with trio.CancelScope() as scope:
        scope.cancel()
        await describer.write_all(thread)
    assert (thread.calls, describer.writes(1)) == (0, False)
    await describer.write_all(thread)
    assert described(root) == ["1"]
