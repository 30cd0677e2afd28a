"""Disks: what every kind promises, the real one's descriptors, and what the disks for tests lose and refuse."""

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from core.store.disk import CHUNKS_MAX, Disk, FolderDisk, write_all
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FolderDisk]:
    root = tmp_path / "data"
    root.mkdir()
    disk = FolderDisk(root, 8)
    yield disk
    disk.close()


@pytest.fixture(params=["folder", "memory", "faulty"])
def disk(request: pytest.FixtureRequest, folder: FolderDisk) -> Disk:
    disks: dict[str, Disk] = {"folder": folder, "memory": MemoryDisk(), "faulty": FaultyDisk()}
    return disks[request.param]


# --- what every disk promises


def test_chunks_are_written_one_behind_the_other_from_the_offset(disk: Disk):
    disk.write("a/b/file", 3, [b"one", b"", b"two"])
    disk.write("a/b/file", 1, [b"x"])
    assert disk.read("a/b/file", 0, 100) == b"\0x\0onetwo"
    assert disk.read("a/b/file", 3, 4) == b"onet"
    assert disk.read("a/b/file", 50, 1) == b""
    assert disk.size("a/b/file") == 9


def test_more_chunks_than_one_call_takes(disk: Disk):
    chunks = [bytes([i % 251]) * 3 for i in range(2 * CHUNKS_MAX + 1)]
    disk.write("file", 0, chunks)
    assert disk.read("file", 0, 10**6) == b"".join(chunks)


def test_what_is_missing_is_missing(disk: Disk):
    for ask in (
        lambda: disk.read("nothing", 0, 1),
        lambda: disk.size("nothing"),
        lambda: disk.sync("nothing"),
        lambda: disk.truncate("nothing", 0),
        lambda: disk.rename("nothing", "something"),
        lambda: disk.sync_folder("nothing"),
        lambda: disk.read("no/thing", 0, 1),
    ):
        with pytest.raises(FileNotFoundError):
            ask()
    disk.unlink("nothing")
    disk.remove_folder("nothing")
    disk.will_need("nothing", 0, 1)
    assert disk.names("nothing") == []
    assert disk.names("") == []


def test_names_are_those_of_files_and_folders(disk: Disk):
    disk.write("q/2/1.idx", 0, [b"x"])
    disk.write("q/10", 0, [b"x"])
    disk.make_folder("q/empty/one")
    disk.make_folder("q/empty")
    assert disk.names("q") == ["10", "2", "empty"]
    assert disk.names("q/2") == ["1.idx"]
    assert disk.names("") == ["q"]


def test_a_file_is_cut_off_and_written_on(disk: Disk):
    disk.write("file", 0, [b"12345"])
    disk.truncate("file", 2)
    disk.write("file", 3, [b"x"])
    assert disk.read("file", 0, 9) == b"12\0x"
    disk.truncate("file", 6)
    assert disk.read("file", 0, 9) == b"12\0x\0\0"


def test_a_new_name_replaces_what_had_it(disk: Disk):
    disk.write("old", 0, [b"old"])
    disk.write("new", 0, [b"new"])
    disk.rename("old", "new")
    assert disk.names("") == ["new"]
    assert disk.read("new", 0, 9) == b"old"
    disk.write("old", 0, [b"another"])
    assert disk.read("new", 0, 9) == b"old"


def test_an_unlinked_file_is_gone_and_its_name_free(disk: Disk):
    disk.write("file", 0, [b"long ago"])
    disk.unlink("file")
    assert disk.names("") == []
    disk.write("file", 0, [b"now"])
    assert disk.read("file", 0, 9) == b"now"


def test_a_folder_goes_with_everything_in_it(disk: Disk):
    disk.write("q/1/a/f", 0, [b"x"])
    disk.write("q/1/b", 0, [b"x"])
    disk.write("q/11", 0, [b"x"])
    disk.remove_folder("q/1")
    assert disk.names("q") == ["11"]
    disk.write("q/1/b", 0, [b"anew"])
    assert disk.read("q/1/b", 0, 9) == b"anew"


def test_syncs_checks_and_hints_succeed_where_all_is_well(disk: Disk):
    disk.write("q/file", 0, [b"x"])
    disk.sync("q/file")
    disk.sync_folder("q")
    disk.sync_folder("")
    disk.will_need("q/file", 0, 1)
    disk.check()


