"""Which files the compaction empties, and that no body is lost meanwhile."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.store.compaction import FILES_MIN, choose
from core.store.message_store import FileSummary, body_record_bytes
from core.store.places import PERSISTENT
from tests.kit.classic_store import StoreHarness, messages, run_part

LARGE = b"x" * 5000
LIMIT = 1000


def files(**live: int) -> dict[int, FileSummary]:
    """Files of 1000 bytes, of which these many are live."""
    return {int(name[1:]): FileSummary(1000, bytes_live) for name, bytes_live in live.items()}


@pytest.mark.parametrize(
    ("live", "chosen"),
    [
        ({"f0": 400, "f1": 300, "f2": 700}, (0, 1)),  # two neighbours fit into one file
        ({"f0": 400, "f1": 900, "f2": 0, "f3": 300}, (2,)),  # not its neighbour 1, which is nearly full
        ({"f0": 700, "f1": 100, "f2": 500}, (1,)),  # the neighbours are not sparse
        ({"f0": 400, "f1": 300}, ()),  # fewer than three files
        ({"f0": 600, "f1": 500, "f2": 500}, ()),  # less than half is garbage
        ({"f0": 1000, "f1": 1000, "f2": 1000}, ()),
        ({"f4": 600, "f7": 100, "f9": 100}, (7,)),  # the newest file is never taken
    ],
)
def test_row_4_7_what_is_chosen(live: dict[str, int], chosen: tuple[int, ...]):
    summaries = files(**live)
    assert choose(summaries, newest=max(summaries), file_bytes_max=LIMIT, garbage_fraction=0.5) == chosen


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.floats(0, 1)), min_size=FILES_MIN, max_size=12),
    st.sampled_from([0.1, 0.5, 0.9]),
)
def test_too_much_garbage_always_finds_a_file_unless_the_newest_has_it_all(sizes, fraction):
    summaries = {number: FileSummary(total, int(total * share)) for number, (total, share) in enumerate(sizes)}
    newest = len(sizes) - 1
    chosen = choose(summaries, newest=newest, file_bytes_max=LIMIT, garbage_fraction=fraction)
    total = sum(file.total for file in summaries.values())
    garbage = total - sum(file.live for file in summaries.values())
    if garbage <= fraction * total:
        assert chosen == ()
    elif not chosen:
        assert garbage == summaries[newest].total - summaries[newest].live
    else:
        assert newest not in chosen
        assert all(summaries[number].live < summaries[number].total for number in chosen)


@pytest.fixture
def sparse() -> StoreHarness:
    """Four files. Every seventh of their bodies is live."""
    harness = StoreHarness(msg_store_file_size_limit=65_536)
    harness.index.publish(0, run_part(*[b"%d" % number + LARGE for number in range(50)]))
    harness.drain()
    harness.index.settle([number for number in range(50) if number % 7])
    harness.drain()
    return harness


def expected() -> dict[int, bytes]:
    return {number: b"%d" % number + LARGE for number in range(0, 50, 7)}


def test_row_4_7_sparse_neighbours_become_one_file(sparse: StoreHarness):
    while sparse.store.compact_step():
        assert messages(sparse.index) == expected()
        sparse.drain()
        assert messages(sparse.index) == expected()
    sparse.drain()
    assert len(sparse.disk.names(PERSISTENT)) < FILES_MIN
    assert 2 * sparse.store.persistent.live_bytes >= sparse.store.persistent.total_bytes
    assert messages(sparse.kill().queue_index("1")) == expected()


def test_an_emptied_file_stays_until_the_copies_are_synced(sparse: StoreHarness):
    before = sparse.disk.names(PERSISTENT)
    while sparse.store.compact_step():
        pass
    sparse.write()
    assert set(before) <= set(sparse.disk.names(PERSISTENT))
    assert messages(sparse.kill().queue_index("1")) == expected()


def test_copies_wait_while_much_is_staged(sparse: StoreHarness):
    sparse.index.publish(100, run_part(*[b"x" * 4_000_000] * 3))
    assert sparse.store.classic.take_write() is not None
    moved = sparse.store.persistent.total_bytes
    assert not sparse.store.compact_step()
    assert sparse.store.persistent.total_bytes == moved


def test_what_is_settled_meanwhile_is_not_copied(sparse: StoreHarness):
    assert sparse.store.compact_step()
    sparse.index.settle(list(expected()))
    while sparse.store.compact_step():
        sparse.drain()
    sparse.drain()
    assert len(sparse.store.persistent) == 0
    assert messages(sparse.index) == {}


def test_a_file_with_a_damaged_live_body_stays(sparse: StoreHarness):
    """The damaged body is the first of the store, and live."""
    sparse.disk.flip_bit("msg_store_persistent/0.rdq", 8 * 100)
    for _ in range(20):
        sparse.store.compact_step()
        sparse.drain()
    assert "0.rdq" in sparse.disk.names(PERSISTENT)
    assert not sparse.store.compact_step()
    left = expected()
    del left[0]
    assert {sequence: body for run in sparse.index.load(0)[1:] for sequence, body in read(sparse, run)} == left


def read(harness: StoreHarness, run):
    return zip(run.sequences, harness.index.read(run), strict=True)


def test_a_step_is_bounded():
    harness = StoreHarness()
    size = body_record_bytes(len(LARGE))
    count = 3 * 16 * 2**20 // size
    for first in range(0, count, 500):
        harness.index.publish(first, run_part(*[LARGE] * min(500, count - first)))
        harness.drain()
    harness.index.settle([number for number in range(count) if number % 3])
    harness.drain()
    staged = harness.store.classic.staged
    assert harness.store.compact_step()
    assert harness.store.compact_step()
    assert 0 < harness.store.classic.staged - staged <= 2 * (2**20 // size + 1)
