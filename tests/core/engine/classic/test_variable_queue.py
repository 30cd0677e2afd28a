"""The classic queue's five places, row by row of the documents they come from; each test names its row.

The lengths of q1, q2, delta, q3 and q4 say where a queue's messages are.
"""

from dataclasses import replace
from math import inf

import pytest

from core.engine.classic.residency import Resident
from core.engine.classic.variable_queue import VariableQueue
from core.engine.ready.backing import Backing, Pages
from core.message import Attributes
from core.store.places import SEGMENT_MESSAGES
from tests.kit.engine import bodies, later
from tests.kit.variable_queues import DURABLE, FINE, Bench, in_five_places


def written(bench: Bench) -> Bench:
    bench.write()
    return bench


def test_the_queue_fits_the_interfaces_of_backing_and_residency():
    queue = Bench().queue
    backing: Backing = queue
    pages: Pages = queue
    resident: Resident = queue
    assert isinstance(queue, VariableQueue)
    assert (backing.depth, pages.acks_to_page, resident.report(0.0)) == (0, 0, inf)


# --- states


def test_row_2_01_an_alpha_is_in_memory_with_body_and_index():
    bench = Bench()
    bench.publish(bodies(3))
    bench.publish(bodies(2), DURABLE)
    counts = bench.queue.counts()
    assert bench.states() == (5, 0, 0, 0)
    assert (counts["ram_messages"], counts["ram_bytes"]) == (5, bench.queue.ready_bytes)


def test_row_2_02_a_beta_has_its_body_only_on_disk():
    bench = Bench()
    bench.publish(bodies(5))
    bench.press(0)
    bench.reduce()
    assert bench.states() == (0, 5, 0, 0)
    assert (bench.queue.ram_messages, bench.queue.ram_bytes) == (0, 0)
    assert bench.drain() == bodies(5)


def test_row_2_03_a_gamma_is_a_durable_message_dropped_from_memory_without_a_write():
    bench = Bench()
    bench.publish(bodies(5), DURABLE)
    staged = bench.lane.staged
    bench.press(0)
    bench.reduce()
    assert bench.states() == (0, 0, 5, 0)
    assert bench.lane.staged == staged


def test_row_2_03_in_a_queue_that_does_not_outlive_the_broker_there_are_no_gammas():
    bench = Bench(durable=False)
    assert bench.publish(bodies(5), DURABLE) is None
    bench.press(0)
    bench.reduce()
    assert bench.states() == (0, 5, 0, 0)
    assert bench.drain() == bodies(5)


def test_row_2_04_a_delta_is_a_count_between_two_numbers():
    bench = Bench(lazy=True)
    for number in range(100):
        bench.publish(bodies(1, number), DURABLE)
    assert bench.states() == (0, 0, 0, 100)
    assert bench.where() == (0, 0, 100, 0, 0)
    assert bench.queue.ram_bytes == 0


def test_row_2_05_a_durable_message_is_on_disk_whatever_state_it_is_in():
    bench = Bench()
    position = bench.publish(bodies(4), DURABLE)
    bench.publish(bodies(4, 4))
    assert bench.states() == (8, 0, 0, 0)
    bench.write()
    assert position is not None
    assert bench.lane.written >= position
    bench.kill()
    assert bench.drain() == bodies(4)


def test_row_2_06_reads_two_for_a_delta_one_for_a_beta_none_for_an_alpha():
    alphas = written(Bench())
    alphas.publish(bodies(3), DURABLE)
    alphas.fetch(3)
    assert alphas.reads() == (0, 0)
    deltas = Bench(lazy=True)
    deltas.publish(bodies(6), DURABLE)
    deltas.write()
    deltas.fetch(1)
    assert deltas.reads() == (1, 1)
    deltas.fetch(2)
    assert deltas.reads() == (1, 1), "three bodies are read at once"
    assert deltas.states() == (0, 0, 3, 0)
    deltas.fetch(1)
    assert deltas.reads() == (1, 2), "what was delta is gamma now and costs one read"


# --- pressure and places


def test_row_2_07_the_target_is_the_duration_target_by_the_rates():
    bench = Bench()
    bench.publish(bodies(100))
    bench.seconds = 5.0
    bench.queue.report(later(5.0).monotonic)  # 20/s, of which a half counts after one half-life
    bench.press(1.26)
    assert bench.queue.counts()["target_ram_count"] == 12
    bench.reduce()
    assert bench.queue.ram_messages == 12
    bench.press(inf)
    assert "target_ram_count" not in bench.queue.counts()


