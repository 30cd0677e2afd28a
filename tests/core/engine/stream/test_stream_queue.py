"""Streams as queues: each consumer reads all messages from its own beginning through its own filter, and every grant is
answered."""

from random import Random

import pytest

from core.clock import Now
from core.engine.confirms import Submission
from core.engine.options.in_force import QueueOptions
from core.engine.ready.remains import Remains
from core.engine.stream.stream_queue import RETENTION_INTERVAL_S, TURN_BYTES_MAX
from core.errors import Invalid, ResourceDeleted
from core.interface import (
    ActivityChanged,
    Cancelled,
    Delivered,
    Disposal,
    Outcome,
    PublisherClosed,
    StreamOptions,
    StreamPosition,
)
from core.message import Attributes, Origin, Return, Run
from core.store.stream_log import UNSYNCED_MAX
from tests.kit.streams import StreamAtWork, StreamDisk, append, delivered, got, replies

FIRST = StreamOptions(position=StreamPosition.FIRST)


def bodies(n, first=0):
    return [b"m%d" % number for number in range(first, first + n)]


def numbered(n, first=0):
    return list(enumerate(bodies(n, first), first))


def by_prefix(entry, origin):
    """The filter value of a test message: the text before the colon, if there is one."""
    assert origin is Origin.AMQP10
    value, colon, _ = entry.partition(b":")
    return value.decode() if colon else None


# --- publishing


def test_a_message_is_confirmed_and_readable_when_it_is_written():
    stream = StreamAtWork()
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 10, drain=False)
    stream.publish(*bodies(3))
    stream.turn()
    assert stream.confirmed() == []
    assert got(reader) == []
    assert stream.queue.ready == 0
    stream.store.write()
    stream.turn()
    assert stream.confirmed() == [(0, 2, "accepted")]
    assert got(reader) == numbered(3)
    assert stream.queue.ready == 3
    assert stream.publisher.unsynced == 0


def test_with_sync_always_when_it_is_synced():
    stream = StreamAtWork(QueueOptions(sync_always=True))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 10, drain=False)
    stream.settle_down(*bodies(3))
    assert stream.confirmed() == []
    assert got(reader) == []
    assert stream.publisher.unsynced == 3
    stream.store.sync()
    stream.turn()
    assert stream.confirmed() == [(0, 2, "accepted")]
    assert got(reader) == numbered(3)
    assert stream.publisher.unsynced == 0


def test_another_policy_changes_what_confirms_wait_for():
    stream = StreamAtWork()
    stream.publish(b"m0")
    stream.turn()
    stream.queue.apply(QueueOptions(sync_always=True), stream.now)
    stream.publish(b"m1")
    stream.turn()
    stream.store.write()
    stream.turn()
    assert stream.confirmed() == [(0, 1, "accepted")]  # both, as the older one was still waiting for the write
    stream.settle_down(b"m2")
    assert stream.confirmed() == []
    stream.store.sync()
    stream.turn()
    assert stream.confirmed() == [(2, 2, "accepted")]


def test_small_runs_that_are_alike_share_a_chunk():
    stream = StreamAtWork()
    for body in bodies(10):
        stream.publish(body)
    stream.publish(b"m10", attributes=Attributes(durable=True))
    stream.settle_down()
    assert stream.store.lane.staged == 3  # the head of the segment and two chunks
    assert stream.confirmed() == [(0, 10, "accepted")]
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 100, drain=False)
    stream.turn()
    actions = [action for action in reader.consumer.mailbox.take() if isinstance(action, Delivered)]
    assert [(action.first, len(action.entries), action.attributes.durable) for action in actions] == [
        (0, 10, False),
        (10, 1, True),
    ]
    assert all(action.first_acquirer and action.delivery_count == 0 for action in actions)


def test_the_stage_has_a_budget():
    stream = StreamAtWork()
    stream.queue.inbox.messages_per_turn = 4
    stream.publish(*bodies(10))
    assert stream.queue.admit(stream.confirms, stream.now)
    assert stream.queue.inbox.waiting == 6
    stream.queue.inbox.messages_per_turn = 0
    assert not stream.queue.admit(stream.confirms, stream.now)
    stream.queue.inbox.messages_per_turn = None
    stream.settle_down()
    assert stream.confirmed() == [(0, 9, "accepted")]


