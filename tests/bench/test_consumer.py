"""The receiving end: every delivery is checked, on the fast paths and on the slow one."""

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load import wire
from amqp10.load.consumer import LinkConsumer
from amqp10.load.delivery import FEW
from amqp10.load.ledger import LedgerVerdict, judge
from amqp10.load.plan import PlannedTraffic
from amqp10.load.wire import WireError

TRAFFIC = PlannedTraffic(size=30)
STAMPED = PlannedTraffic(size=30, rate=1.0)
BEFORE_BODY = bytes.fromhex("005370 c00201 41")  # a header section


@dataclass(frozen=True)
class Delivery:
    delivery_id: int
    sequence: int
    publisher: int = 1
    stamp: int | None = None
    settled: bool = False
    spoiled: bool = False

    def frame(self):
        numbers = struct.pack(">IQ", self.publisher, self.sequence)
        if self.stamp is not None:
            numbers += struct.pack(">Q", self.stamp)
        body = numbers + (TRAFFIC if self.stamp is None else STAMPED).padding()
        if self.spoiled:
            body = body[:-1] + bytes([body[-1] ^ 0x80])
        payload = BEFORE_BODY + bytes.fromhex("005375 a0") + bytes([len(body)]) + body
        tag = struct.pack(">I", self.sequence & 0xFFFFFFFF)
        fields = wire.uint(0), wire.uint(self.delivery_id), wire.binary(tag), wire.uint(0)
        return wire.frame(wire.composite(wire.TRANSFER, *fields, wire.boolean(self.settled)) + payload)


def consumer(*, traffic=TRAFFIC, link_credit=10_000, shape="bulk"):
    if shape != "bulk":
        traffic = PlannedTraffic(size=traffic.size, shape=shape)
    one = LinkConsumer(traffic, link_credit)
    one.start(0)
    assert one.top_up() == link_credit
    return one


def feed(one, deliveries, *, at_a_time, now_ns=0):
    for first in range(0, len(deliveries), at_a_time):
        data = b"".join(delivery.frame() for delivery in deliveries[first : first + at_a_time])
        at = 0
        while at < len(data):
            at = one.transfers(data, at, now_ns)
    return one


def in_order(count, *, first_id=1000, **fields):
    return [Delivery(first_id + n, n, **fields) for n in range(count)]


AT_A_TIME = [1, FEW - 1, 100]


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_deliveries_in_order_are_a_clean_run(at_a_time):
    one = feed(consumer(), in_order(200), at_a_time=at_a_time)
    assert judge({1: 200}, [one.ledger.ranges()]).clean
    assert (one.corrupted, one.delivery_count, one.frames) == (0, 200, 200)


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_small_delivery_ids_have_another_width_and_are_taken_as_well(at_a_time):
    one = feed(consumer(), in_order(600, first_id=0), at_a_time=at_a_time)
    assert judge({1: 600}, [one.ledger.ranges()]).clean


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda s: s[:70] + s[71:], LedgerVerdict(lost=1)),
        (lambda s: [*s[:70], 70, *s[70:]], LedgerVerdict(duplicated=1)),
        (lambda s: [*s[:70], s[71], s[70], *s[72:]], LedgerVerdict(reordered=1)),
    ],
    ids=["lost", "duplicated", "reordered"],
)
def test_the_checks_notice(at_a_time, change, verdict):
    sequences = change(list(range(150)))
    deliveries = [Delivery(1000 + index, sequence) for index, sequence in enumerate(sequences)]
    one = feed(consumer(), deliveries, at_a_time=at_a_time)
    assert judge({1: 150}, [one.ledger.ranges()]) == verdict


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_one_changed_byte_of_one_body_is_noticed(at_a_time):
    deliveries = in_order(150)
    deliveries[70] = Delivery(1070, 70, spoiled=True)
    one = feed(consumer(), deliveries, at_a_time=at_a_time)
    assert one.corrupted == 1
    assert judge({1: 150}, [one.ledger.ranges()]) == LedgerVerdict(lost=1)