def test_row_2_07_transient_messages_become_betas_and_durable_ones_gammas():
    bench = Bench()
    bench.publish(bodies(6), DURABLE)
    bench.publish(bodies(6, 6))
    bench.keep(5)
    bench.reduce()
    assert bench.states() == (5, 6, 1, 0)
    assert bench.drain() == bodies(12)


def test_row_2_08_only_alphas_in_q1_and_q4_only_betas_and_gammas_in_q2_and_q3():
    bench = in_five_places()
    assert bench.states() == (1, 0, 9, 8)
    bench.write()
    assert bench.drain() == bodies(18)


def test_row_2_09_the_way_through_all_places():
    bench = Bench()
    seen = [bench.where()]

    def look() -> None:
        bench.queue.check()
        if bench.where() != seen[-1]:
            seen.append(bench.where())

    bench.publish(bodies(4), DURABLE)
    look()
    bench.at_boundary()
    bench.press(0)
    bench.reduce()  # from q4 to q3
    look()
    bench.press(inf)
    bench.publish(bodies(12, 4), DURABLE)  # from q1
    look()
    bench.press(0)
    while bench.queue.reduce_memory_use(later(0)):  # from q1 to q3, q3 to delta, q1 to q2, q2 to delta
        look()
    bench.write()
    bench.fetch(3)
    bench.fetch(3)  # the last message of q3, so from delta to q3
    look()
    assert seen == [
        (0, 0, 0, 0, 0),
        (0, 0, 0, 0, 4),
        (0, 0, 0, 4, 0),
        (12, 0, 0, 4, 0),
        (8, 0, 0, 8, 0),
        (4, 0, 4, 8, 0),
        (0, 4, 8, 4, 0),
        (0, 0, 12, 4, 0),
        (0, 0, 0, 12, 0),
    ]


def test_row_2_10_straight_into_q4_while_nothing_is_in_q3():
    bench = Bench()
    bench.publish(bodies(3))
    bench.publish(bodies(3, 3), DURABLE)
    assert bench.where() == (0, 0, 0, 0, 6)


def test_row_2_10_q1_becomes_q4_when_nothing_is_between():
    bench = Bench()
    bench.publish(bodies(3))
    bench.press(0)
    bench.reduce()
    bench.press(inf)
    bench.publish(bodies(5, 3))
    assert bench.where() == (5, 0, 0, 3, 0)
    bench.fetch(3)
    assert bench.where() == (0, 0, 0, 0, 5)


def test_row_2_10_q1_goes_to_q3_without_a_delta():
    bench = Bench()
    bench.publish(bodies(3))
    bench.press(0)
    bench.reduce()
    bench.publish(bodies(2, 3))
    assert bench.where() == (0, 0, 0, 5, 0)


def test_row_2_10_q2_goes_to_q3_behind_the_last_of_delta():
    bench = written(in_five_places())
    while bench.where()[2]:
        bench.fetch(1)
    assert bench.where() == (1, 0, 0, 9, 0)


# --- reading


def test_row_2_11_messages_come_from_q4_and_then_from_q3():
    bench = Bench()
    bench.publish(bodies(6), DURABLE)
    bench.keep(2)
    bench.reduce()
    assert bench.where() == (0, 0, 0, 4, 2)
    assert bench.fetch(9).entries == bodies(2)
    assert bench.where() == (0, 0, 0, 4, 0)
    assert bench.fetch(9).entries == bodies(3, 2)


def test_row_2_12_an_empty_q3_means_an_empty_queue():
    bench = Bench()
    assert bench.queue.fetch(1) is None
    bench.publish(bodies(2))
    bench.press(0)
    bench.reduce()
    bench.fetch(2)
    assert bench.queue.depth == 0
    assert bench.queue.fetch(1) is None


def test_row_2_12_a_behind_the_last_of_q3_and_no_delta_q1_becomes_q4():
    bench = Bench()
    bench.publish(bodies(2), DURABLE)
    bench.press(0)
    bench.reduce()
    bench.press(inf)
    bench.publish(bodies(3, 2), DURABLE)
    bench.fetch(2)
    assert bench.where() == (0, 0, 0, 0, 3)
    assert bench.drain() == bodies(3, 2)


