"""The log of a stream: offsets, segments, searching, retention, damage, and starts after every kind of stop."""

import errno
from itertools import pairwise
from random import Random

import pytest

from core.message import Attributes
from core.store.errors import StoreFailure
from core.store.record import HEADER_BYTES
from core.store.stream_chunk import BODY_BYTES_MAX, MESSAGES_MAX
from core.store.stream_log import INDEXES_MAX, LEAP, UNSYNCED_MAX, Kept, StreamLog
from tests.kit.faulty_disk import FaultyDisk
from tests.kit.streams import FOLDER, StreamDisk, append, read_all


def bodies(n, first=0, size=100):
    return [f"{number:06}".encode().ljust(size, b".") for number in range(first, first + n)]


def filled(store, *, chunks=40, of=5, segment_bytes=4096):
    """A log of several segments with everything committed. Each chunk is 10 s after the one before."""
    log = store.log(segment_bytes)
    for number in range(chunks):
        append(log, *bodies(of, number * of), stamp_ms=number * 10_000)
    store.sync()
    log.commit(synced=True)
    return log


def numbered(n, first=0):
    return list(enumerate(bodies(n, first), first))


# --- appending and reading


def test_a_new_stream_is_empty_and_begins_at_0():
    log = StreamDisk().log()
    assert (log.first, log.next, log.committed, log.messages, log.segments, log.file_bytes) == (0, 0, 0, 0, 0, 0)
    assert log.chunk(0, 0) is None
    assert log.offset_at(5) == 0


def test_messages_are_seen_when_they_are_written_and_not_before():
    store = StreamDisk()
    log = store.log()
    append(log, b"a", b"b")
    log.commit(synced=False)
    assert read_all(log) == []
    store.write()
    log.commit(synced=False)
    assert read_all(log) == [(0, b"a"), (1, b"b")]
    assert (log.first, log.committed, log.messages, log.last_chunk) == (0, 2, 2, 0)


def test_with_sync_messages_are_seen_when_they_are_synced():
    store = StreamDisk()
    log = store.log()
    position = append(log, b"a")
    store.write()
    log.commit(synced=True)
    assert read_all(log) == []
    store.sync()
    assert store.lane.synced == position
    log.commit(synced=True)
    assert read_all(log) == [(0, b"a")]


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
def test_every_message_is_read_from_any_offset(cache_bytes):
    store = StreamDisk(cache_bytes=cache_bytes)
    log = filled(store)
    assert log.segments > 3
    for offset in (0, 1, 4, 5, 99, 100, 199):
        assert read_all(log, offset) == numbered(200 - offset, offset)
    assert read_all(log, 200) == []


def test_readers_at_the_tail_do_not_read_the_disk():
    disk = FaultyDisk()
    store = StreamDisk()
    store.disk = disk
    log = store.log()
    for number in range(100):
        append(log, b"x%d" % number)
        store.write()
        log.commit(synced=False)
        assert read_all(log, number) == [(number, b"x%d" % number)]
    assert disk.calls["read"] == 0


def test_large_runs_are_cut_into_chunks():
    store = StreamDisk(cache_bytes=0)
    log = store.log(2**20)
    append(log, *bodies(3 * MESSAGES_MAX, size=10))
    append(log, b"x" * (2 * BODY_BYTES_MAX), b"y", b"z" * BODY_BYTES_MAX)
    store.write()
    log.commit(synced=False)
    found = read_all(log)
    assert [offset for offset, _ in found] == list(range(3 * MESSAGES_MAX + 3))
    assert [len(body) for _, body in found[-3:]] == [2 * BODY_BYTES_MAX, 1, BODY_BYTES_MAX]
    chunk = log.chunk(0, 0)
    assert chunk is not None
    assert chunk.count == MESSAGES_MAX


def test_attributes_stay_with_their_messages():
    store = StreamDisk(cache_bytes=0)
    log = store.log()
    kinds = [Attributes(durable=True, priority=9, ttl_ms=5), Attributes()]
    for kind in kinds:
        log.append([b"a"], kind, stamp_ms=0)
    store.write()
    log.commit(synced=False)
    chunks = [log.chunk(offset, offset) for offset in (0, 1)]
    assert [chunk.attributes for chunk in chunks if chunk] == kinds


