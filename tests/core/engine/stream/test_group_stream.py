"""A stream of a cluster: confirmed and read when it is committed, held without the leadership, the same after each new
leader."""

from dataclasses import replace
from random import Random

import pytest

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions, QueueType
from core.engine.queue.admissions import lose_track, refuse
from core.engine.queue.consumers import Attachment
from core.engine.queue.kinds import Peeked
from core.engine.ready.remains import Remains
from core.engine.ready.waits import Waits
from core.engine.stream.group_stream import GroupStream
from core.engine.stream.stream_queue import StreamQueue
from core.errors import ResourceDeleted
from core.interface import (
    Confirmed,
    ConsumeOptions,
    Consumer,
    GrantReply,
    Mailbox,
    Publisher,
    PublisherBlocked,
    QueueTarget,
    StreamOptions,
    StreamPosition,
)
from core.message import Attributes, Run
from core.store.errors import StoreDamaged
from core.store.stream_chunk import MESSAGES_MAX, ChunkCache
from tests.kit.group_node import SeveralNodes
from tests.kit.settings import GENERAL
from tests.kit.streams import got

FIRST = StreamOptions(position=StreamPosition.FIRST)
NUMBER = 5


class Stream:
    """A stream queue of a node that leads its group, a publisher, and consumers that have a mailbox each."""

    def __init__(self, node=None, cache_bytes=0, **options):
        self.node = node or SeveralNodes()
        self.confirms = Confirms()
        self.waits = Waits(lambda: self.node.log.committed)
        self.queue = StreamQueue(
            "s",
            replace(QueueOptions(**options), type=QueueType.STREAM),
            GroupStream(self.node.queues, NUMBER, segment_bytes=1, cache=ChunkCache(cache_bytes), key="s"),
            written=None,
            synced=self.waits,
            stage_credit=CreditFlow("s", GENERAL),
        )
        self.mailbox = Mailbox(lambda: None)
        self.publisher = Publisher(self.mailbox, None, QueueTarget("s"), None)
        self.queue.publishers[self.publisher] = None
        self.confirms.enter(self.publisher)
        self.published = 0
        self.wall = 1_700_000_000.0

    @property
    def now(self):
        return Now(self.node.network.now, self.wall)

    @property
    def chunks(self):
        return self.node.queues.stream(NUMBER)

    def publish(self, *bodies):
        self.queue.inbox.put(
            Submission(self.publisher, Run(self.published, list(bodies), Attributes()), None), len(bodies)
        )
        self.published += len(bodies)

    def turn(self):
        """Do what the pump and the member do."""
        for first, last in self.node.log.take_voids():
            for waiting in self.waits.take(first, last):
                refuse(waiting, self.confirms)
        for first, last in self.node.log.take_unknown():
            for waiting in self.waits.take(first, last):
                lose_track(waiting, self.confirms)
        self.confirms.in_turn = True
        while True:
            for waiting in self.waits.reached():
                waiting.reached(self.confirms)
            more = self.queue.admit(self.confirms, self.now)
            self.queue.dispatch(self.now)
            if not more and self.queue.deadline > 0:
                break
        self.confirms.end_turn()

    def settle_down(self, *bodies):
        if bodies:
            self.publish(*bodies)
        for _ in range(20):
            self.turn()
            self.node.move()
        self.turn()

    def consumer(self, options=FIRST, grant=1000):
        attachment = Attachment(Consumer(0, "s", Mailbox(lambda: None), ConsumeOptions(stream=options), None))
        self.queue.attach(attachment)
        self.queue.grant(attachment, grant, drain=False)
        return attachment

    def told(self):
        return self.mailbox.take()

    def confirmed(self):
        return [(one.first, one.last, one.outcome.value) for one in self.told() if isinstance(one, Confirmed)]


def reasons(actions):
    return [one.reason for one in actions if isinstance(one, PublisherBlocked)]


