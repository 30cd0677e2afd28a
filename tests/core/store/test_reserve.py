"""The reserve of a data folder on a disk with enough space; ``tests.faults.full_disk_start`` has a disk that is
full."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.store.reserve import RESERVE_FILE, SpaceReserve, give_up_reserve

SIZE = 1 << 20


@pytest.fixture
def reserve(tmp_path: Path) -> Iterator[SpaceReserve]:
    made = SpaceReserve(tmp_path, SIZE)
    yield made
    made.close()


def taken(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_the_space_is_taken_and_not_only_named(reserve: SpaceReserve, tmp_path: Path):
    assert reserve.adjust() == SIZE
    assert taken(tmp_path / RESERVE_FILE) >= SIZE
    assert reserve.adjust() == SIZE


@pytest.mark.parametrize("content", [None, b"", b"not what was there", bytes(3 * SIZE)])
def test_a_reserve_that_is_deleted_cut_or_replaced_is_made_anew(
    content: bytes | None, reserve: SpaceReserve, tmp_path: Path
):
    reserve.adjust()
    (tmp_path / RESERVE_FILE).unlink()
    if content is not None:
        (tmp_path / RESERVE_FILE).write_bytes(content)
    assert reserve.adjust() == SIZE
    assert (tmp_path / RESERVE_FILE).stat().st_size == SIZE
    assert taken(tmp_path / RESERVE_FILE) >= SIZE


def test_a_copy_with_holes_is_filled(reserve: SpaceReserve, tmp_path: Path):
    with (tmp_path / RESERVE_FILE).open("wb") as file:
        os.ftruncate(file.fileno(), SIZE)
    assert reserve.adjust() == SIZE
    assert taken(tmp_path / RESERVE_FILE) >= SIZE


def test_a_start_with_space_enough_leaves_it(reserve: SpaceReserve, tmp_path: Path):
    reserve.adjust()
    give_up_reserve(tmp_path)
    reserve.give_up()
    assert taken(tmp_path / RESERVE_FILE) >= SIZE


def test_a_folder_may_have_no_reserve(tmp_path: Path):
    give_up_reserve(tmp_path)
    without = SpaceReserve(tmp_path, 0)
    assert without.adjust() == 0
    assert os.listdir(tmp_path) == []
    (tmp_path / RESERVE_FILE).write_bytes(bytes(SIZE))
    assert without.adjust() == 0
    assert os.listdir(tmp_path) == []
    without.close()


def test_another_folder_in_its_place_gets_nothing(tmp_path: Path):
    (tmp_path / "data").mkdir()
    reserve = SpaceReserve(tmp_path / "data", SIZE)
    (tmp_path / "data").rename(tmp_path / "moved")
    (tmp_path / "data").mkdir()
    assert reserve.adjust() == SIZE
    assert os.listdir(tmp_path / "data") == []
    reserve.close()