def test_messages_between_counts_within_and_across_segments():
    log = filled(StreamDisk())
    assert log.messages == 200
    for start, stop in ((0, 200), (3, 17), (50, 50), (60, 50), (190, 1000)):
        assert log.messages_between(start, stop) == max(0, min(stop, 200) - start)


# --- searching by time


def test_a_time_finds_the_first_chunk_not_before_it():
    for cache_bytes in (0, 2**20):
        log = filled(StreamDisk(cache_bytes=cache_bytes))
        assert [log.offset_at(ms) for ms in (0, 1, 10_000, 205_000, 390_000)] == [0, 5, 5, 105, 195]
        assert log.offset_at(390_001) == 200


def test_time_never_goes_back_in_a_stream():
    store = StreamDisk()
    log = store.log()
    append(log, b"a", stamp_ms=1000)
    append(log, b"b", stamp_ms=500)
    store.write()
    log.commit(synced=False)
    chunk = log.chunk(1, 1)
    assert chunk is not None
    assert chunk.stamp_ms == 1000
    assert log.offset_at(600) == 0


def test_only_so_many_indexes_are_kept():
    store = StreamDisk(cache_bytes=0)
    log = filled(store, chunks=INDEXES_MAX + 30, of=1, segment_bytes=1)
    assert log.segments == INDEXES_MAX + 30
    assert sum(segment.index is not None for segment in log._segments) == INDEXES_MAX + 1
    assert read_all(log) == numbered(INDEXES_MAX + 30)
    assert sum(segment.index is not None for segment in log._segments) == INDEXES_MAX + 1


# --- retention


def test_old_segments_go_as_a_whole_and_the_newest_stays():
    store = StreamDisk()
    log = filled(store)
    before = log.segments
    assert log.retain(Kept(age_s=300), now_ms=375_000) == 1
    assert log.segments == before - 1
    assert 0 < log.first <= 40  # chunks from 75,000 ms on, offsets from 40 on, are young enough
    assert read_all(log) == numbered(200 - log.first, log.first)
    assert log.messages == 200 - log.first
    assert log.retain(Kept(age_s=1), now_ms=10**9) == before - 2
    assert log.segments == 1
    assert 0 < log.messages < 200
    assert log.next == log.committed == 200