def test_a_message_is_confirmed_and_read_when_it_is_committed():
    stream = Stream()
    reader = stream.consumer()
    stream.publish(b"a", b"b")
    stream.turn()
    assert stream.confirmed() == []
    assert got(reader) == []
    assert stream.publisher.unsynced == 2
    stream.settle_down()
    assert stream.confirmed() == [(0, 1, "accepted")]
    assert got(reader) == [(0, b"a"), (1, b"b")]
    assert (stream.queue.ready, stream.publisher.unsynced) == (2, 0)


def test_large_runs_are_chunks_that_are_committed_one_by_one():
    stream = Stream()
    bodies = [b"%d" % number for number in range(2 * MESSAGES_MAX + 5)]
    stream.settle_down(*bodies)
    assert [place.facts.messages for place in stream.chunks] == [MESSAGES_MAX, MESSAGES_MAX, 5]
    assert stream.confirmed() == [(0, len(bodies) - 1, "accepted")]
    reader = stream.consumer(grant=10_000)
    stream.settle_down()
    assert got(reader) == list(enumerate(bodies))


def test_readers_begin_at_their_positions():
    stream = Stream()
    for number in range(5):
        stream.wall = 1000.0 + number
        stream.settle_down(b"%d" % number)
    found = {}
    for position in (StreamPosition.FIRST, StreamPosition.LAST, StreamPosition.NEXT, 3, 1001.5):
        found[position] = stream.consumer(StreamOptions(position=position))
    stream.settle_down(b"5")
    begins = {position: got(reader)[0][0] for position, reader in found.items()}
    assert begins == {
        StreamPosition.FIRST: 0, StreamPosition.LAST: 4, StreamPosition.NEXT: 5, 3: 3, 1001.5: 2,
    }  # fmt: skip


def test_without_the_leadership_it_is_held_and_goes_on_with_the_next_offset():
    stream = Stream()
    reader = stream.consumer()
    stream.settle_down(b"a")
    assert got(reader) == [(0, b"a")]
    stream.told()
    stream.node.fence()
    stream.publish(b"lost")
    stream.settle_down()
    told = stream.told()
    assert reasons(told) == ["no-quorum"]
    assert [one.outcome.value for one in told if isinstance(one, Confirmed)] == ["released"]
    late = stream.consumer(grant=5)
    stream.settle_down()
    assert [one.available for one in late.consumer.mailbox.take() if isinstance(one, GrantReply)] == [0]
    assert stream.queue.peek(5) == []
    stream.node.lead_again()
    stream.settle_down(b"b")
    told = stream.told()
    assert reasons(told) == [None]
    assert got(reader) == [(1, b"b")]
    assert got(late) == [(0, b"a"), (1, b"b")]


def test_the_answers_keep_their_order_when_the_first_ones_are_in_doubt():
    stream = Stream()
    stream.publish(b"a")
    stream.turn()
    stream.node.fence()
    for _ in range(3):
        stream.node.move()
    stream.node.queues.demote()
    stream.publish(b"b")
    stream.settle_down()
    stream.node.lead_again()
    stream.settle_down(b"c")
    outcomes = [(one.first, one.last, one.outcome.value) for one in stream.told() if isinstance(one, Confirmed)]
    assert outcomes == sorted(outcomes)
    accepted = [body for first, last, outcome in outcomes if outcome == "accepted" for body in b"abc"[first : last + 1]]
    reader = stream.consumer()
    stream.settle_down()
    assert [body for _, body in got(reader)] == [bytes((body,)) for body in accepted]


def test_a_cache_of_an_earlier_term_is_not_read():
    stream = Stream(cache_bytes=10_000)
    stream.publish(b"never committed")
    stream.turn()
    stream.node.fence()
    stream.settle_down()
    stream.node.lead_again()
    stream.settle_down(b"committed")
    reader = stream.consumer()
    stream.settle_down()
    assert got(reader) == [(0, b"committed")]


def test_times_do_not_go_back_with_the_clock_of_the_next_leader():
    stream = Stream()
    stream.wall = 2000.0
    stream.settle_down(b"a")
    stream.node.fence()
    stream.settle_down()
    stream.node.lead_again()
    stream.wall = 1000.0
    stream.settle_down(b"b")
    assert [place.facts.stamp_ms for place in stream.chunks] == [2_000_000, 2_000_000]


