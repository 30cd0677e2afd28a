"""The classic queue: lazy mode, restarts, purging, expiry, and what is read and paged beside the rules of the rows."""

from dataclasses import replace
from math import inf

import pytest

from core.engine.classic.residency import Paging
from core.engine.ready.batch import Batch
from core.engine.ready.remains import Remains
from core.store.errors import StoreDamaged
from core.store.places import SEGMENT_MESSAGES
from core.store.record import HEADER_BYTES
from tests.kit.engine import bodies, later
from tests.kit.variable_queues import DURABLE, EMBED_BELOW, FINE, TRANSIENT_MESSAGE, Bench, in_five_places

# --- lazy


def test_row_4_12_a_lazy_queue_keeps_nothing_in_memory():
    bench = Bench(lazy=True)
    bench.publish(bodies(4))
    bench.publish(bodies(4, 4), DURABLE)
    assert bench.where() == (0, 0, 8, 0, 0)
    assert bench.fetch(1).entries == bodies(1)
    assert bench.where() == (0, 0, 0, 7, 0)
    assert bench.drain() == bodies(7, 1)


def test_row_4_12_transient_messages_of_a_lazy_queue_are_lost_at_a_restart_anyway():
    bench = Bench(lazy=True)
    bench.publish(bodies(4))
    bench.publish(bodies(4, 4), DURABLE)
    bench.stop_in_order()
    assert bench.drain() == bodies(4, 4)


def test_row_4_12_the_mode_changes_gradually():
    bench = Bench()
    bench.publish(bodies(10))
    bench.queue.set_lazy(True)
    assert bench.where() == (0, 0, 0, 0, 10)
    assert bench.queue.reduce_memory_use(later(0))
    assert bench.where() == (0, 0, 0, 4, 6)
    bench.publish(bodies(1, 10))
    assert bench.queue.ram_messages == 3
    bench.reduce()
    assert bench.queue.ram_messages == 0
    bench.publish(bodies(1, 11))
    assert bench.where() == (0, 0, 1, 11, 0)
    bench.queue.set_lazy(False)
    bench.publish(bodies(1, 12))
    assert bench.where() == (1, 0, 1, 11, 0)
    assert bench.drain() == bodies(13)