def test_size_is_bounded_by_whole_segments():
    store = StreamDisk()
    log = filled(store)
    files = set(store.disk.paths)
    size = log.file_bytes
    assert not log.exceeds(Kept(file_bytes=size))
    assert log.retain(Kept(file_bytes=size), 0) == 0
    assert log.retain(Kept(file_bytes=size // 2), 0) > 0
    assert log.file_bytes <= size // 2
    assert log.retain(Kept(file_bytes=1), 0) > 0
    assert log.segments == 1
    assert not log.exceeds(Kept(file_bytes=1))
    append(log, b"more")
    store.sync()
    left = [path for path in store.disk.paths if path in files and path.startswith(FOLDER)]
    assert len(left) == 1
    assert log.file_bytes == store.disk.size(left[0])


def test_an_offset_that_was_dropped_reads_from_the_first():
    log = filled(StreamDisk())
    log.retain(Kept(file_bytes=1), 0)
    assert read_all(log, 0) == numbered(200 - log.first, log.first)


def test_retention_may_drop_messages_that_no_reader_could_see_yet():
    store = StreamDisk()
    log = store.log(segment_bytes=1)
    for number in range(5):
        append(log, b"x%d" % number)
    log.retain(Kept(file_bytes=1), 0)
    assert log.committed == log.first == 4
    store.write()
    log.commit(synced=False)
    assert read_all(log) == [(4, b"x4")]


def test_a_deleted_stream_leaves_nothing():
    store = StreamDisk()
    log = filled(store)
    log.delete()
    store.sync()
    assert [path for path in store.disk.paths if path.startswith(FOLDER)] == []
    assert store.cache.bytes == 0


# --- starts


def test_a_start_after_a_clean_stop_goes_on_where_it_was():
    store = StreamDisk(cache_bytes=0)
    log = filled(store)
    facts = (log.first, log.next, log.committed, log.messages, log.segments, log.file_bytes, log.last_chunk)
    log = store.recovered(intact=True)
    assert facts == (log.first, log.next, log.committed, log.messages, log.segments, log.file_bytes, log.last_chunk)
    append(log, *bodies(3, 200))
    store.write()
    log.commit(synced=False)
    assert read_all(log) == numbered(203)
    assert log.offset_at(205_000) == 105


def test_a_start_reads_one_record_of_each_segment_but_the_newest():
    store = StreamDisk()
    log = filled(store, segment_bytes=20_000)
    assert log.segments > 1
    disk = FaultyDisk(store.disk)
    again = StreamLog(disk, store.lane, FOLDER, segment_bytes=20_000, cache=store.cache)
    again.recover(intact=True)
    assert again.messages == 200
    assert disk.calls["read"] <= 2 * log.segments


def test_a_start_after_an_unclean_stop_leaps_and_counts_on():
    store = StreamDisk()
    filled(store)
    log = store.recovered(intact=False)
    assert log.next == 200 + LEAP
    assert (log.committed, log.messages) == (200, 200)
    append(log, b"new")
    store.write()
    log.commit(synced=False)
    assert read_all(log, 199) == [(199, bodies(1, 199)[0]), (200 + LEAP, b"new")]
    assert log.messages == 201
    assert log.messages_between(199, log.committed) == 2
    assert log.last_chunk == 200 + LEAP
    store.sync()
    again = store.recovered(intact=True)
    assert (again.first, again.next, again.messages) == (0, 201 + LEAP, 201)
    assert len(read_all(again)) == 201


def test_unclean_starts_without_a_message_between_them_leap_further_each_time():
    store = StreamDisk()
    filled(store)
    given = {store.recovered(intact=False).next for _ in range(3)}
    assert given == {200 + LEAP, 200 + 2 * LEAP, 200 + 3 * LEAP}


def test_a_stream_of_which_nothing_is_left_leaps_too():
    store = StreamDisk()
    append(store.log(), b"seen and lost")
    store.write()
    store.disk.remove_folder(FOLDER)
    again = store.recovered(intact=False)
    assert again.next == again.committed == 2 * LEAP
    assert again.messages == 0


def test_a_leap_is_remembered_by_a_clean_stop_with_one_empty_segment():
    store = StreamDisk()
    segments = filled(store).segments
    for _ in range(3):
        log = store.recovered(intact=False)
        store.sync()
        assert len([path for path in store.disk.paths if path.startswith(FOLDER)]) == segments + 1
    again = store.recovered(intact=True)
    assert (again.next, again.committed, again.messages) == (log.next, 200, 200) == (200 + 3 * LEAP, 200, 200)
    assert again.last_chunk == 195
    append(again, b"new")
    store.write()
    again.commit(synced=False)
    assert read_all(again, 199) == [(199, bodies(1, 199)[0]), (200 + 3 * LEAP, b"new")]


def test_an_empty_stream_after_a_clean_stop_begins_at_0():
    store = StreamDisk()
    assert store.recovered(intact=True).next == 0


def test_what_an_unclean_start_found_is_synced():
    store = StreamDisk()
    log = store.log()
    append(log, b"a")
    store.write()
    path = next(path for path in store.disk.paths if path.startswith(FOLDER))
    assert not store.disk.is_synced(path)
    store.recovered(intact=False)
    assert store.disk.is_synced(path)


def test_nothing_is_appended_while_too_much_is_not_synced():
    store = StreamDisk(cache_bytes=0)
    log = store.log()
    append(log, b"a")
    store.sync()
    log.next = log._segments[-1].next = UNSYNCED_MAX + 1  # as if that many messages had been appended
    assert log.overdrawn
    with pytest.raises(AssertionError):
        append(log, b"b")


def test_a_sync_lets_it_go_on():
    store = StreamDisk(cache_bytes=0)
    log = store.log()
    log.next = UNSYNCED_MAX - 1
    append(log, b"a")
    assert log.overdrawn
    store.sync()
    assert not log.overdrawn


# --- damage


def first_segment(store):
    return next(path for path in store.disk.paths if path.startswith(FOLDER))


def test_a_flipped_bit_costs_the_messages_of_one_record():
    store = StreamDisk(cache_bytes=0)
    log = filled(store)
    rng = Random(7)
    path = first_segment(store)
    for _ in range(30):
        bit = rng.randrange(store.disk.size(path) * 8)
        store.disk.flip_bit(path, bit)
        found = read_all(log)
        missing = sorted({offset for offset, _ in numbered(200)} - {offset for offset, _ in found})
        assert all(body == bodies(1, offset)[0] for offset, body in found)
        assert len(missing) in (0, 5)  # 0 is in the head, which no reader needs
        assert not missing or missing[-1] - missing[0] == 4
        store.disk.flip_bit(path, bit)
    assert log.damaged > 0
    assert log.damage[0].path == path
    assert read_all(log) == numbered(200)


def test_damage_longer_than_a_read_is_passed_over():
    store = StreamDisk(cache_bytes=0)
    log = store.log(2**22)
    append(log, b"before")
    store.write()
    path = first_segment(store)
    large = store.disk.size(path)
    append(log, b"x" * (3 * BODY_BYTES_MAX))
    append(log, b"after")
    store.write()
    log.commit(synced=False)
    store.disk.flip_bit(path, 8 * (large + HEADER_BYTES + 1000))
    assert read_all(log) == [(0, b"before"), (2, b"after")]
    store.disk.flip_bit(path, 8 * large)  # now the header is damaged as well
    assert read_all(log) == [(0, b"before"), (2, b"after")]


def test_a_damaged_head_sends_the_start_to_the_segment_itself():
    store = StreamDisk(cache_bytes=0)
    log = filled(store)
    second = sorted(path for path in store.disk.paths if path.startswith(FOLDER))[1]
    store.disk.flip_bit(second, 8 * HEADER_BYTES + 70)
    again = store.recovered(intact=True)
    assert (again.next, again.messages, again.segments) == (log.next, log.messages, log.segments)
    assert read_all(again) == numbered(200)
    assert again.offset_at(5) == 5


def test_a_damaged_tail_is_no_clean_stop():
    store = StreamDisk(cache_bytes=0)
    filled(store)
    newest = max(path for path in store.disk.paths if path.startswith(FOLDER))
    store.disk.flip_bit(newest, 8 * (store.disk.size(newest) - 20))
    log = store.recovered(intact=True)
    assert log.next == 195 + LEAP
    assert read_all(log) == numbered(195)
    assert len(log.damage) == 1


def test_a_newest_segment_without_a_sound_record_still_tells_its_first_offset():
    store = StreamDisk(cache_bytes=0)
    filled(store)
    paths = sorted(path for path in store.disk.paths if path.startswith(FOLDER))
    store.disk.truncate(paths[-1], 10)
    log = store.recovered(intact=False)
    first = int(paths[-1][len(FOLDER) + 1 :][:20])
    assert log.next >= first + LEAP
    assert read_all(log) == numbered(first)
    assert log.last_chunk == first - 5


def test_other_files_in_the_folder_are_let_alone():
    store = StreamDisk()
    filled(store)
    store.disk.write(f"{FOLDER}/readme.txt", 0, [b"hello"])
    store.disk.write(f"{FOLDER}/{'x' * 20}.seg", 0, [b"hello"])
    assert store.recovered(intact=True).messages == 200


def test_a_disk_that_does_not_read_is_a_failure_of_the_store():
    store = StreamDisk(cache_bytes=0)
    filled(store)
    disk = FaultyDisk(store.disk)
    log = StreamLog(disk, store.lane, FOLDER, segment_bytes=4096, cache=store.cache)
    disk.fail("sync", error=errno.EIO)
    with pytest.raises(StoreFailure, match="sync"):
        log.recover(intact=False)
    log = StreamLog(disk, store.lane, FOLDER, segment_bytes=4096, cache=store.cache)
    log.recover(intact=True)
    disk.fail("read", error=errno.EIO)
    with pytest.raises(StoreFailure, match="read"):
        log.chunk(0, 0)
    assert read_all(log) == numbered(200)


def test_segments_are_named_by_their_first_offset_and_adjoin():
    store = StreamDisk()
    log = filled(store)
    names = [path.rpartition("/")[2] for path in store.disk.paths if path.startswith(FOLDER)]
    assert all(len(name) == 24 for name in names)
    firsts = [int(name[:20]) for name in names]
    assert firsts[0] == 0
    assert all(low < high for low, high in pairwise(firsts))
    assert firsts == log._firsts