def test_a_restart_has_everything():
    stream = Stream()
    stream.settle_down(b"a", b"b")
    again = Stream(stream.node.restart())
    reader = again.consumer()
    again.settle_down(b"c")
    assert got(reader) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_what_exceeds_the_limit_goes_from_the_log_and_from_the_disk():
    stream = Stream(max_length_bytes=2000, stream_segment_bytes=1)
    for _ in range(60):
        stream.settle_down(b"x" * 400)
    assert 1000 < stream.chunks.bytes <= 2500
    assert sum(stream.node.copy.files().values()) < 10_000
    reader = stream.consumer()
    stream.settle_down()
    offsets = [offset for offset, _ in got(reader)]
    assert offsets == list(range(stream.chunks.first, 60))
    counts = stream.queue.counts()
    assert (counts["first_offset"], counts["last_offset"]) == (stream.chunks.first, 59)
    again = Stream(stream.node.restart())
    assert (again.chunks.first, again.chunks.next) == (stream.chunks.first, 60)


def test_chunks_are_carried_out_of_files_of_other_garbage():
    stream = Stream()
    stream.settle_down(b"first" * 10)
    node = stream.node
    other = Stream(node)
    other.queue = StreamQueue(
        "other", QueueOptions(type=QueueType.STREAM, max_length_bytes=1000, stream_segment_bytes=1),
        GroupStream(node.queues, NUMBER + 1, segment_bytes=1, cache=ChunkCache(0), key="other"),
        written=None, synced=other.waits, stage_credit=CreditFlow("other", GENERAL),
    )  # fmt: skip
    for _ in range(40):
        other.settle_down(b"y" * 400)
    assert node.queues.cleaner.carried > 0
    assert min(node.copy.files()) > 1
    reader = stream.consumer()
    stream.settle_down()
    assert got(reader) == [(0, b"first" * 10)]
    again = Stream(node.restart())
    assert again.queue.peek(1) == [Peeked(0, b"first" * 10, Attributes())]


def test_a_deleted_stream_leaves_nothing():
    stream = Stream()
    stream.settle_down(b"a")
    stream.told()
    stream.publish(b"b")
    stream.turn()
    stream.queue.dissolve(stream.confirms, ResourceDeleted("gone"), Remains().let_go)
    assert stream.confirmed() == [(1, 1, "released")]
    for _ in range(20):
        stream.node.move()
    assert NUMBER not in stream.node.queues.streams.all
    assert NUMBER not in stream.node.restart().queues.streams.all


def test_damage_in_the_copy_is_not_delivered():
    stream = Stream()
    stream.settle_down(b"m" * 100)
    [place] = stream.chunks
    path = next(path for path in stream.node.disk.paths if path.endswith(f"/{place.file}.log"))
    stream.node.disk.flip_bit(path, 8 * (place.offset + 90))
    stream.consumer()
    with pytest.raises(StoreDamaged, match="copied from another node"):
        stream.turn()


@pytest.mark.parametrize("seed", range(10))
def test_whatever_the_leadership_does_every_offset_has_one_message(seed):
    rng = Random(seed)
    stream = Stream(cache_bytes=500)
    reader = stream.consumer(grant=10**6)
    read = []
    for number in range(200):
        if rng.random() < 0.5:
            stream.publish(*(b"%d" % number for _ in range(rng.randint(1, 3))))
        if rng.random() < 0.05:
            stream.node.fence()
        if rng.random() < 0.1:
            stream.node.driver.claim()
        stream.turn()
        stream.node.move()
        read += got(reader)
    stream.node.lead_again()
    stream.settle_down()
    read += got(reader)
    assert [offset for offset, _ in read] == list(range(len(read)))
    values = [int(body) for _, body in read]
    assert values == sorted(values)
    answers = [one for one in stream.told() if isinstance(one, Confirmed)]
    accepted = sum(one.last - one.first + 1 for one in answers if one.outcome.value == "accepted")
    assert accepted == len(read)
    assert sum(one.last - one.first + 1 for one in answers) == stream.published