# --- the real disk


def test_a_link_in_a_removed_folder_goes_and_what_it_leads_to_stays(folder: FolderDisk, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    folder.write("q/1/0/f", 0, [b"x"])
    (tmp_path / "data/q/1/0/to-a-folder").symlink_to(outside)
    (tmp_path / "data/q/1/to-a-file").symlink_to(outside / "kept")
    folder.remove_folder("q/1")
    assert folder.names("q") == []
    assert (outside / "kept").read_bytes() == b"kept"
    (tmp_path / "data/q/link").symlink_to(outside)
    with pytest.raises(OSError):
        folder.remove_folder("q/link")
    assert (outside / "kept").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "q/../../outside", "q/.."])
def test_no_path_leads_out_of_the_data_folder(folder: FolderDisk, path: str):
    for ask in (
        lambda: folder.write(path, 0, [b"x"]),
        lambda: folder.read(path, 0, 1),
        lambda: folder.unlink(path),
        lambda: folder.rename("a", path),
        lambda: folder.remove_folder(path),
        lambda: folder.names(path),
    ):
        with pytest.raises(AssertionError):
            ask()


def test_the_data_folder_itself_is_never_removed(folder: FolderDisk):
    with pytest.raises(AssertionError):
        folder.remove_folder("")


def test_no_more_files_are_kept_open_than_allowed(folder: FolderDisk):
    for number in range(20):
        folder.write(f"f{number}", 0, [b"%d" % number])
        assert folder.open_files <= 8
    folder.limit_open_files(2)
    assert folder.open_files == 2
    for number in range(20):
        assert folder.read(f"f{number}", 0, 9) == b"%d" % number
        assert folder.open_files <= 2


def test_the_file_not_used_for_longest_is_closed_first(folder: FolderDisk):
    folder.limit_open_files(2)
    folder.write("a", 0, [b"a"])
    folder.write("b", 0, [b"b"])
    folder.read("a", 0, 1)
    folder.write("c", 0, [b"c"])
    kept = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)}
    assert {Path(name).name for name in kept if "/data/" in name} == {"a", "c"}


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


