"""The consumers' checks of unlike messages: a value that is not as it was sent, and a message that is missing, doubled
or out of order, are noticed in both protocols, on the fast paths and on the slow one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load import wire
from amqp10.load.amqp091 import wire as wire091
from amqp10.load.amqp091.consumer import ChannelConsumer
from amqp10.load.consumer import LinkConsumer
from amqp10.load.content import values_of
from amqp10.load.delivery import BLOCK, FEW, spans_of
from amqp10.load.ledger import LedgerVerdict, judge
from amqp10.load.messages import NumberedMessages
from amqp10.load.plan import Application, PlannedTraffic, routing_key
from amqp10.load.publisher import message_unit, sections_before_body
from core.amqp091.content import entry_of
from core.amqp091.deliver_run import encode_run

THROUGH_EXCHANGE = Application(publisher=1, exchange="x")
TRAFFICS = {
    "ids": PlannedTraffic(content="ids"),
    "properties": PlannedTraffic(content="properties"),
    "priorities": PlannedTraffic(content="priorities", size=40),
    "keys": PlannedTraffic(keys=7),
    "everything": PlannedTraffic(content="priorities", keys=100, sizes=(12, 60)),
}
COUNT = 3 * BLOCK
DAMAGED = 70
AT_A_TIME = [1, FEW - 1, 100]


def deliveries10(traffic, sequences, damage=None):
    """Transfer frames as a broker would send them; `damage` changes a byte of a value of message 70."""
    units = [message_unit(THROUGH_EXCHANGE, traffic, 131072, turn=turn) for turn in range(len(traffic.sizes_in_turn))]
    messages, frames = NumberedMessages(units, traffic), []
    for delivery_id, sequence in enumerate(sequences, start=1000):
        [view] = messages.write(range(sequence, sequence + 1), lambda _: 0, first_id=delivery_id)
        frame = bytearray(view)
        places = {place.name: place for place in units[sequence % len(units)].places}
        if damage is not None and sequence == DAMAGED:
            frame[places[damage].end - 1] ^= 1
        frames.append(bytes(frame))
    return frames


def deliveries091(traffic, sequences, damage=None):
    values, frames = values_of(traffic), []
    for tag, sequence in enumerate(sequences, start=1):
        value = {name: one.raw(1, sequence) for name, one in values.items()}
        if damage is not None and sequence == DAMAGED:
            value[damage] = value[damage][:-1] + bytes([value[damage][-1] ^ 1])
        properties = wire091.properties(persistent=False, value=value)
        entry = entry_of(properties, struct.pack(">IQ", 1, sequence) + traffic.padding(sequence))
        key = value.get("key", b"q").decode()
        frames += encode_run(2, "c", tag, False, "x", key, [entry], 131072)
    return frames


def feed10(traffic, frames, at_a_time):
    one = LinkConsumer(traffic, 10_000)
    one.start(0)
    one.top_up()
    for first in range(0, len(frames), at_a_time):
        data, at = b"".join(frames[first : first + at_a_time]), 0
        while at < len(data):
            at = one.transfers(data, at, 0)
    return one


def feed091(traffic, frames, at_a_time):
    one = ChannelConsumer(traffic, channel=2, queue="q", prefetch_count=0)
    one.start(0)
    for first in range(0, len(frames), at_a_time):
        data, at = b"".join(frames[first : first + at_a_time]), 0
        while at < len(data):
            at = one.deliveries(data, at, 0)
    return one


PROTOCOLS = {"1.0": (deliveries10, feed10), "0.9.1": (deliveries091, feed091)}


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("traffic", TRAFFICS.values(), ids=TRAFFICS)
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
def test_the_ledger_sees_the_fate_of_unlike_messages(traffic, protocol, at_a_time, change, verdict):
    made, fed = PROTOCOLS[protocol]
    one = fed(traffic, made(traffic, change(list(range(COUNT)))), at_a_time)
    assert (one.corrupted, judge({1: COUNT}, [one.ledger.ranges()])) == (0, verdict)


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("traffic", "value"),
    [(traffic, value) for traffic in TRAFFICS.values() for value in values_of(traffic)],
    ids=[f"{name}-{value}" for name, traffic in TRAFFICS.items() for value in values_of(traffic)],
)
def test_one_damaged_value_of_one_message_is_noticed(traffic, value, protocol, at_a_time):
    made, fed = PROTOCOLS[protocol]
    one = fed(traffic, made(traffic, range(COUNT), value), at_a_time)
    assert one.corrupted == 1
    assert judge({1: COUNT}, [one.ledger.ranges()]) == LedgerVerdict(lost=1)


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_of_another_message_are_noticed(protocol, at_a_time):
    traffic = TRAFFICS["properties"]
    made, fed = PROTOCOLS[protocol]
    frames = made(traffic, range(COUNT))
    body = struct.pack(">IQ", 1, DAMAGED)
    frames[DAMAGED] = frames[DAMAGED].replace(body, struct.pack(">IQ", 1, COUNT))
    one = fed(traffic, frames, at_a_time)
    assert (one.corrupted, judge({1: COUNT}, [one.ledger.ranges()])) == (1, LedgerVerdict(lost=1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_without_their_values_are_corrupted(protocol):
    made, fed = PROTOCOLS[protocol]
    one = fed(TRAFFICS["ids"], made(PlannedTraffic(), range(20)), 20)
    assert (one.corrupted, one.ledger.total) == (20, 0)


def without_priority(traffic, sequence, delivery_id):
    """A transfer without a header section, as a broker sends a message of the default priority 4."""
    unit = message_unit(THROUGH_EXCHANGE, traffic, 131072)
    [view] = NumberedMessages([unit], traffic).write(range(sequence, sequence + 1), lambda _: 0, first_id=delivery_id)
    frame, payload_at = bytes(view), bytes(view).index(b"\x00\x53\x70")
    short = frame[:payload_at] + frame[wire.skip(frame, payload_at) :]
    return struct.pack(">I", len(short)) + short[4:]


@pytest.mark.parametrize("at_a_time", AT_A_TIME)
def test_the_default_priority_may_be_left_out_and_no_other(at_a_time):
    traffic = TRAFFICS["priorities"]
    frames = deliveries10(traffic, range(COUNT))
    for sequence in range(4, COUNT, 10):
        frames[sequence] = without_priority(traffic, sequence, 1000 + sequence)
    assert feed10(traffic, frames, at_a_time).corrupted == 0
    frames[65] = without_priority(traffic, 65, 1065)
    one = feed10(traffic, frames, at_a_time)
    assert (one.corrupted, judge({1: COUNT}, [one.ledger.ranges()])) == (1, LedgerVerdict(lost=1))


@given(publisher=st.integers(1, 2**32 - 1), first=st.integers(0, 2**32 - 40), step=st.integers(1, 3))
def test_a_column_has_the_bytes_of_each_value(publisher, first, step):
    numbers = range(first, first + 12 * step, step)
    for value in values_of(PlannedTraffic(content="priorities", keys=1234)).values():
        for column in value.columns:
            packed = column.pack([publisher] * len(numbers) if column.of_publisher else numbers)
            part = slice(column.at, column.at + column.width)
            assert packed == b"".join(value.raw(publisher, number)[part] for number in numbers)


def test_a_small_number_in_a_short_encoding_is_the_same_number():
    account = values_of(TRAFFICS["properties"])["account"]
    assert account.equals(b"\x05", 1, 5)
    assert not account.equals(b"\x06", 1, 5)


def test_the_sections_are_those_of_the_specification():
    traffic = PlannedTraffic(content="priorities", keys=2, durable=True)
    data, at, sections = sections_before_body(Application(publisher=2, exchange="x"), traffic, 0), 0, []
    while at < len(data):
        section, at = wire.decode(data, at)
        sections.append(section)
    nothing = [None] * 3
    assert sections == [
        wire.DescribedValue(wire.HEADER, [True, 0]),
        wire.DescribedValue(
            wire.PROPERTIES,
            ["0000000200000000", None, "/exchanges/x/key-00000", *nothing, "application/octet-stream"],
        ),
        wire.DescribedValue(wire.APPLICATION_PROPERTIES, {"order": 2**32, "trace": "00000000", "account": 0}),
        wire.DescribedValue(wire.DATA, b""),
    ]


def test_a_routing_key_among_the_annotations_is_checked_too():
    annotations = wire.map_of(wire.symbol("x-routing-key"), wire.string(routing_key(3)))
    payload = wire.described(wire.MESSAGE_ANNOTATIONS, annotations) + bytes.fromhex("005375 a000")
    [place] = spans_of(payload, 0, values_of(PlannedTraffic(keys=7))).places
    assert (place.name, payload[place.start : place.end]) == ("key", routing_key(3).encode())
