"""The chunks of a stream in the log of a group: found by offset and time, moved, cut, and in which files they are."""

from random import Random

import pytest

from core.engine.quorum.stream_chunks import BLOCK_CHUNKS_MAX, ChunkPlace, StreamChunks
from core.store.stream_chunk import ChunkFacts


def place(first, count=1, *, stamp_ms=0, file=1, size=10):
    return ChunkPlace(ChunkFacts(first, count, stamp_ms), file, 100 * first, size, first)


def filled(*places):
    chunks = StreamChunks(7)
    for one in places:
        chunks.add(one)
    return chunks


def test_nothing_is_found_in_an_empty_stream():
    chunks = StreamChunks(7)
    assert (chunks.first, chunks.next, chunks.bytes, chunks.last) == (0, 0, 0, None)
    assert chunks.find(0) is None
    assert chunks.since(0) == 0
    assert chunks.cut(5) == 0
    assert chunks.excess(bytes_max=0, before_ms=10, keep=0) == 0


def test_a_chunk_is_found_by_each_of_its_offsets_and_the_first_one_after_a_gap():
    chunks = filled(place(0, 3), place(3, 2), place(8, 2))
    found = [chunks.find(offset).facts.first for offset in range(10)]
    assert found == [0, 0, 0, 3, 3, 8, 8, 8, 8, 8]
    assert chunks.find(10) is None
    assert (chunks.first, chunks.next, chunks.last.facts.first) == (0, 10, 8)


def test_the_first_chunk_not_before_a_time():
    chunks = filled(*(place(number, stamp_ms=number // 2 * 10) for number in range(3 * BLOCK_CHUNKS_MAX)))
    assert [chunks.since(stamp) for stamp in (0, 1, 10, 11, 10_000)] == [0, 2, 2, 4, 2000]
    assert chunks.since(10**6) == 3 * BLOCK_CHUNKS_MAX


def test_a_carried_chunk_moves_and_is_not_there_twice():
    chunks = filled(place(0), place(1), place(2, file=2))
    chunks.add(place(1, file=3))
    assert [one.file for one in chunks] == [1, 3, 2]
    assert chunks.live_in == {1: 10, 2: 10, 3: 10}
    assert chunks.bytes == 30
    chunks.add(place(0, file=3))
    assert chunks.live_in == {2: 10, 3: 20}


def test_chunks_that_come_after_later_ones_take_their_places():
    total = 5 * BLOCK_CHUNKS_MAX
    later = range(total // 2, total)
    chunks = filled(*(place(number) for number in later))
    for number in range(total // 2):
        chunks.add(place(number, file=2))
    assert [one.facts.first for one in chunks] == list(range(total))
    assert chunks.live_in == {1: 10 * (total - total // 2), 2: 10 * (total // 2)}


def test_a_cut_removes_whole_chunks_up_to_the_offset():
    chunks = filled(place(0, 3), place(3, 3), place(6, 3, file=2))
    assert chunks.cut(5) == 10
    assert (chunks.first, chunks.bytes) == (3, 20)
    assert chunks.cut(6) == 10
    assert (chunks.first, chunks.live_in) == (6, {2: 10})
    assert chunks.cut(chunks.next) == 10
    assert (chunks.first, chunks.next, chunks.live_in) == (9, 9, {})


def test_the_newest_bytes_and_the_newest_chunk_stay():
    chunks = filled(*(place(number) for number in range(10)))
    assert chunks.excess(bytes_max=100, before_ms=None, keep=0) == 0
    assert chunks.excess(bytes_max=75, before_ms=None, keep=0) == 3
    assert chunks.excess(bytes_max=75, before_ms=None, keep=85) == 1
    assert chunks.excess(bytes_max=0, before_ms=None, keep=0) == 9


def test_what_is_too_old_goes_in_order():
    chunks = filled(*(place(number, stamp_ms=number) for number in range(2 * BLOCK_CHUNKS_MAX)))
    assert chunks.excess(bytes_max=None, before_ms=5, keep=0) == 5
    assert chunks.excess(bytes_max=None, before_ms=BLOCK_CHUNKS_MAX + 7, keep=0) == BLOCK_CHUNKS_MAX + 7
    assert chunks.excess(bytes_max=None, before_ms=10**6, keep=0) == 2 * BLOCK_CHUNKS_MAX - 1
    assert chunks.excess(bytes_max=None, before_ms=None, keep=0) == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_it_is_like_a_plain_list(seed):
    rng = Random(seed)
    chunks, model, next_offset = StreamChunks(7), {}, 0
    for _ in range(4000):
        act = rng.random()
        if act < 0.9:
            one = place(next_offset, rng.randint(1, 4), stamp_ms=next_offset // 50, file=next_offset // 400)
            next_offset = one.next
        elif act < 0.99 and model:
            one = rng.choice(list(model.values()))._replace(file=next_offset // 400)
        else:
            offset = rng.randint(0, next_offset) if rng.random() < 0.1 else 0
            chunks.cut(offset)
            model = {first: one for first, one in model.items() if one.next > offset}
            continue
        chunks.add(one)
        model[one.facts.first] = one
    assert list(chunks) == [model[first] for first in sorted(model)]
    assert len(chunks) == len(model)
    assert chunks.next == next_offset
    for file in {one.file for one in model.values()}:
        own = [one for one in chunks if one.file == file]
        assert chunks.live_in[file] == sum(one.size for one in own)
        found, after = [], 0
        while (one := chunks.in_file(file, after)) is not None:
            found.append(one)
            after = one.next
        assert found == own
    for offset in range(0, next_offset, 37):
        after = [first for first, one in sorted(model.items()) if one.next > offset]
        found = chunks.find(offset)
        assert (found is None) == (not after)
        assert found is None or found.facts.first == after[0]