def test_it_takes_nothing_while_too_much_is_not_synced_and_looks_again_soon():
    stream = StreamAtWork()
    stream.log.next = UNSYNCED_MAX - 1
    stream.publish(b"m0")
    stream.turn()
    stream.publish(b"m1")
    stream.turn()
    assert stream.queue.inbox.waiting == 1
    assert stream.now.monotonic < stream.queue.deadline < stream.now.monotonic + 1
    stream.store.sync()
    stream.turn()
    assert stream.queue.inbox.waiting == 0


# --- where readers begin


@pytest.mark.parametrize(
    ("position", "first"),
    [
        (StreamPosition.FIRST, 0),
        (StreamPosition.LAST, 4),
        (StreamPosition.NEXT, 6),
        (0, 0),
        (3, 3),
        (-1, 0),
        (1_700_000_000.0, 0),
        (1_700_000_000.5, 2),
        (1_700_000_001.0, 2),
        (1_700_000_002.5, 6),
    ],
)
def test_readers_begin_where_they_want(position, first):
    stream = StreamAtWork()
    for second in range(3):
        stream.now = Now(1000.0 + second, 1_700_000_000.0 + second)
        stream.settle_down(*bodies(2, 2 * second))
    reader = stream.consumer(StreamOptions(position=position))
    stream.queue.grant(reader, 100, drain=False)
    stream.settle_down(*bodies(1, 6))
    assert got(reader) == numbered(7 - first, first)


def test_an_offset_beyond_the_end_waits_for_just_that_one():
    stream = StreamAtWork()
    stream.settle_down(*bodies(2))
    reader = stream.consumer(StreamOptions(position=5))
    stream.queue.grant(reader, 100, drain=False)
    stream.settle_down(*bodies(3, 2))
    assert delivered(actions := reader.consumer.mailbox.take()) == []
    assert replies(actions) == [(0, 0)]
    stream.settle_down(*bodies(2, 5))
    assert got(reader) == numbered(2, 5)


# --- grants


def test_every_consumer_reads_everything():
    stream = StreamAtWork()
    readers = [stream.consumer(FIRST) for _ in range(3)]
    for reader in readers:
        stream.queue.grant(reader, 100, drain=False)
    stream.settle_down(*bodies(10))
    assert [got(reader) for reader in readers] == [numbered(10)] * 3
    assert stream.queue.unacknowledged == 30
    assert stream.queue.ready == 10


def test_a_grant_is_never_passed_and_is_answered_with_what_is_left():
    stream = StreamAtWork()
    stream.settle_down(*bodies(10))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 4, drain=False)
    stream.turn()
    actions = reader.consumer.mailbox.take()
    assert delivered(actions) == numbered(4)
    assert replies(actions) == [(6, 0)]
    stream.queue.grant(reader, 0, drain=False)
    stream.turn()
    assert replies(reader.consumer.mailbox.take()) == [(6, 0)]
    stream.queue.grant(reader, 1, drain=False)
    stream.queue.grant(reader, 2, drain=False)
    stream.turn()
    actions = reader.consumer.mailbox.take()
    assert delivered(actions) == numbered(2, 4)
    assert replies(actions) == [(4, 0), (4, 0)]


def test_drain_gives_back_what_the_end_leaves():
    stream = StreamAtWork()
    stream.settle_down(*bodies(3))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 10, drain=True)
    stream.turn()
    actions = reader.consumer.mailbox.take()
    assert delivered(actions) == numbered(3)
    assert replies(actions) == [(0, 7)]
    stream.settle_down(*bodies(2, 3))
    assert got(reader) == []