@pytest.mark.parametrize("backlog", [1, 2, 10, 1000])
@pytest.mark.parametrize("written", [False, True])
def test_a_short_backlog_of_a_lazy_queue_is_never_loaded_twice(backlog: int, written: bool):
    bench = Bench(lazy=True, paging=Paging())
    bench.publish(bodies(backlog), DURABLE)
    for number in range(SEGMENT_MESSAGES // 8):
        bench.publish(bodies(1, backlog + number), DURABLE)
        if written and number % 64 == 0:
            bench.write()
        assert bench.fetch(1).entries == bodies(1, number)
    counts = bench.queue.counts()
    assert counts["index_reads"] == 1 + (backlog + 1 > 1024), "what was there before the consumer came, in parts"
    assert counts["q3"] == backlog


def test_a_long_backlog_of_a_lazy_queue_is_read_from_delta_about_once():
    bench = Bench(lazy=True, paging=Paging(betas_min=100, place_messages=50))
    bench.publish(bodies(1), DURABLE)
    assert bench.fetch(1).entries == bodies(1)
    bench.publish(bodies(200, 1), DURABLE)
    for number in range(2000):
        bench.publish(bodies(1, 201 + number), DURABLE)
        assert bench.fetch(1).entries == bodies(1, 1 + number)
    assert bench.reads()[0] < 2200 / 50 + 2
    assert bench.drain() == bodies(200, 2001)


def test_messages_that_differ_are_looked_up_together():
    bench = Bench(lazy=True, paging=Paging())
    bench.publish(bodies(1), DURABLE)
    bench.fetch(1)
    for number in range(1, 501):
        bench.publish(bodies(1, number), DURABLE, expires_at=float(number))
    bench.write()
    assert bench.drain() == bodies(500, 1)
    assert bench.queue.counts()["place_reads"] == 1


def test_durable_and_transient_messages_in_turn_are_looked_up_each_once():
    bench = Bench(paging=Paging())
    for number in range(400):
        bench.publish(bodies(1, number), DURABLE if number % 2 else TRANSIENT_MESSAGE)
    bench.keep(0)
    bench.reduce()
    bench.write()
    assert bench.states() == (0, 200, 200, 0)
    assert bench.drain() == bodies(400)
    assert bench.queue.counts()["place_reads"] <= 400
    assert bench.reads()[0] == 0


def test_a_segment_that_is_read_by_parts_up_to_its_end():
    """After the last part the file goes on with settlements that were written meanwhile."""
    bench = Bench(lazy=True, paging=Paging(place_messages=4))
    bench.at_boundary(before=8)
    bench.publish(bodies(8), DURABLE)
    bench.publish(bodies(8, 8), DURABLE)
    bench.write()
    found = []
    while (batch := bench.queue.fetch(2)) is not None:
        found += batch.entries
        bench.queue.settle(batch)
        bench.write()
        bench.queue.check()
    assert found == bodies(16)
    assert not any(segment.live for segment in bench.index.segments.values())


def test_restoring_many_paged_batches_loads_their_segment_once():
    bench = Bench(paging=Paging())
    bench.publish(bodies(10_000), DURABLE)
    held = []
    while (batch := bench.queue.fetch(10)) is not None:
        held.append(batch)
    bench.write()
    bench.press(0)
    while bench.queue.ram_acks:
        bench.queue.reduce_memory_use(later(0))
        bench.queue.page_out(held)
    for batch in held:
        bench.queue.restore(batch)
    assert [body for batch in held for body in batch.entries] == bodies(10_000)
    assert bench.reads()[0] == 1


# --- damage


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("place_messages", [2, 1024])
@pytest.mark.parametrize("damaged", [[0], [4], [9], [3, 4, 5], list(range(10))])
def test_what_damage_has_taken_is_counted_as_lost_and_the_rest_keeps_its_order(
    damaged: list[int], place_messages: int, restart: bool
):
    bench = Bench(lazy=True, paging=replace(FINE, place_messages=place_messages), salvage=True)
    offsets = []
    for number in range(10):
        offsets.append(bench.index.segments[0].file_bytes if bench.index.segments else 0)
        bench.publish(bodies(1, number), DURABLE)
    bench.write()
    if restart:
        bench.stop_in_order()
    for number in damaged:
        bench.disk.write("queues/1/0/0.idx", offsets[number] + HEADER_BYTES, [b"damaged"])
    assert bench.drain() == [b"%d" % number for number in range(10) if number not in damaged]
    bench.queue.check()
    assert (bench.queue.lost, bench.queue.depth, bench.queue.ready_bytes) == (len(damaged), 0, 0)
    bench.queue.set_lazy(False)
    bench.publish(bodies(1, 10), DURABLE)
    assert bench.where() == (0, 0, 0, 0, 1)


def test_betas_that_damage_has_taken():
    bench = Bench(salvage=True)
    offsets = []
    for number in range(10):
        offsets.append(bench.index.segments[0].file_bytes if bench.index.segments else 0)
        bench.publish(bodies(1, number), DURABLE)
    bench.press(0)
    bench.reduce()
    bench.press(inf)
    bench.publish(bodies(2, 10), DURABLE)
    bench.write()
    for number in (2, 8, 9):
        bench.disk.write("queues/1/0/0.idx", offsets[number] + HEADER_BYTES, [b"damaged"])
    assert bench.drain() == [b"%d" % number for number in range(12) if number not in (2, 8, 9)]
    assert (bench.queue.lost, bench.queue.counts()["lost"], bench.queue.ready_bytes) == (3, 3, 0)


def test_handed_out_messages_that_damage_has_taken_cannot_be_restored():
    bench = Bench(salvage=True)
    bench.publish(bodies(4), DURABLE)
    held = bench.fetch(4)
    bench.press(0)
    bench.queue.reduce_memory_use(later(0))
    bench.queue.page_out([held])
    bench.write()
    bench.disk.write("queues/1/0/0.idx", HEADER_BYTES, [b"damaged"])
    with pytest.raises(StoreDamaged, match="4 messages are lost"):
        bench.queue.restore(held)
    bench.queue.settle(held)


# --- restarts


def test_after_a_stop_in_order_everything_is_delta_and_only_what_was_handed_out_is_redelivered():
    bench = Bench()
    bench.publish(bodies(6), DURABLE)
    bench.queue.settle(bench.fetch(1))
    bench.fetch(2)
    bench.stop_in_order()
    assert bench.where() == (0, 0, 5, 0, 0)
    first, second = bench.fetch(2), bench.fetch(3)
    assert (first.entries, first.first_acquirer) == (bodies(2, 1), False)
    assert (second.entries, second.first_acquirer) == (bodies(3, 3), True)


def test_after_a_kill_everything_is_redelivered():
    bench = Bench()
    bench.publish(bodies(3), DURABLE)
    bench.write()
    bench.kill()
    batch = bench.fetch(3)
    assert (batch.entries, batch.first_acquirer) == (bodies(3), False)


@pytest.mark.parametrize("attributes", [TRANSIENT_MESSAGE, DURABLE])
def test_settled_messages_of_the_newest_file_stay_gone_when_others_are_published_behind_them(attributes):
    bench = Bench(lazy=True)
    bench.next_sequence = SEGMENT_MESSAGES - 1
    bench.publish(bodies(3), DURABLE)
    bench.fetch(1)  # the only message of the older segment
    bench.queue.purge(Remains().let_go)
    bench.stop_in_order()
    bench.publish(bodies(2, 3), attributes)
    assert bench.drain() == [*bodies(1), *bodies(2, 3)]


def test_bytes_that_were_estimated_become_exact_when_they_are_read():
    bench = Bench()
    bench.publish([b"x" * 40, b"x", b"x" * 3, b"x" * EMBED_BELOW * 2], DURABLE)
    bench.queue.settle(bench.fetch(1))
    bench.stop_in_order()
    bench.fetch(1)
    assert bench.queue.ready_bytes == bench.queue.ram_bytes + EMBED_BELOW * 2 == 3 + EMBED_BELOW * 2
    bench.fetch(1)
    assert bench.fetch(1).entries == [b"x" * EMBED_BELOW * 2]
    assert (bench.queue.ready_bytes, bench.queue.ram_bytes) == (0, 0)


def test_numbers_of_transient_messages_are_not_used_again_after_a_kill():
    bench = Bench()
    for _ in range(3):
        bench.next_sequence += 600 * SEGMENT_MESSAGES
        bench.publish(bodies(1))
        bench.write()
    used = bench.next_sequence
    bench.kill()
    assert bench.next_sequence >= used


# --- other tests


def test_purge_leaves_what_was_handed_out():
    bench = in_five_places()
    bench.write()
    held = bench.fetch(2)
    assert bench.queue.purge(Remains().let_go) == 16
    bench.queue.write_now()
    assert bench.where() == (0, 0, 0, 0, 0)
    assert bench.queue.ready_bytes == 0
    bench.write()
    bench.kill()
    assert bench.drain() == held.entries


def test_delete_leaves_nothing_on_disk():
    bench = in_five_places()
    bench.write()
    bench.queue.delete(Remains().let_go)
    bench.store.forget_queue("1")
    bench.write()
    assert not [path for path in bench.disk.paths if path.startswith("queues/1/")]


def test_the_expiry_of_the_oldest_message_wherever_it_is():
    bench = Bench()
    assert bench.queue.head_expires_at is None
    bench.publish(bodies(1), DURABLE, expires_at=7.0)
    bench.publish(bodies(1, 1), DURABLE)
    assert bench.queue.head_expires_at == 7.0
    bench.press(0)
    bench.reduce()
    assert bench.queue.head_expires_at == 7.0
    bench.write()
    bench.stop_in_order()
    assert bench.queue.head_expires_at == 7.0
    bench.fetch(1)
    assert bench.queue.head_expires_at is None


def test_a_lazy_queue_without_expiries_is_not_read_to_find_one():
    bench = Bench(lazy=True)
    bench.publish(bodies(5), DURABLE)
    assert bench.queue.head_expires_at is None
    assert bench.reads() == (0, 0)


def test_messages_read_ahead_count_as_memory_until_they_are_fetched_or_there_is_no_consumer():
    bench = Bench(lazy=True)
    bench.publish(bodies(5), DURABLE)
    bench.fetch(1)
    assert bench.queue.ram_messages == 2
    bench.queue.report(later(5).monotonic)
    assert bench.queue.ram_messages == 2
    bench.queue.report(later(10).monotonic)
    assert bench.queue.ram_messages == 0
    bench.queue.check()
    assert bench.drain() == bodies(4, 1)


def test_bodies_are_read_in_batches_bounded_by_bytes():
    bench = Bench(lazy=True, paging=Paging(read_messages=100, read_bytes=100))
    bench.publish([b"x" * 40] * 5 + [b"x" * 200] * 2, DURABLE)
    assert [len(bench.fetch(1000)) for _ in range(5)] == [2, 2, 1, 1, 1]


def test_single_publishes_that_were_paged_share_a_record():
    bench = Bench(paging=Paging(io_batch_size=1))
    bench.press(0)
    for number in range(50):
        bench.publish(bodies(1, number), DURABLE)
    assert bench.where() == (0, 0, 0, 50, 0)
    assert len(list(bench.queue._q3.runs())) == 1


def test_paging_out_what_was_dealt_to_several_consumers():
    bench = Bench()
    bench.publish(bodies(6))
    batch = bench.fetch(6)
    odd, even = batch.part(1, 6, 2), batch.part(0, 6, 2)
    assert list(odd.sequences) == [1, 3, 5]
    bench.press(0)
    for _ in range(2):
        bench.queue.reduce_memory_use(later(0))
        bench.queue.page_out([odd, even])
    assert (odd.paged, even.paged) == (True, True)
    for part, expected in ((odd, [b"1", b"3", b"5"]), (even, [b"0", b"2", b"4"])):
        bench.queue.restore(part)
        assert part.entries == expected
        bench.queue.settle(part)
    assert bench.queue.counts()["ram_ack_bytes"] == 0


def test_a_target_that_rises_calls_paging_off():
    bench = Bench()
    bench.publish(bodies(10))
    held: Batch = bench.fetch(8)
    assert bench.press(0)
    bench.queue.reduce_memory_use(later(0))
    assert bench.queue.acks_to_page == 2
    assert not bench.press(inf)
    assert bench.queue.page_out([held]) == 0
    assert not bench.queue.reduce_memory_use(later(0))


def test_the_default_settings_are_those_of_the_documents():
    assert Paging() == Paging(
        io_batch_size=2048, betas_min=16384, place_messages=1024, read_messages=256, read_bytes=2**20
    )
    assert Paging() != FINE
