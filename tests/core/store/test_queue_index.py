"""The queue index: published messages are in it and settled ones are not, wherever their bytes are."""

import sys

import pytest

from core.message import DEFAULT_PRIORITY, Attributes, Origin, Route, Run, RunPart
from core.store.places import SEGMENT_MESSAGES, Embedded, SegmentSummary, Stored
from core.store.queue_index import RESERVED_SEGMENTS
from tests.kit.classic_store import DURABLE, TRANSIENT, StoreHarness, messages, run_part


@pytest.fixture
def harness() -> StoreHarness:
    return StoreHarness()


def test_what_was_published_can_be_read_before_and_after_it_is_written(harness: StoreHarness):
    index = harness.index
    index.publish(0, run_part(b"a", b"", b"ccc"))
    assert messages(index) == {0: b"a", 1: b"", 2: b"ccc"}
    batch = harness.store.classic.take_write()
    index.publish(3, run_part(b"d"))
    assert messages(index) == {0: b"a", 1: b"", 2: b"ccc", 3: b"d"}  # one batch is taken, one is being gathered
    batch.run(harness.disk)
    harness.store.classic.wrote(batch)
    harness.drain()
    harness.store.compact_step()
    assert messages(index) == {0: b"a", 1: b"", 2: b"ccc", 3: b"d"}


def test_a_run_keeps_what_its_messages_have_in_common(harness: StoreHarness):
    attributes = Attributes(origin=Origin.AMQP091, durable=True, priority=9, ttl_ms=0, redelivered=True)
    route = Route("amq.topic", ("a.b", "c"), 1_767_225_600_000)
    harness.index.publish(0, run_part(b"x", b"yy", attributes=attributes, expires_at=12.5, route=route))
    harness.index.publish(2, run_part(b"z"))
    harness.drain()
    first, second = harness.index.load(0)
    assert (first.attributes, first.expires_at, first.route) == (attributes, 12.5, route)
    assert (list(first.sequences), list(first.sizes), first.redelivered) == ([0, 1], [1, 2], False)
    assert (second.attributes, second.expires_at, second.route) == (DURABLE, None, None)
    assert not second.attributes.redelivered
    assert second.attributes.priority == DEFAULT_PRIORITY


def test_a_slice_of_a_run_part_is_published_as_that_part(harness: StoreHarness):
    run = Run(0, [b"0", b"1" * 5000, b"2", b"3"], DURABLE)
    harness.index.publish(10, RunPart(run, 1, 3))
    assert messages(harness.index) == {10: b"1" * 5000, 11: b"2"}


def test_messages_published_one_by_one_become_one_run_and_one_read(harness: StoreHarness):
    for sequence in range(50):
        harness.index.publish(sequence, run_part(b"%d" % sequence))
    harness.drain()
    harness.store.compact_step()
    (run,) = harness.index.load(0)
    assert len(run) == 50
    assert harness.index.read(run) == [b"%d" % sequence for sequence in range(50)]
    assert (harness.index.index_reads, harness.index.body_reads) == (1, 1)
    assert harness.index.read(run.part(7, 9)) == [b"7", b"8"]


@pytest.mark.parametrize("sequences", [range(1, 3), range(0, 4, 2), [0, 1, 3], range(4)])
def test_settled_messages_are_gone_at_once_and_stay_gone(harness: StoreHarness, sequences):
    index = harness.index
    index.publish(0, run_part(b"a", b"b", b"c", b"d"))
    harness.drain()
    index.settle(sequences)
    left = {number: body for number, body in enumerate((b"a", b"b", b"c", b"d")) if number not in sequences}
    assert messages(index) == left
    harness.drain()
    assert messages(index) == left
    assert messages(harness.kill().queue_index("1")) == left


def test_settlements_wait_for_the_next_batch_and_share_a_record(harness: StoreHarness):
    harness.index.publish(0, run_part(*[b"x"] * 10))
    harness.write()
    for sequence in range(5):
        harness.index.settle(range(sequence, sequence + 1))
    staged = harness.store.classic.staged
    harness.write()
    assert harness.store.classic.staged == staged + 1


