"""Definitions that are recorded in steps: whatever ends the process between two steps, or fails in one, the change is
there or it is not."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.errors import PreconditionFailed
from core.store.definitions import COPY_FILE
from core.store.sealed_file import judged
from tests.kit.definitions_files import IDENTITY, filled, opened_at, reopened
from tests.kit.engine import exchange, queue


@pytest.fixture
def path(tmp_path):
    return tmp_path / "definitions.db"


@pytest.fixture
def database(path):
    with closing(opened_at(path, lock_wait_s=0)) as opened:
        yield opened


@pytest.fixture
def records(database):
    """The records that were begun, for a test that takes their steps."""
    begun = []
    database.record_in_steps(begun.append)
    return begun


def begun_later(database, *names):
    """Begin to record queues with these names. Returns the record."""
    told = []
    with database.together(told.append):
        for name in names:
            database.add_queue(queue(name), IDENTITY)
    (record,) = told
    return record


def test_a_record_is_made_in_steps_first_one_file_and_then_the_other(database, path, records):
    copy = path.with_name(COPY_FILE)
    told, generations = [], []
    database.added = lambda added, at: told.append((added.declaration.name, at))
    database.changed = generations.append
    generation = database.generation
    record = begun_later(database, "a", "b")
    assert records == [record]
    assert judged(copy).seal.generation == generation, "the second is as it was until the first one is synced"
    record.proceed()
    assert judged(copy).seal.generation == generation, "nothing follows before the disk is waited for"
    record.wait()
    assert judged(copy).seal.generation == generation
    record.proceed()
    assert judged(copy).seal == judged(path).seal
    assert (record.done, told, generations) == (False, [], [])
    record.wait()
    record.wait()
    record.proceed()
    assert (record.done, record.error) == (True, None)
    assert (told, generations) == ([("a", generation + 1), ("b", generation + 1)], [generation + 1])
    record.finish()
    assert [kept.declaration.name for kept in reopened(database, path).queues] == ["a", "b"]


def test_another_change_finishes_the_record_before_it(database, path, records):
    record = begun_later(database, "a")
    database.for_host("other").add_exchange(exchange("e"))
    assert record.done
    assert (database.generation, judged(path).seal) == (
        judged(path.with_name(COPY_FILE)).seal.generation,
        judged(path).seal,
    )
    second = begun_later(database, "b")
    third = begun_later(database, "c")
    assert (second.done, third.done) == (True, False)
    database.record_in_steps(None)
    assert third.done
    assert [kept.id for kept in database.load().queues] == [1, 2, 3]


def test_without_somebody_who_takes_steps_a_record_is_there_at_the_end_of_the_block(database, path):
    with database.together(lambda record: pytest.fail("it is late")):
        database.add_queue(queue("a"), IDENTITY)
    assert judged(path).seal == judged(path.with_name(COPY_FILE)).seal


def test_a_close_finishes_the_record(database, path, records):
    record = begun_later(database, "a")
    assert [kept.declaration.name for kept in reopened(database, path).queues] == ["a"]
    assert record.done


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_kill_between_two_steps_leaves_the_change_and_a_power_cut_one_of_two_states(database, path, records, steps):
    """Between two steps one of the files is whole at any time: a step that writes one begins when the other is
    synced."""
    copy = path.with_name(COPY_FILE)
    before = path.read_bytes(), copy.read_bytes(), database.load()
    record = begun_later(database, "a")
    for _ in range(steps):
        record.wait()
        record.proceed()
    for first, second in ((path.read_bytes(), copy.read_bytes()), *_after_a_power_cut(path, copy, before, steps)):
        with TemporaryDirectory() as folder:
            there = Path(folder) / path.name
            there.write_bytes(first)
            there.with_name(COPY_FILE).write_bytes(second)
            with closing(opened_at(there)) as again:
                found = [kept.declaration.name for kept in again.load().queues]
        assert found in ([["a"]] if steps else [["a"], []])


def _after_a_power_cut(path, copy, before, steps):
    """What may be on the disk: the file that is not synced yet as before, or torn."""
    torn = [lambda new, old: old, lambda new, old: new[: len(new) // 2] + old[len(new) // 2 :], lambda new, old: b""]
    for tear in torn:
        if steps == 0:
            yield tear(path.read_bytes(), before[0]), copy.read_bytes()
        elif steps == 1:
            yield path.read_bytes(), tear(copy.read_bytes(), before[1])


def break_sync(file):
    """Make the next sync of a file of definitions fail: its descriptor becomes that of a pipe, which cannot be
    synced."""
    ends = os.pipe()
    os.dup2(ends[0], file._descriptor)
    for end in ends:
        os.close(end)


def test_a_first_sync_that_fails_refuses_the_change_and_restores_the_file(database, path, records):
    fell = []
    database.fell_behind = lambda file, why: fell.append(file.name)
    filled(database)
    before = database.load()
    record = begun_later(database, "a")
    break_sync(database._files[path])
    record.finish()
    assert "queue 'a' cannot be kept in" in str(record.error)
    assert str(record.error).endswith("nothing was changed")
    assert fell == ["definitions.db"]
    assert database.behind == []
    assert judged(path).seal == judged(path.with_name(COPY_FILE)).seal
    again = begun_later(database, "a")
    again.finish()
    assert again.error is None
    assert [kept.declaration.name for kept in reopened(database, path).queues] == [
        *(kept.declaration.name for kept in before.queues),
        "a",
    ]


def test_a_second_sync_that_fails_leaves_the_file_behind_and_the_change_counts(database, path, records):
    fell = []
    database.fell_behind = lambda file, why: fell.append(file.name)
    copy = path.with_name(COPY_FILE)
    record = begun_later(database, "a")
    break_sync(database._files[copy])
    record.finish()
    assert (record.error, fell, database.behind) == (None, [COPY_FILE], [copy])
    database.add_exchange(exchange("e"))
    assert judged(path).seal == judged(copy).seal


def test_a_second_file_that_cannot_be_written_is_left_behind(database, path, records):
    copy = path.with_name(COPY_FILE)
    record = begun_later(database, "a")
    with closing(sqlite3.connect(copy, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        record.finish()
    assert (record.error, database.behind) == (None, [copy])


def test_a_record_that_the_first_file_refuses_is_refused_at_once(database, path, records):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(PreconditionFailed, match="database is locked"):
            begun_later(database, "a")
    assert records == []