def test_row_2_12_b_behind_the_last_of_q3_delta_is_read():
    bench = written(in_five_places())
    before = bench.reads()[0]
    for _ in range(8):
        bench.fetch(1)
    assert bench.where() == (1, 0, 0, 9, 0)
    assert bench.reads()[0] == before + 1, "the index of delta"
    assert bench.queue.counts()["place_reads"] == 1, "the places of q3"


def test_row_2_13_delta_is_read_by_segments():
    bench = Bench(lazy=True)
    for segment in range(3):
        bench.publish(bodies(4, 4 * segment), DURABLE)
        bench.at_boundary()
    bench.write()
    remaining = []
    while (batch := bench.queue.fetch(4)) is not None:
        bench.queue.settle(batch)
        remaining.append((bench.where()[2], bench.reads()[0]))
    assert remaining == [(8, 1), (8, 1), (4, 2), (4, 2), (0, 3), (0, 3)]


def test_row_2_13_segments_with_nothing_in_them_are_passed_over():
    bench = Bench(lazy=True)
    bench.publish(bodies(1), DURABLE)
    bench.next_sequence += 5 * SEGMENT_MESSAGES
    bench.publish(bodies(1, 1), DURABLE)
    assert bench.drain() == bodies(2)
    assert bench.reads()[0] == 2


def test_row_2_13_all_read_leaves_no_delta_and_joins_q2():
    bench = Bench(lazy=True)
    bench.publish(bodies(4), DURABLE)
    bench.queue.set_lazy(False)
    bench.publish(bodies(1, 4), DURABLE)  # a consumer came: delta is read first
    assert bench.where() == (1, 0, 0, 4, 0)


# --- paging


def test_row_2_14_both_functions_page_within_one_quota():
    bench = Bench()
    bench.publish(bodies(5))
    held = bench.fetch(3)
    bench.press(0)
    bench.queue.reduce_memory_use(later(0))
    assert bench.where()[3] == 2
    assert bench.queue.acks_to_page == 2, "what the alphas left of four"
    assert bench.queue.page_out([held]) == 3
    assert bench.queue.counts()["paged_acks"] == 3


def test_row_2_14_nothing_is_paged_below_the_target():
    bench = Bench()
    bench.publish(bodies(8))
    bench.fetch(2)
    bench.keep(8)
    assert not bench.queue.reduce_memory_use(later(0))
    assert bench.states() == (6, 0, 0, 0)
    assert bench.queue.acks_to_page == 0


def test_row_2_15_alphas_first_where_they_grow_faster():
    bench = Bench()
    bench.publish(bodies(20))
    bench.fetch(4)
    bench.keep(0)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.states()[:2] == (12, 4)
    assert bench.queue.acks_to_page == 0


def test_row_2_15_acks_first_where_they_grow_faster():
    bench = Bench()
    bench.publish(bodies(20))
    bench.fetch(16)
    bench.keep(0)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.states()[:2] == (4, 0)
    assert bench.queue.acks_to_page == 4


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("fetched", [0, 1, 2])
def test_alphas_across_the_boundary_of_a_segment_are_found_when_a_part_of_them_was_paged(one_by_one, fetched):
    """The offset at which to search is one in the file of the first message's segment, and not of the next one's."""
    bench = Bench(paging=replace(FINE, place_messages=2))
    bench.publish(bodies(20), DURABLE)
    bench.at_boundary(before=2)
    entries = bodies(8)
    for start in range(0, 8, 1 if one_by_one else 8):
        bench.publish(entries[start : start + (1 if one_by_one else 8)], DURABLE)
    for expected in [*bodies(20), *entries[:fetched]]:
        assert bench.fetch(1).entries == [expected]
    bench.press(0)
    bench.queue.reduce_memory_use(later(0))
    assert bench.where()[3] == 4, "the rear of the messages in memory was paged"
    bench.write()
    assert bench.drain() == entries[fetched:]


def test_row_2_16_alphas_go_in_batches_and_betas_only_in_full_ones():
    bench = Bench()
    bench.publish(bodies(8), DURABLE)
    bench.press(0)
    moved = []
    while bench.queue.reduce_memory_use(later(0)):
        moved.append(bench.states())
    assert moved == [(4, 0, 4, 0), (0, 0, 8, 0)]
    bench = Bench()
    for _ in range(3):
        bench.publish(bodies(3), DURABLE)
        bench.at_boundary()
    bench.press(0)
    bench.reduce()
    assert bench.states() == (0, 0, 9, 0), "three above the six that may stay are no batch"
    bench.publish(bodies(1), DURABLE)
    assert bench.states() == (0, 0, 6, 4)