def test_one_turn_hands_out_a_bounded_amount_and_the_answer_waits_for_the_rest():
    stream = StreamAtWork(store=StreamDisk(cache_bytes=2**24))
    large = [bytes([number]) * (TURN_BYTES_MAX // 4) for number in range(10)]
    stream.settle_down(*large)
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 100, drain=True)
    stream.queue.dispatch(stream.now)
    actions = reader.consumer.mailbox.take()
    assert 0 < len(delivered(actions)) < 10
    assert replies(actions) == []
    assert stream.queue.deadline <= stream.now.monotonic
    stream.turn()
    actions += reader.consumer.mailbox.take()
    assert [body for _, body in delivered(actions)] == large
    assert replies(actions) == [(0, 90)]


def test_passing_over_is_work_too():
    stream = StreamAtWork(filter_value=by_prefix, store=StreamDisk(cache_bytes=2**24))
    for number in range(20):
        stream.settle_down(b"apple:" + bytes([number]) * (TURN_BYTES_MAX // 8))
    stream.settle_down(b"pear:1")
    reader = stream.consumer(StreamOptions(position=StreamPosition.FIRST, filter_values=("pear",)))
    stream.queue.grant(reader, 1, drain=False)
    turns = 0
    while not (actions := reader.consumer.mailbox.take()):
        stream.queue.dispatch(stream.now)
        turns += 1
    assert delivered(actions) == [(20, b"pear:1")]
    assert turns == 3


def test_a_reader_of_large_chunks_stops_in_the_middle_and_goes_on():
    stream = StreamAtWork(store=StreamDisk(cache_bytes=0))
    stream.settle_down(*bodies(500))
    reader = stream.consumer(FIRST)
    found = []
    for n in (1, 2, 255, 256, 100):
        stream.queue.grant(reader, n, drain=False)
        stream.turn()
        found += got(reader)
    assert found == numbered(500)


# --- filters


def test_only_messages_with_the_values_wanted():
    stream = StreamAtWork(filter_value=by_prefix)
    stream.settle_down(b"apple:1", b"2", b"pear:3", b"apple:4")
    stream.settle_down(b"5")
    stream.settle_down(b"plum:6", b"apple:7")

    def read(values, *, match_unfiltered=False):
        reader = stream.consumer(
            StreamOptions(position=StreamPosition.FIRST, filter_values=values, match_unfiltered=match_unfiltered)
        )
        stream.queue.grant(reader, 100, drain=True)
        stream.turn()
        actions = reader.consumer.mailbox.take()
        assert replies(actions) == [(0, 100 - len(delivered(actions)))]
        return delivered(actions)

    assert read(("apple",)) == [(0, b"apple:1"), (3, b"apple:4"), (6, b"apple:7")]
    assert read(("apple", "plum")) == [(0, b"apple:1"), (3, b"apple:4"), (5, b"plum:6"), (6, b"apple:7")]
    assert read(("pear",), match_unfiltered=True) == [(1, b"2"), (2, b"pear:3"), (4, b"5")]
    assert read(("none",)) == []
    assert len(read(())) == 7


def test_a_filter_within_a_grant_loses_nothing():
    stream = StreamAtWork(filter_value=by_prefix)
    stream.settle_down(*[b"%s:%d" % ((b"odd" if n % 2 else b"even"), n) for n in range(20)])
    reader = stream.consumer(StreamOptions(position=5, filter_values=("odd",)))
    found = []
    for _ in range(5):
        stream.queue.grant(reader, 2, drain=False)
        stream.turn()
        found += got(reader)
    assert [offset for offset, _ in found] == [5, 7, 9, 11, 13, 15, 17, 19]


# --- settling


@pytest.mark.parametrize("disposal", [Disposal.ACCEPTED, Disposal.REJECTED, Return(), Return(delivery_failed=True)])
def test_whatever_a_consumer_says_the_message_stays_and_does_not_come_back(disposal):
    stream = StreamAtWork()
    stream.settle_down(*bodies(5))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 100, drain=False)
    stream.turn()
    assert got(reader) == numbered(5)
    assert not stream.queue.settle(reader, 1, 3, disposal)
    assert stream.queue.unacknowledged == 2
    stream.queue.settle(reader, 0, 10**9, disposal)
    assert stream.queue.unacknowledged == 0
    stream.turn()
    assert got(reader) == []
    assert stream.queue.ready == 5
    counts = stream.queue.counts()
    assert counts["accepted"] + counts["rejected"] + counts["returned"] == 5


def test_what_never_left_the_broker_is_delivered_again():
    stream = StreamAtWork(filter_value=by_prefix)
    stream.settle_down(*[b"%s:%d" % ((b"odd" if n % 2 else b"even"), n) for n in range(20)])
    reader = stream.consumer(StreamOptions(position=0, filter_values=("odd",)))
    stream.queue.grant(reader, 6, drain=False)
    stream.turn()
    assert [offset for offset, _ in got(reader)] == [1, 3, 5, 7, 9, 11]
    assert stream.queue.settle(reader, 3, 3, Return(unsent=True))
    assert stream.queue.settle(reader, 4, 5, Return(unsent=True))
    assert stream.queue.settle(reader, 4, 5, Return(unsent=True))
    assert stream.queue.unacknowledged == 3
    stream.queue.grant(reader, 100, drain=False)
    stream.turn()
    assert [offset for offset, _ in got(reader)] == [7, 9, 11, 13, 15, 17, 19]


def test_what_is_behind_a_delivery_that_went_back_comes_again_once_however_often_it_is_returned():
    stream = StreamAtWork()
    stream.settle_down(*bodies(6))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 6, drain=False)
    stream.turn()
    assert got(reader) == numbered(6)
    stream.queue.settle(reader, 1, 2, Return(unsent=True))
    assert stream.queue.unacknowledged == 1
    stream.queue.grant(reader, 4, drain=False)
    stream.turn()
    assert got(reader) == numbered(4, first=1)
    stream.queue.settle(reader, 3, 5, Return(unsent=True))
    stream.queue.grant(reader, 4, drain=False)
    stream.turn()
    assert got(reader) == numbered(1, first=5)


def test_a_consumer_that_leaves_takes_nothing_with_it_and_gives_nothing_back():
    stream = StreamAtWork()
    stream.settle_down(*bodies(5))
    reader, other = stream.consumer(FIRST), stream.consumer(FIRST)
    for one in (reader, other):
        stream.queue.grant(one, 3, drain=False)
    stream.turn()
    stream.queue.cancel(reader)
    assert reader.detached
    assert stream.queue.unacknowledged == 3
    stream.queue.grant(other, 10, drain=False)
    stream.turn()
    assert got(other) == numbered(5)


def test_deliveries_that_are_not_settled_do_not_keep_their_bodies():
    stream = StreamAtWork()
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 1000, drain=False)
    for number in range(300):
        stream.settle_down(b"m%d" % number)
    assert reader.unsettled.count == 300
    assert not any(batch.entries for batch in reader.unsettled.remove_all())