@given(
    numbers=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 40), st.sampled_from([False, False, False, True])), max_size=80
    ),
    cuts=st.sampled_from([2, FEW, 80]),
)
def test_the_fast_ways_see_what_the_slow_one_sees(numbers, cuts):
    deliveries = [
        Delivery(300 + index, sequence, publisher, settled=settled)
        for index, (publisher, sequence, settled) in enumerate(numbers)
    ]
    fast = feed(consumer(), deliveries, at_a_time=cuts)
    slow = consumer()
    for delivery in deliveries:
        slow._take_frame(delivery.frame(), 0, len(delivery.frame()), 0)
    assert fast.ledger.ranges() == slow.ledger.ranges()
    assert fast.output() == slow.output()
    assert fast.delivery_count == slow.delivery_count


def test_a_message_in_several_frames_is_put_together():
    whole = Delivery(7, 0).frame()
    payload = whole[whole.index(BEFORE_BODY) :]
    head = wire.uint(0), wire.uint(7), wire.binary(b"tag"), wire.uint(0), wire.boolean(False)
    pieces = [
        wire.frame(wire.composite(wire.TRANSFER, *head, wire.boolean(True)) + payload[:20]),
        wire.frame(wire.composite(wire.TRANSFER, wire.uint(0)) + payload[20:]),
    ]
    one = consumer()
    for piece in pieces:
        one.transfers(piece, 0, 0)
    assert (one.ledger.total, one.frames, one.delivery_count) == (1, 2, 1)
    assert one.output() == [wire.disposition(7, 7, role=wire.ROLE_RECEIVER)]


def test_an_aborted_message_leaves_nothing_behind():
    head = wire.uint(0), wire.uint(7), wire.binary(b"tag"), wire.uint(0), wire.boolean(False)
    one = consumer()
    one.transfers(wire.frame(wire.composite(wire.TRANSFER, *head, wire.boolean(True)) + b"part"), 0, 0)
    nothing = [wire.NULL] * 3
    aborted = wire.composite(wire.TRANSFER, *head, wire.NULL, *nothing, wire.boolean(True))
    one.transfers(wire.frame(aborted), 0, 0)
    feed(one, [Delivery(8, 0)], at_a_time=1)
    assert (one.ledger.total, one.corrupted) == (1, 0)


def test_more_than_the_link_credit_is_a_violation():
    with pytest.raises(WireError, match="beyond the link credit"):
        feed(consumer(link_credit=5), in_order(6), at_a_time=6)


def test_link_credit_is_topped_up_below_half():
    one = consumer(link_credit=200)
    feed(one, in_order(100), at_a_time=10)
    assert (one.top_up(), one.link_credit) == (None, 100)
    feed(one, [Delivery(1100, 100)], at_a_time=1)
    assert one.top_up() == 200


def test_a_link_credit_of_one_is_topped_up_when_used():
    one = consumer(link_credit=1)
    assert one.top_up() is None
    feed(one, in_order(1), at_a_time=1)
    assert one.top_up() == 1


def test_bulk_settles_ranges_and_unbatched_each():
    deliveries = [*in_order(3), Delivery(1005, 3)]
    bulk = feed(consumer(), deliveries, at_a_time=4).output()
    assert bulk == [
        wire.disposition(1000, 1002, role=wire.ROLE_RECEIVER),
        wire.disposition(1005, 1005, role=wire.ROLE_RECEIVER),
    ]
    single = feed(consumer(shape="unbatched"), deliveries, at_a_time=4).output()
    assert len(single) == 4
    for piece, delivery_id in zip(single, (1000, 1001, 1002, 1005), strict=True):
        frame = wire.decode_frame(piece, 0, len(piece))
        assert frame is not None
        assert frame.fields[:4] == [wire.ROLE_RECEIVER, delivery_id, None, True]
        assert frame.field(4) == wire.DescribedValue(wire.ACCEPTED, [])


def test_settled_deliveries_are_not_settled_again():
    assert feed(consumer(), in_order(50, settled=True), at_a_time=50).output() == []


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_latency_counts_from_the_intended_time(at_a_time):
    one = consumer(traffic=STAMPED)
    feed(one, in_order(100, stamp=5_000_000), at_a_time=at_a_time, now_ns=12_000_000)
    assert one.latency.get_total_count() == 100
    assert one.latency.get_value_at_percentile(99) == pytest.approx(7_000, rel=0.01)