def test_row_2_17_a_small_excess_is_paged_as_it_is():
    bench = Bench()
    bench.publish(bodies(8))
    bench.keep(7)
    bench.reduce()
    assert bench.states() == (7, 1, 0, 0)


def test_row_2_18_the_acks_with_the_largest_numbers_are_paged_first():
    bench = Bench()
    bench.publish(bodies(30))
    held = [bench.fetch(2) for _ in range(15)]
    bench.keep(26)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.queue.acks_to_page == 4
    assert bench.queue.page_out([held[14], *held[:14]]) == 4
    assert [batch.paged for batch in held] == [False] * 13 + [True] * 2
    assert held[14].entries == []
    bench.queue.restore(held[14])
    assert held[14].entries == bodies(2, 28)
    assert not held[14].paged


def test_row_2_19_q1_from_its_front_then_q4_from_its_rear():
    bench = Bench()
    bench.publish(bodies(10), DURABLE)
    bench.keep(7)
    bench.reduce()
    assert bench.where() == (0, 0, 0, 3, 7), "the rear of q4 stands before q3"
    bench.press(inf)
    bench.publish(bodies(4, 10), DURABLE)
    bench.keep(5)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.where() == (0, 0, 0, 7, 7), "a batch of q1 to q3"
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.where() == (0, 0, 0, 9, 5)
    bench.write()
    assert bench.drain() == bodies(14)


def test_row_2_19_q1_goes_to_q2_behind_a_delta():
    bench = in_five_places()
    bench.press(0)
    bench.queue.reduce_memory_use(later(bench.seconds))
    q1, q2, delta, q3, q4 = bench.where()
    assert (q1, q3, q4) == (0, 8, 0)
    assert q2 + delta == 10


@pytest.mark.parametrize("count", range(1, 20))
def test_row_2_20_q4_and_q3_are_empty_only_together_with_the_queue(count: int):
    bench = Bench()
    for number in range(count):
        bench.publish(bodies(1, number), DURABLE if number % 3 else Attributes())
        bench.press(0 if number % 5 else inf)
        if number % 7 == 6:
            bench.at_boundary()
    for number in range(count):
        assert bench.where()[3] or bench.where()[4]
        assert bench.fetch(1).entries == bodies(1, number)
        bench.queue.check()
    assert bench.where() == (0, 0, 0, 0, 0)


# --- persistence


def test_row_4_01_durable_messages_are_written_as_they_come_transient_ones_only_under_pressure():
    bench = Bench()
    bench.publish(bodies(3), DURABLE)
    assert bench.lane.staged == 1
    bench.publish(bodies(3, 3))
    assert bench.lane.staged == 1
    assert bench.queue.ram_messages == 6, "a copy stays in memory"
    bench.press(0)
    bench.reduce()
    assert bench.lane.staged == 2


def test_row_4_08_with_a_waiting_consumer_messages_never_stand_in_the_queue():
    bench = Bench()
    transient = bench.pass_on(bodies(2))
    durable = bench.pass_on(bodies(2), DURABLE)
    assert bench.queue.counts()["direct"] == 4
    assert bench.where() == (0, 0, 0, 0, 0)
    assert (transient.stored, durable.stored) == (False, True)
    bench.write()
    bench.queue.settle(durable)
    bench.write()
    bench.kill()
    assert bench.queue.depth == 0


def test_row_4_09_all_states_and_places_at_once():
    bench = in_five_places()
    bench.publish(bodies(1, 18))
    bench.keep(1)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert (bench.where(), bench.states()) == ((1, 0, 10, 8, 0), (1, 0, 8, 10))
    bench.press(0)
    bench.queue.reduce_memory_use(later(bench.seconds))
    assert bench.states()[:2] == (0, 1)
    bench.write()
    assert bench.drain() == bodies(19)


# --- the oldest message


def test_the_head_is_known_wherever_it_stands_and_nothing_is_read_for_it():
    """The oldest message is in q3, then in delta, q2, q1 and q4; its time of arrival is known without a read."""
    bench = written(in_five_places())
    assert bench.queue.head_sequence == 0
    while bench.queue.depth:
        reads = bench.reads()
        head = bench.queue.head_sequence
        assert bench.reads() == reads
        batch = bench.fetch(1)
        assert (head, len(batch)) == (batch.sequences[0], 1)
    assert bench.queue.head_sequence is None
    bench.publish(bodies(1))
    assert bench.queue.head_sequence == bench.fetch(1).sequences[0]
