"""The AMQP 0.9.1 receiving end, fed with the delivery frames of the broker: every delivery is checked."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.consumer import ChannelConsumer
from amqp10.load.delivery import FEW
from amqp10.load.ledger import LedgerVerdict, judge
from amqp10.load.plan import PlannedTraffic
from amqp10.load.wire import WireError
from core.amqp091.codec import decode_method
from core.amqp091.content import entry_of
from core.amqp091.deliver_run import encode_run
from core.amqp091.framing import read_frame
from core.amqp091.methods import BasicAck, BasicConsume

TRAFFIC = PlannedTraffic(size=30)
FRAME_MAX = 4096
NO_PROPERTIES = b"\x00\x00"
AT_A_TIME = [1, FEW - 1, 100]


def body(sequence, publisher=1, *, traffic=TRAFFIC, stamp=None, spoiled=False):
    numbers = struct.pack(">IQ", publisher, sequence) + (b"" if stamp is None else struct.pack(">Q", stamp))
    whole = numbers + traffic.padding()
    return whole[:-1] + bytes([whole[-1] ^ 0x80]) if spoiled else whole


def frames(bodies, *, first_tag=1, redelivered=False):
    entries = [entry_of(NO_PROPERTIES, one) for one in bodies]
    return b"".join(encode_run(2, "c", first_tag, redelivered, "", "q", entries, FRAME_MAX))


def consumer(traffic=TRAFFIC, prefetch_count=0):
    one = ChannelConsumer(traffic, channel=2, queue="q", prefetch_count=prefetch_count)
    one.start(0)
    one.output()
    return one


def take(one, data, now_ns=0):
    at = 0
    while at < len(data) and (after := one.deliveries(data, at, now_ns)) > at:
        at = after
    return at


def feed(one, bodies, *, at_a_time):
    for first in range(0, len(bodies), at_a_time):
        data = frames(bodies[first : first + at_a_time], first_tag=first + 1)
        assert take(one, data) == len(data)
    return one


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda s: s, LedgerVerdict()),
        (lambda s: s[:70] + s[71:], LedgerVerdict(lost=1)),
        (lambda s: [*s[:70], 70, *s[70:]], LedgerVerdict(duplicated=1)),
        (lambda s: [*s[:70], s[71], s[70], *s[72:]], LedgerVerdict(reordered=1)),
    ],
    ids=["clean", "lost", "duplicated", "reordered"],
)
def test_the_ledger_sees_what_became_of_the_messages(at_a_time, change, verdict):
    one = feed(consumer(), [body(n) for n in change(list(range(150)))], at_a_time=at_a_time)
    assert judge({1: 150}, [one.ledger.ranges()]) == verdict


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_one_changed_byte_of_one_body_is_noticed(at_a_time):
    one = feed(consumer(), [body(n, spoiled=n == 70) for n in range(150)], at_a_time=at_a_time)
    assert (one.corrupted, one.ledger.total) == (1, 149)


@given(cut=st.integers(0, 40 * 120), redelivered=st.booleans())
def test_deliveries_may_be_cut_anywhere(cut, redelivered):
    data = frames([body(n) for n in range(20)]) + frames(
        [body(n) for n in range(20, 40)], first_tag=21, redelivered=redelivered
    )
    one = consumer()
    at = take(one, data[:cut])
    assert take(one, data[at:]) == len(data) - at
    assert one.ledger.ranges() == {1: [(0, 40)]}


def test_a_body_in_several_frames_is_put_together():
    traffic = PlannedTraffic(size=10_000)
    one = feed(consumer(traffic), [body(n, traffic=traffic) for n in range(3)], at_a_time=1)
    assert (one.ledger.ranges(), one.corrupted) == ({1: [(0, 3)]}, 0)


def test_a_gap_in_the_delivery_tags_is_a_violation():
    with pytest.raises(WireError, match="delivery-tag 5 came after 2"):
        take(consumer(), frames([body(0), body(1)]) + frames([body(2)], first_tag=5))


def test_more_than_prefetch_count_is_a_violation():
    one = consumer(prefetch_count=3)
    take(one, frames([body(0), body(1), body(2)]))
    one.output()
    take(one, frames([body(3), body(4), body(5)], first_tag=4))
    with pytest.raises(WireError, match="4 deliveries are unacknowledged"):
        take(one, frames([body(6)], first_tag=7))


def acks(pieces):
    methods = [decode_method(read_frame(piece, 0, FRAME_MAX).payload) for piece in pieces]
    assert all(isinstance(method, BasicAck) for method in methods)
    return [(method.delivery_tag, method.multiple) for method in methods]


def test_bulk_acknowledges_all_at_once_and_unbatched_each():
    bodies = [body(n) for n in range(3)]
    assert acks(feed(consumer(), bodies, at_a_time=3).output()) == [(3, True)]
    single = feed(consumer(PlannedTraffic(size=30, shape="unbatched")), bodies, at_a_time=3)
    assert acks(single.output()) == [(1, False), (2, False), (3, False)]
    assert single.output() == []


@pytest.mark.parametrize("settled", [False, True])
def test_consuming_begins_with_the_start(settled):
    one = ChannelConsumer(PlannedTraffic(settled=settled), channel=2, queue="q", prefetch_count=0)
    assert one.output() == []
    one.start(0)
    [piece] = one.output()
    frame = read_frame(piece, 0, FRAME_MAX)
    assert (frame.channel, frame.end) == (2, len(piece))
    assert decode_method(frame.payload) == BasicConsume(queue="q", consumer_tag="c", no_ack=settled)


def test_without_acks_nothing_is_written():
    traffic = PlannedTraffic(size=30, settled=True)
    assert feed(consumer(traffic, prefetch_count=1), [body(n) for n in range(50)], at_a_time=50).output() == []


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_latency_counts_from_the_intended_time(at_a_time):
    traffic = PlannedTraffic(size=30, rate=1.0)
    one = consumer(traffic)
    for first in range(0, 100, at_a_time):
        bodies = [body(n, traffic=traffic, stamp=5_000_000) for n in range(first, min(first + at_a_time, 100))]
        take(one, frames(bodies, first_tag=first + 1), 12_000_000)
    assert one.latency.get_total_count() == 100
    assert one.latency.get_value_at_percentile(99) == pytest.approx(7_000, rel=0.01)


def test_a_delivery_without_content_is_a_violation():
    deliver = frames([body(0)])
    _, end = wire.frame_at(deliver, 0)
    with pytest.raises(WireError, match="followed by a frame of type 1"):
        take(consumer(), deliver[:end] * 2)