def test_a_single_active_consumer_hands_over_when_it_leaves():
    stream = StreamAtWork(QueueOptions(single_active_consumer=True))
    first, second = stream.consumer(FIRST), stream.consumer(FIRST)
    assert (first.consumer.active, second.consumer.active) == (True, False)
    for one in (first, second):
        stream.queue.grant(one, 3, drain=False)
    stream.settle_down(*bodies(5))
    assert delivered(first.consumer.mailbox.take()) == numbered(3)
    waiting = second.consumer.mailbox.take()
    assert delivered(waiting) == []
    assert replies(waiting) == [(0, 0)]
    stream.queue.cancel(first)
    stream.turn()
    actions = second.consumer.mailbox.take()
    assert isinstance(actions[0], ActivityChanged)
    assert delivered(actions) == numbered(3)


# --- retention, purge, the end


def test_size_is_looked_at_whenever_something_is_committed_and_age_once_a_minute():
    stream = StreamAtWork(QueueOptions(max_length_bytes=8000, max_age_s=90, stream_segment_bytes=2000))
    for second in range(5):
        stream.now = Now(1000.0 + second, 1_700_000_000.0 + second)
        for _ in range(3):
            stream.settle_down(b"x" * 1000)
    counts = stream.queue.counts()
    assert counts["file_bytes"] <= 8000
    assert counts["segments"] == 4
    assert counts["last_offset"] == 14
    assert stream.queue.deadline <= 1004.0 + RETENTION_INTERVAL_S  # a check of the size also checks the age
    stream.now = Now(1200.0, 1_700_000_200.0)
    stream.queue.dispatch(stream.now)
    counts = stream.queue.counts()
    assert counts["segments"] == 1
    assert stream.queue.ready == 15 - counts["first_offset"] > 0
    assert stream.queue.deadline == 1200.0 + RETENTION_INTERVAL_S