def test_when_descriptors_run_out_kept_ones_are_given_up(folder: FolderDisk):
    for number in range(8):
        folder.write(f"f{number}", 0, [b"x"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        folder.write("one more", 0, [b"x"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert folder.read("one more", 0, 1) == b"x"
    assert folder.open_files == 1


def test_files_in_use_stay_open_whatever_the_limit_and_whichever_thread_removes_them(folder: FolderDisk):
    folder.limit_open_files(1)
    stop = threading.Event()
    problems: list[BaseException] = []

    def work(name: str) -> None:
        try:
            data = name.encode() * 1000
            while not stop.is_set():
                folder.write(name, 0, [data])
                assert folder.read(name, 0, len(data)) == data
                assert folder.read("shared", 0, 6) == b"shared"
                folder.unlink(name)
        except BaseException as problem:
            problems.append(problem)

    folder.write("shared", 0, [b"shared"])
    threads = [threading.Thread(target=work, args=(f"f{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        folder.limit_open_files(0)
        folder.limit_open_files(1)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert folder.open_files <= 1


def test_a_short_write_is_continued_where_it_stopped(tmp_path: Path):
    takes = [0, 1, 4, 2, 100]
    chunks = [b"ab", b"", b"cdef", b"", b"g"]

    def pwritev(descriptor: int, chunks: Sequence[bytes], offset: int) -> int:
        return os.pwrite(descriptor, b"".join(chunks)[: takes.pop(0)], offset)

    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        assert write_all(descriptor, 5, chunks, pwritev) == 12
        assert os.pread(descriptor, 100, 0) == b"\0\0\0\0\0abcdefg"
    finally:
        os.close(descriptor)


def test_a_disk_for_reading_changes_nothing(folder: FolderDisk, tmp_path: Path):
    folder.write("file", 0, [b"x"])
    reading = FolderDisk(tmp_path / "data", 8, read_only=True)
    assert reading.read("file", 0, 9) == b"x"
    with pytest.raises(OSError):
        reading.write("file", 0, [b"y"])
    reading.close()
    assert folder.read("file", 0, 9) == b"x"


# --- row 0.15: the data folder goes away


def open_marked(root: Path) -> FolderDisk:
    root.mkdir()
    (root / "headgate.lock").touch()
    return FolderDisk(root, 8, marker="headgate.lock")


def remove(root: Path) -> None:
    (root / "headgate.lock").unlink()
    root.rmdir()


def move_away(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))


def replace(root: Path) -> None:
    move_away(root)
    root.mkdir()
    (root / "headgate.lock").touch()


def empty(root: Path) -> None:
    (root / "headgate.lock").unlink()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(remove, errno.ENOENT), (move_away, errno.ENOENT), (replace, errno.ESTALE), (empty, errno.ENOENT)],
)
def test_row_0_15_a_folder_that_goes_away_is_noticed(tmp_path: Path, fault: Callable[[Path], None], expected: int):
    disk = open_marked(tmp_path / "data")
    disk.check()
    fault(tmp_path / "data")
    with pytest.raises(OSError) as refused:
        disk.check()
    assert refused.value.errno == expected
    disk.close()


def test_row_0_15_a_folder_that_went_away_is_not_made_anew(tmp_path: Path):
    disk = open_marked(tmp_path / "data")
    remove(tmp_path / "data")
    with pytest.raises(FileNotFoundError):
        disk.write("file", 0, [b"x"])
    with pytest.raises(FileNotFoundError):
        disk.write("queues/1/0/0.idx", 0, [b"x"])
    assert not (tmp_path / "data").exists()
    disk.close()


def test_row_0_15_a_folder_that_was_replaced_gets_nothing(tmp_path: Path):
    disk = open_marked(tmp_path / "data")
    replace(tmp_path / "data")
    disk.write("file", 0, [b"x"])
    assert not (tmp_path / "data" / "file").exists()
    assert (tmp_path / "elsewhere" / "file").exists()
    disk.close()


def test_row_0_15_a_file_removed_behind_our_back_is_noticed(folder: FolderDisk, tmp_path: Path):
    folder.write("file", 0, [b"x"])
    (tmp_path / "data" / "file").unlink()
    for ask in (lambda: folder.write("file", 1, [b"y"]), lambda: folder.sync("file")):
        with pytest.raises(OSError) as refused:
            ask()
        assert refused.value.errno == errno.ESTALE


def test_a_folder_that_cannot_be_opened_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        FolderDisk(tmp_path / "nothing", 8)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        FolderDisk(tmp_path / "file", 8)


# --- the disk in memory: what a power cut leaves


def cuts(disk: MemoryDisk, count: int = 200) -> list[MemoryDisk]:
    return [disk.power_cut(Random(seed)) for seed in range(count)]


def contents(disk: MemoryDisk, path: str) -> bytes | None:
    return disk.read(path, 0, 10**6) if path in disk.paths else None


def test_what_was_synced_with_its_name_outlives_every_power_cut():
    disk = MemoryDisk()
    disk.write("q/file", 0, [b"synced"])
    assert not disk.is_synced("q/file")
    disk.sync("q/file")
    assert not disk.is_synced("q/file")
    disk.sync_folder("q")
    assert disk.is_synced("q/file")
    assert {contents(found, "q/file") for found in cuts(disk)} == {b"synced"}


def test_a_file_whose_folder_was_not_synced_may_be_lost():
    disk = MemoryDisk()
    disk.write("q/file", 0, [b"synced"])
    disk.sync("q/file")
    assert {contents(found, "q/file") for found in cuts(disk)} == {b"synced", None}


def test_bytes_that_were_not_synced_are_there_or_lost_or_torn_or_zeros():
    disk = MemoryDisk()
    disk.write("file", 0, [b"ab"])
    disk.sync_everything()
    disk.write("file", 2, [b"cd"])
    assert {contents(found, "file") for found in cuts(disk)} == {b"ab", b"abc", b"abcd", b"ab\0\0"}
    assert contents(disk, "file") == b"abcd"


def test_a_later_write_may_be_there_without_the_earlier_one():
    disk = MemoryDisk()
    disk.write("file", 0, [b""])
    disk.sync_everything()
    disk.write("file", 0, [b"1"])
    disk.write("file", 1, [b"2"])
    assert {contents(found, "file") for found in cuts(disk)} >= {b"", b"1", b"12", b"\0002"}


def test_sectors_of_one_write_reach_the_disk_in_any_order():
    disk = MemoryDisk()
    disk.write("file", 0, [b""])
    disk.sync_everything()
    disk.write("file", 0, [b"a" * 512, b"b" * 512])
    assert bytes(512) + b"b" * 512 in {contents(found, "file") for found in cuts(disk)}


def test_a_cut_off_file_may_be_whole_again():
    disk = MemoryDisk()
    disk.write("file", 0, [b"12345"])
    disk.sync_everything()
    disk.truncate("file", 2)
    assert {contents(found, "file") for found in cuts(disk)} == {b"12345", b"12"}


def test_removals_and_new_names_are_undone_in_the_order_of_their_folder():
    disk = MemoryDisk()
    disk.write("q/a", 0, [b"a"])
    disk.write("r/b", 0, [b"b"])
    disk.sync_everything()
    disk.unlink("r/b")
    disk.rename("q/a", "q/c")
    disk.unlink("q/c")
    assert {tuple(found.paths) for found in cuts(disk)} == {
        ("q/a", "r/b"),
        ("q/c", "r/b"),
        ("r/b",),
        ("q/a",),
        ("q/c",),
        (),
    }
    disk.sync_folder("q")
    assert {tuple(found.paths) for found in cuts(disk)} == {("r/b",), ()}


def test_the_same_seed_leaves_the_same_disk():
    disk = MemoryDisk()
    for number in range(20):
        disk.write(f"q/{number % 3}", 100 * number, [bytes([number]) * 100])
    first, second = disk.power_cut(Random(5)), disk.power_cut(Random(5))
    assert [contents(first, path) for path in first.paths] == [contents(second, path) for path in second.paths]
    assert first.paths == second.paths


def test_a_flipped_bit_stays_flipped():
    disk = MemoryDisk()
    disk.write("file", 0, [b"\0\0"])
    disk.sync_everything()
    disk.flip_bit("file", 9)
    assert contents(disk, "file") == b"\0\2"
    assert contents(disk.power_cut(Random(1)), "file") == b"\0\2"
    disk.flip_bit("file", 9)
    assert contents(disk, "file") == b"\0\0"


# --- the disk that fails when a test says so


def test_the_nth_call_fails_once():
    disk = FaultyDisk()
    disk.write("file", 0, [b"x"])
    disk.sync("file")
    disk.fail("sync", nth=2)
    disk.sync("file")
    with pytest.raises(OSError) as refused:
        disk.sync("file")
    assert refused.value.errno == errno.EIO
    disk.sync("file")
    assert disk.calls["sync"] == 4


def test_without_space_a_write_is_done_in_part():
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    disk.set_space(5)
    disk.write("file", 0, [b"123"])
    with pytest.raises(OSError) as refused:
        disk.write("file", 3, [b"45", b"678"])
    assert refused.value.errno == errno.ENOSPC
    assert contents(memory, "file") == b"12345"
    disk.write("file", 0, [b"abc"])  # bytes that are overwritten take no space
    with pytest.raises(OSError):
        disk.write("other", 0, [b"x"])
    assert memory.names("") == ["file"]
    disk.truncate("file", 4)
    assert disk.free_bytes() == 1
    disk.unlink("file")
    assert disk.free_bytes() == 5
    disk.write("folder/file", 0, [b"12345"])
    disk.remove_folder("folder")
    assert disk.free_bytes() == 5
    disk.set_space(None)
    disk.write("file", 0, [b"x" * 100])


def test_a_vanished_folder_has_nothing_until_it_appears_again():
    disk = FaultyDisk()
    disk.write("file", 0, [b"x"])
    disk.vanish()
    for ask in (disk.check, lambda: disk.read("file", 0, 1), lambda: disk.write("file", 0, [b"y"])):
        with pytest.raises(FileNotFoundError):
            ask()
    disk.appear()
    disk.check()
    assert disk.read("file", 0, 1) == b"x"


def test_calls_can_be_held_up():
    calls: list[tuple[str, str]] = []
    disk = FaultyDisk()
    disk.delay = lambda operation, path: calls.append((operation, path))
    disk.write("file", 0, [b"x"])
    disk.sync("file")
    disk.check()
    assert calls == [("write", "file"), ("sync", "file"), ("check", "")]