def test_row_4_3_bodies_below_4096_bytes_are_embedded(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x" * 4095, b"y" * 4096))
    small, large = harness.index.load(0)
    assert isinstance(small.place, Embedded)
    assert isinstance(large.place, Stored)
    assert messages(harness.index) == {0: b"x" * 4095, 1: b"y" * 4096}


def test_row_4_3_a_limit_of_0_embeds_nothing():
    harness = StoreHarness(queue_index_embed_msgs_below=0)
    harness.index.publish(0, run_part(b"", b"x"))
    (run,) = harness.index.load(0)
    assert isinstance(run.place, Stored)
    harness.drain()
    assert messages(harness.kill().queue_index("1")) == {0: b"", 1: b"x"}


def test_row_4_4_50_000_messages_take_four_files(harness: StoreHarness):
    for first in range(0, 50_000, 500):
        harness.index.publish(first, run_part(*[b"x"] * 500))
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["0.idx", "1.idx", "2.idx", "3.idx"]
    assert [segment.live for segment in harness.index.segments.values()] == [16384, 16384, 16384, 848]


def test_row_4_4_a_file_goes_when_all_of_it_is_settled_but_not_the_newest(harness: StoreHarness):
    count = 2 * SEGMENT_MESSAGES
    for first in range(0, count, 512):
        harness.index.publish(first, run_part(*[b"x"] * 512))
    harness.drain()
    harness.index.settle(range(SEGMENT_MESSAGES - 1))
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["0.idx", "1.idx"]
    harness.index.settle(range(SEGMENT_MESSAGES - 1, count))
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["1.idx"]
    assert messages(harness.index) == {}
    assert harness.kill().queue_index("1").segments[1].live == 0


def test_a_file_that_was_settled_while_it_was_the_newest_goes_with_the_next(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    harness.index.settle([0])
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["0.idx"]
    harness.index.publish(SEGMENT_MESSAGES, run_part(b"y"))
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["1.idx"]


def test_a_run_may_span_segments_and_settle_likewise(harness: StoreHarness):
    first = SEGMENT_MESSAGES - 2
    harness.index.publish(first, run_part(b"a", b"b", b"c", b"d"))
    assert sorted(harness.index.segments) == [0, 1]
    harness.index.settle(range(first + 1, first + 3))
    assert messages(harness.index) == {first: b"a", first + 3: b"d"}
    harness.index.settle([first, first + 3])
    assert messages(harness.index) == {}


def test_large_runs_are_cut_so_that_a_damaged_record_costs_little(harness: StoreHarness):
    harness.index.publish(0, run_part(*[b"x" * 1000] * 3000))
    assert harness.store.classic.staged >= 3_000_000 // (256 * 1024)
    assert len(messages(harness.index)) == 3000


def test_messages_whose_run_is_not_at_hand(harness: StoreHarness):
    index = harness.index
    for first in range(0, SEGMENT_MESSAGES + 1000, 100):
        index.publish(first, run_part(*[b"%d" % (first + number) for number in range(100)]))
    index.settle([50])
    wanted = [3, 49, 51, 777, SEGMENT_MESSAGES - 1, SEGMENT_MESSAGES + 5]
    assert index.read_sequences(wanted) == [b"%d" % sequence for sequence in wanted]


def test_a_transient_message_paged_out_late_gets_a_file_of_its_own(harness: StoreHarness):
    """The file of its segment was passed and is to be removed, or is removed already."""
    index = harness.index
    index.publish(0, run_part(b"old"))
    index.publish(SEGMENT_MESSAGES, run_part(b"new"))
    index.settle([0])
    harness.write()
    index.publish(1, run_part(b"late", attributes=TRANSIENT))
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["0-1.idx", "1.idx"]
    assert messages(index) == {1: b"late", SEGMENT_MESSAGES: b"new"}
    assert messages(harness.kill().queue_index("1")) == {SEGMENT_MESSAGES: b"new"}
    assert harness.disk.names("queues/1/0") == ["1.idx"]


def test_a_message_that_was_settled_and_paged_out_again_is_there(harness: StoreHarness):
    for _ in range(3):
        harness.index.publish(0, run_part(b"x", attributes=TRANSIENT))
        assert messages(harness.index) == {0: b"x"}
        harness.index.settle([0])
    harness.index.publish(0, run_part(b"y", attributes=TRANSIENT))
    assert messages(harness.index) == {0: b"y"}
    harness.drain()
    assert messages(harness.index) == {0: b"y"}


@pytest.mark.parametrize("stop", ["kill", "restart"])
def test_transient_messages_do_not_outlive_the_process(harness: StoreHarness, stop: str):
    harness.index.publish(0, run_part(b"t", b"t" * 5000, attributes=TRANSIENT))
    harness.index.publish(2, run_part(b"d"))
    harness.drain()
    index = getattr(harness, stop)().queue_index("1")
    assert messages(index) == {2: b"d"}
    assert (index.segments[0].live, index.segments[0].live_bytes) == (1, 1)
    assert harness.disk.names("msg_store_transient") == []


@pytest.mark.parametrize("size", [10, 5000])
def test_purge_takes_everything_from_a_message_on(harness: StoreHarness, size: int):
    index = harness.index
    for first in range(0, SEGMENT_MESSAGES + 400, 200):
        index.publish(first, run_part(*[b"x" * size] * 200))
    index.settle([*range(11), 12])
    index.purge(14)
    assert messages(index) == {11: b"x" * size, 13: b"x" * size}
    index.publish(SEGMENT_MESSAGES + 400, run_part(b"after"))
    index.purge()
    assert messages(index) == {}
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["1.idx"]
    assert len(harness.store.persistent) == 0
    assert messages(harness.kill().queue_index("1")) == {}


@pytest.mark.parametrize("out", [False, True])
def test_delete_leaves_nothing_also_while_a_batch_is_out(harness: StoreHarness, out: bool):
    index = harness.index
    index.publish(0, run_part(b"a", b"b" * 5000))
    batch = harness.store.classic.take_write() if out else None
    index.publish(2, run_part(b"c"))
    index.settle([0])
    harness.store.forget_queue("1")
    if batch is not None:
        batch.run(harness.disk)
        harness.store.classic.wrote(batch)
    harness.drain()
    assert harness.disk.names("queues/1") == []
    assert len(harness.store.persistent) == 0


def test_an_index_that_was_never_used_is_deleted_like_others(harness: StoreHarness):
    harness.store.forget_queue("1")
    harness.drain()
    harness.store.queue_index("2").publish(0, run_part(b"x"))
    harness.drain()
    assert harness.store.classic.failed is None
    assert harness.disk.names("queues") == ["2"]


def test_a_backlog_of_large_messages_keeps_no_ids_in_memory(harness: StoreHarness):
    index = harness.index
    for number in range(4):
        index.publish(number * SEGMENT_MESSAGES, run_part(b"%d" % number * 5000))
    assert [segment.ids is None for segment in index.segments.values()] == [True, True, False, False]
    index.settle([0, SEGMENT_MESSAGES])
    harness.drain()
    assert messages(index) == {2 * SEGMENT_MESSAGES: b"2" * 5000, 3 * SEGMENT_MESSAGES: b"3" * 5000}
    assert len(harness.store.persistent) == 2


def test_row_2_6_a_message_on_disk_costs_one_read_for_its_index_and_one_for_its_body(harness: StoreHarness):
    index = harness.index
    index.publish(0, run_part(b"x", b"y" * 5000))
    harness.drain()
    harness.store.compact_step()
    embedded, stored = index.load(0)
    assert (index.index_reads, index.body_reads) == (1, 0)
    index.read(embedded)
    assert index.body_reads == 1
    index.read(stored)
    assert (index.index_reads, index.body_reads) == (1, 2)


def test_settling_what_is_not_here_is_a_bug(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    with pytest.raises(AssertionError, match="2 settled of 1 live"):
        harness.index.settle([0, 1])


def test_reserving_numbers_costs_nothing_most_of_the_time(harness: StoreHarness):
    harness.index.publish(0, run_part(b"x"))
    staged = harness.store.classic.staged
    harness.index.reserve((RESERVED_SEGMENTS - 1) * SEGMENT_MESSAGES)
    assert harness.store.classic.staged == staged
    harness.index.reserve(RESERVED_SEGMENTS * SEGMENT_MESSAGES)
    harness.drain()
    assert harness.disk.names("queues/1/0") == ["0.idx", f"{RESERVED_SEGMENTS}.idx"]
    assert messages(harness.index) == {0: b"x"}


def test_a_backlog_of_ten_million_messages_costs_less_than_200_kib(harness: StoreHarness):
    """There are 611 segments, each with figures of its own."""
    segments = {n: SegmentSummary(16384, 16384 - n, 16_777_216 + n, 17_000_000 + n) for n in range(300, 911)}
    size = sys.getsizeof(segments)
    for number, segment in segments.items():
        size += sys.getsizeof(number) + sys.getsizeof(segment) + 16
        size += sum(sys.getsizeof(value) for value in (segment.live, segment.live_bytes, segment.file_bytes))
    assert size < 200 * 1024