def test_without_an_age_nothing_is_due():
    stream = StreamAtWork()
    stream.settle_down(b"x")
    assert stream.queue.deadline == float("inf")
    assert not stream.queue.expired


def test_a_policy_is_applied_at_once():
    stream = StreamAtWork(QueueOptions(stream_segment_bytes=1000))
    for number in range(10):
        stream.settle_down(b"x" * 500 + b"%d" % number)
    assert stream.queue.ready == 10
    stream.queue.apply(QueueOptions(max_length_bytes=1, stream_segment_bytes=1000), stream.now)
    stream.turn()
    assert stream.queue.counts()["segments"] == 1


def test_a_slow_reader_goes_on_with_the_first_that_is_left():
    stream = StreamAtWork(QueueOptions(stream_segment_bytes=1000, max_length_bytes=3000))
    reader = stream.consumer(FIRST)
    for number in range(10):
        stream.settle_down(b"%d" % number * 500)
    stream.queue.grant(reader, 100, drain=True)
    stream.turn()
    actions = reader.consumer.mailbox.take()
    first = stream.log.first
    assert first > 0
    assert [offset for offset, _ in delivered(actions)] == list(range(first, 10))
    assert replies(actions) == [(0, 100 - (10 - first))]


def test_a_stream_is_not_purged():
    stream = StreamAtWork()
    with pytest.raises(Invalid, match="'s' is a stream"):
        stream.queue.purge(Remains().let_go)


def test_a_deleted_stream_tells_every_consumer():
    stream = StreamAtWork(QueueOptions(sync_always=True))
    stream.queue.publishers[stream.publisher] = None
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 5, drain=False)
    stream.queue.inbox.messages_per_turn = 3
    stream.publish(*bodies(5))
    stream.queue.admit(stream.confirms, stream.now)
    error = ResourceDeleted("gone")
    stream.queue.dissolve(stream.confirms, error, Remains().let_go)
    confirmed = stream.mailbox.take()
    assert isinstance(confirmed.pop(), PublisherClosed)
    assert {one.outcome for one in confirmed} == {Outcome.RELEASED}
    assert sorted(number for one in confirmed for number in range(one.first, one.last + 1)) == list(range(5))
    assert stream.publisher.unsynced == 0
    assert isinstance(reader.consumer.mailbox.take()[-1], Cancelled)
    assert reader.detached
    stream.store.sync()
    stream.turn()
    assert stream.mailbox.take() == []
    assert not [path for path in stream.store.disk.paths if path.endswith(".seg")]


def test_a_run_for_several_queues_is_answered_when_all_have_it():
    stream = StreamAtWork()
    submission = Submission.to((stream.queue, "another"), stream.publisher, Run(0, bodies(4), Attributes()))
    stream.queue.inbox.put(submission, 4)
    stream.settle_down()
    assert stream.confirmed() == []
    stream.confirms.took(submission, "another", 0, 4)
    assert stream.confirmed() == [(0, 3, "accepted")]


def test_after_a_start_readers_find_what_there_was():
    store = StreamDisk()
    stream = StreamAtWork(store=store)
    stream.settle_down(*bodies(5))
    store.sync()
    again = StreamAtWork(store=store, log=store.recovered(intact=True))
    reader, next_one = again.consumer(FIRST), again.consumer()
    for one in (reader, next_one):
        again.queue.grant(one, 100, drain=False)
    again.settle_down(*bodies(2, 5))
    assert got(reader) == numbered(7)
    assert got(next_one) == numbered(2, 5)


def test_damaged_messages_are_passed_over_to_the_end():
    store = StreamDisk(cache_bytes=0)
    stream = StreamAtWork(store=store)
    append(stream.log, b"lost")
    store.write()
    path = next(path for path in store.disk.paths if path.endswith(".seg"))
    rng = Random(1)
    store.disk.flip_bit(path, 8 * (store.disk.size(path) - 12) + rng.randrange(8))
    reader = stream.consumer(FIRST)
    stream.queue.grant(reader, 10, drain=True)
    stream.turn()
    actions = reader.consumer.mailbox.take()
    assert delivered(actions) == []
    assert replies(actions) == [(0, 10)]
    assert stream.queue.counts()["damaged_records"] == 1
