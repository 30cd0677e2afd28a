"""The backlog benchmark: what a slice says about the depth, and which options it refuses."""

import os

import psutil
import pytest

from bench.backlog import PARTS, SLICES, Published, Slice, highest_resident_bytes, main, spread


def test_a_machine_that_slows_both_queues_is_no_depth():
    calm, slowed = Published(300_000.0, 3.0), Published(150_000.0, 6.0)
    steady = Slice(deep=[calm, calm, calm], empty=[calm, calm, calm])
    disturbed = Slice(deep=[slowed, slowed, calm], empty=[slowed, slowed, calm])
    assert spread([steady.rate, disturbed.rate]) > 0.5
    assert steady.to_empty == disturbed.to_empty == 1.0


def test_a_queue_that_slows_with_its_depth_shows():
    calm, slowed = Published(300_000.0, 3.0), Published(240_000.0, 4.0)
    shallow = Slice(deep=[calm, calm, calm], empty=[calm, calm, calm])
    deep = Slice(deep=[slowed, slowed, slowed], empty=[calm, calm, calm])
    assert deep.to_empty == 0.8
    assert spread([shallow.to_empty, deep.to_empty]) == pytest.approx(0.2 / 0.9)


def test_the_median_of_the_parts_counts():
    calm, stalled = Published(300_000.0, 3.0), Published(30_000.0, 3.0)
    one = Slice(deep=[calm, stalled, calm], empty=[calm, calm, calm])
    assert (one.rate, one.to_empty) == (300_000.0, 1.0)


def test_too_few_messages_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as refused:
        main(["--messages", str(SLICES * PARTS - 1)])
    assert refused.value.code == 2
    assert f"--messages {SLICES * PARTS - 1}: at least {SLICES * PARTS}, one for each part" in capsys.readouterr().err


def test_the_highest_memory_is_that_of_the_whole_life():
    present = psutil.Process().memory_info().rss  # before the highest is read, for it may grow meanwhile
    uncounted = 2**20  # the kernel adds up its counts of pages for each processor only now and then
    assert highest_resident_bytes(os.getpid()) >= present - uncounted > 2**20
