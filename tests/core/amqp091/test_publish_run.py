"""The fast path against the generic codec, on publishes of every kind: whole, mixed, cut and broken."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.amqp091.codec import decode_method
from core.amqp091.content import entry_of
from core.amqp091.framing import FrameType, encode_frame, method_frame, read_frame
from core.amqp091.methods import BasicAck, BasicPublish
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from core.amqp091.property_layout import needed_of
from core.amqp091.publish_run import (
    DECODED_BYTES_A_UNIT,
    PROPERTY_BYTES_MAX,
    SINGLE_WORK,
    SINGLES_MAX,
    PublishRun,
    PublishRunParser,
)
from core.message import each_of

FRAME_MAX = 4096
BODY_MAX = 1000
PUBLISHES_MAX = 1000
NO_PROPERTIES = encode_properties(BasicProperties())
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
HEADERS = encode_properties(BasicProperties(content_type="text/plain", headers={"n": 1, "s": "text"}))


def parser(*, frame_max: int = FRAME_MAX, body_max: int = BODY_MAX) -> PublishRunParser:
    return PublishRunParser(frame_max=frame_max, body_max=body_max)


class Taken(NamedTuple):
    """What a parser has taken of some bytes."""

    runs: list[PublishRun]
    end: int

    @property
    def entries(self) -> list[bytes]:
        return [entry for run in self.runs for entry in run.entries]


def parse(data: bytes, publishes_max: int = PUBLISHES_MAX, by: PublishRunParser | None = None) -> Taken:
    return Taken(*(by or parser()).parse(data, 0, len(data), publishes_max))


def content(channel: int, properties: bytes, *pieces: bytes, weight: int = 0, class_id: int = 60) -> bytes:
    header = class_id.to_bytes(2) + weight.to_bytes(2) + len(b"".join(pieces)).to_bytes(8) + properties
    frames = [encode_frame(FrameType.BODY, channel, piece) for piece in pieces]
    return b"".join((encode_frame(FrameType.HEADER, channel, header), *frames))


def publish(
    *pieces: bytes, channel: int = 1, exchange: str = "", routing_key: str = "q", properties: bytes = PERSISTENT, **bits
) -> bytes:
    method = BasicPublish(exchange=exchange, routing_key=routing_key, **bits)
    return method_frame(channel, method) + content(channel, properties, *pieces)


class Message(NamedTuple):
    """A message as the generic codec reads it."""

    channel: int
    method: BasicPublish
    properties: bytes
    entry: bytes
    end: int


def read(data: bytes, position: int) -> Message:
    """Read the message at a position, frame by frame. A message that cannot be read fails the test."""

    def frame_at(at: int, frame_type: FrameType):
        frame = read_frame(data, at, FRAME_MAX)
        assert frame is not None
        assert frame.frame_type == frame_type
        return frame

    frame = frame_at(position, FrameType.METHOD)
    channel, end = frame.channel, frame.end
    assert channel > 0
    method = decode_method(frame.payload)
    assert isinstance(method, BasicPublish)
    assert not method.immediate
    frame = frame_at(end, FrameType.HEADER)
    assert frame.channel == channel
    assert frame.payload[:4] == b"\x00\x3c\x00\x00"
    body_size = int.from_bytes(frame.payload[4:12])
    assert body_size <= BODY_MAX
    properties = frame.payload[12:]
    decode_properties(properties, 0, len(properties))
    body, end = b"", frame.end
    while len(body) < body_size:
        frame = frame_at(end, FrameType.BODY)
        assert frame.channel == channel
        assert frame.payload
        body, end = body + frame.payload, frame.end
    assert len(body) == body_size
    return Message(channel, method, properties, entry_of(properties, body), end)


def agrees(taken: Taken, data: bytes, position: int) -> None:
    """Check that every message is what the generic codec reads, and that adjoining runs go to different exchanges."""
    channel = int.from_bytes(data[position + 1 : position + 3])
    for run in taken.runs:
        count = len(run.entries)
        assert count
        each = zip(run.entries, each_of(run.routing_key, count), each_of(run.needed, count), strict=True)
        for entry, routing_key, needed in each:
            message = read(data, position)
            assert message.channel == channel
            assert (message.method.exchange, message.method.routing_key) == (run.exchange, routing_key)
            assert message.method.mandatory is run.mandatory
            assert needed == needed_of(message.properties)
            assert message.entry == entry
            position = message.end
    assert taken.end == position
    places = [(run.exchange, run.mandatory) for run in taken.runs]
    assert all(before != behind for before, behind in pairwise(places)), "two runs where there is one"


# --- what the fast path takes --------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [NO_PROPERTIES, PERSISTENT, HEADERS])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 300])
@pytest.mark.parametrize("body", [b"", b"x", b"Hello, world", b"\xce" * 300])
def test_like_publishes_are_one_run(body, n, properties):
    data = publish(*filter(None, [body]), channel=7, exchange="e", mandatory=True, properties=properties) * n
    runs, end = parse(data)
    assert runs == [PublishRun("e", "q", True, needed_of(properties), [entry_of(properties, body)] * n)]
    assert end == len(data)


def test_bodies_of_different_sizes_are_one_run():
    bodies = [b"x" * (1 + i * 37 % 240) for i in range(200)]
    data = b"".join(map(publish, bodies))
    [run], end = parse(data)
    assert run.entries == [entry_of(PERSISTENT, body) for body in bodies]
    assert end == len(data)


@pytest.mark.parametrize(
    "other",
    [
        publish(b"body", channel=2),
        publish(b"body", exchange="e"),
        publish(b"body", routing_key="r"),
        publish(b"body", properties=NO_PROPERTIES),
        publish(b"body", properties=encode_properties(BasicProperties(delivery_mode=1))),
        publish(b"body", mandatory=True),
        publish(b"body", immediate=True),
        publish(b"bo", b"dy"),
        method_frame(1, BasicAck(delivery_tag=1)),
        encode_frame(FrameType.BODY, 1, b""),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_like_messages_with_another_one_between_them(n, other):
    alike = publish(b"body") * n
    taken = parse(alike + other + alike)
    agrees(taken, alike + other + alike, 0)
    understood_too = other[:3] == alike[:3] and decoded_by_the_fast_path(other)
    assert taken.end == (len(alike + other + alike) if understood_too else len(alike))


def decoded_by_the_fast_path(message: bytes) -> bool:
    return parse(message).end == len(message)


def test_unlike_messages_are_one_run_in_their_order_up_to_a_number():
    messages = [publish(b"x" * (1 + i % 5), routing_key=f"k{i % 7}") for i in range(SINGLES_MAX + 5)]
    data = b"".join(messages)
    taken = parse(data)
    agrees(taken, data, 0)
    [run] = taken.runs
    assert run.routing_key == [f"k{i % 7}" for i in range(SINGLES_MAX)]
    assert run.needed == PERSISTENT
    assert taken.end == len(b"".join(messages[:SINGLES_MAX]))
    assert len(parse(data, 10).entries) == 10


def test_messages_with_properties_of_their_own_are_one_run():
    lists = [BasicProperties(message_id=f"{i:04}", priority=i % 3, headers={"n": i, "s": f"{i:03}"}) for i in range(99)]
    data = b"".join(publish(b"body", properties=encode_properties(properties)) for properties in lists)
    taken = parse(data)
    agrees(taken, data, 0)
    [run] = taken.runs
    assert run.needed == [encode_properties(BasicProperties(priority=i % 3)) for i in range(99)]
    assert (run.routing_key, taken.end) == ("q", len(data))


def test_what_the_broker_needs_is_one_value_where_only_the_rest_differs():
    lists = [BasicProperties(message_id="x" * (1 + i % 5), delivery_mode=2, timestamp=i) for i in range(50)]
    [run], _ = parse(b"".join(publish(properties=encode_properties(properties)) for properties in lists))
    assert run.needed == PERSISTENT


def test_unlike_messages_are_no_more_than_asked_for_and_end_behind_a_long_property_list():
    data = b"".join(publish(b"x" * (1 + i), routing_key=f"k{i}") for i in range(5))
    taken = [Taken(*parser().parse(data, 0, len(data), PUBLISHES_MAX, singles_max)) for singles_max in (1, 3, 9)]
    assert [len(some.entries) for some in taken] == [1, 3, 5]
    long = encode_properties(BasicProperties(headers={"h": "x" * PROPERTY_BYTES_MAX}))
    first = publish(b"x", properties=long)
    _, end = parser(frame_max=2 * PROPERTY_BYTES_MAX).parse(first + data, 0, len(first + data), PUBLISHES_MAX)
    assert end == len(first)


def test_messages_with_and_without_a_body_are_one_run():
    data = publish() + publish(b"x") * 2 + publish()
    [run], _ = parse(data)
    assert [len(entry) - len(run.entries[0]) for entry in run.entries] == [0, 1, 1, 0]


def test_messages_of_another_channel_are_left():
    data = publish(b"a", channel=1, routing_key="a") + publish(b"b", channel=2, routing_key="b")
    assert parse(data).end == len(publish(b"a", channel=1, routing_key="a"))


@pytest.mark.parametrize("size", [0, 12])
@pytest.mark.parametrize("publishes_max", [1, 2, 3, 5, 99, 100, 101])
def test_never_more_than_asked_for(publishes_max, size):
    data = publish(*filter(None, [b"x" * size])) * 100
    taken = parse(data, publishes_max)
    assert len(taken.entries) == min(publishes_max, 100)
    agrees(taken, data, 0)


# --- what it declines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        publish(b"body", immediate=True),
        publish(b"body", channel=0),
        publish(b"bo", b"dy"),
        publish(b"x" * (BODY_MAX + 1)),
        publish(b"body", properties=b"\x00\x01\x00\x00"),
        publish(b"body", properties=b"\x00\x02"),
        publish(b"body", properties=b"\x10\x00"),
        publish(b"body", properties=PERSISTENT + b"\x00"),
        method_frame(1, BasicPublish()) + content(2, PERSISTENT, b"body"),
        method_frame(1, BasicPublish()) + content(1, PERSISTENT, b"body", weight=1),
        method_frame(1, BasicPublish()) + content(1, PERSISTENT, b"body", class_id=50),
        method_frame(1, BasicPublish()) * 2,
        encode_frame(FrameType.METHOD, 1, b"\x00\x3c\x00\x28\x00\x00\xff\x00\x00") + content(1, PERSISTENT, b"body"),
        encode_frame(FrameType.METHOD, 1, b"\x00\x3c\x00\x28\x00\x00\x00\x00\x00\x00")
        + content(1, PERSISTENT, b"body"),
        encode_frame(FrameType.METHOD, 1, b"\x00\x3c\x00\x28\x00\x00\x00\x00") + content(1, PERSISTENT, b"body"),
        encode_frame(FrameType.METHOD, 1, b"\x00\x3c\x00\x28") + content(1, PERSISTENT, b"body"),
        b"\x01\x00\x01\xff\xff\xff\xff" + bytes(100),
        bytes(100),
        b"",
    ],
)
def test_what_is_not_understood_is_declined(data):
    assert parse(data) == ([], 0)


def test_a_content_header_without_flags_is_declined():
    for flags in (b"", b"\x00"):
        assert parse(publish(b"body", properties=flags)) == ([], 0)


def test_frames_above_frame_max_are_declined():
    headers = encode_properties(BasicProperties(headers={"h": "x" * 80}))
    small, large = publish(b"x" * 92), publish(b"x" * 93)
    assert parse(small, by=parser(frame_max=100)).end == len(small)
    assert parse(large, by=parser(frame_max=100)) == ([], 0)
    for data in (publish(b"x", properties=headers), publish(b"x", exchange="e" * 100)):
        assert parse(data, by=parser(frame_max=200)).end == len(data)
        assert parse(data, by=parser(frame_max=100)) == ([], 0)


@pytest.mark.parametrize("body", [b"", b"\xce" * 4])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_part_of_a_message_stays_wherever_the_buffer_is_cut(n, body):
    message = publish(*filter(None, [body]))
    remembering = parser()
    for stop in range((n + 1) * len(message)):
        for data in ((message * (n + 1))[:stop], message * (n + 1) + b"\xce" * 9):
            taken = Taken(*remembering.parse(data, 0, stop, PUBLISHES_MAX))
            assert len(taken.entries) == stop // len(message)


UNLIKE = [
    BasicProperties(message_id=f"{i:02}", priority=i % 3, timestamp=i, headers={"n": i, "s": f"{i:03}", "CC": ["k"]})
    for i in range(12)
]


@pytest.mark.parametrize("each", [[HEADERS] * 5, [encode_properties(properties) for properties in UNLIKE]])
@pytest.mark.parametrize(("body", "keys_max"), [(b"body", 1), (b"", 1), (b"body", 9)])
def test_one_wrong_byte_is_never_overlooked(each, body, keys_max):
    """Each byte of several messages is changed in turn. What is taken is still what the generic codec reads."""
    keys = [f"k{place % keys_max}" for place in range(len(each))]
    messages = [
        publish(*filter(None, [body]), exchange="e", routing_key=key, properties=properties)
        for key, properties in zip(keys, each, strict=True)
    ]
    message, whole = messages[0], b"".join(messages)
    step = 1 if len(messages) == 5 else 7
    assert step == 1 or len(message) % step, "each byte of a message is among those that are changed"
    for at in range(0, len(whole), step):
        for value in (0, 1, 0xFF, whole[at] ^ 1, whole[at] ^ 0x80):
            data = whole[:at] + bytes((value,)) + whole[at + 1 :]
            taken = parse(data)
            assert taken.runs or at < len(message)
            agrees(taken, data, 0)


# --- any bytes ---------------------------------------------------------------------------------------------------

names = st.sampled_from(["", "q", "queue-1", "é"])
pieces = st.sampled_from([b"", b"x", b"y", b"four", b"\xce\x01\x00", b"x" * 100, b"x" * BODY_MAX])
property_lists = st.builds(
    lambda *values: encode_properties(
        BasicProperties(**dict(zip(("message_id", "priority", "expiration", "headers"), values, strict=True)))
    ),
    st.sampled_from([None, "1", "2", "22", "é"]),
    st.sampled_from([None, 0, 9]),
    st.sampled_from([None, "5", "60", "61"]),
    st.none() | st.fixed_dictionaries({"n": st.integers(0, 9), "s": st.sampled_from(["a", "b", "ab"])}),
)
understood = st.builds(
    lambda body, channel, exchange, key, properties, mandatory: publish(
        *filter(None, [body]),
        channel=channel,
        exchange=exchange,
        routing_key=key,
        properties=properties,
        mandatory=mandatory,
    ),
    pieces,
    st.sampled_from([1, 2, 65535]),
    names,
    names,
    st.sampled_from([NO_PROPERTIES, PERSISTENT, HEADERS]) | property_lists,
    st.booleans(),
)
others = st.one_of(
    st.builds(publish, pieces, pieces, immediate=st.booleans(), channel=st.sampled_from([0, 1])),
    st.builds(publish, pieces, properties=st.binary(max_size=6)),
    st.builds(method_frame, st.just(1), st.builds(BasicAck, delivery_tag=st.integers(0, 9))),
    st.binary(max_size=12),
)


def repeated(messages: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[bytes]]:
    groups = st.lists(st.tuples(messages, st.sampled_from([1, 1, 2, 3, 9])), max_size=5)
    return groups.map(lambda pairs: [message for message, n in pairs for _ in range(n)])


@given(messages=repeated(understood))
def test_everything_that_is_understood_is_taken_in_the_longest_runs(messages):
    data = b"".join(messages)
    remembering = parser()
    position = 0
    while position < len(data):
        taken = Taken(*remembering.parse(data, position, len(data), PUBLISHES_MAX))
        assert taken.runs
        agrees(taken, data, position)
        assert taken.end == len(data) or data[taken.end + 1 : taken.end + 3] != data[position + 1 : position + 3]
        position = taken.end


column_values = st.tuples(
    st.text("abé\x00", min_size=2, max_size=2),
    st.sampled_from([0, 1, 9]),
    st.integers(0, 99),
    st.text("xé", max_size=2),
)


@given(
    some=st.lists(column_values, min_size=1, max_size=40),
    bodies=st.lists(st.sampled_from([b"four", b"four", b"body", b"", b"other"]), min_size=1, max_size=5),
    keys=st.lists(st.sampled_from(["a", "b", "c", "é", "cc"]), min_size=1, max_size=5),
    publishes_max=st.integers(1, 50),
)
def test_values_in_the_same_places(some, bodies, keys, publishes_max):
    """Messages of which many have one size and one layout, so that they are compared in columns."""
    data = b"".join(
        publish(
            *filter(None, [bodies[place % len(bodies)]]),
            exchange="é",
            routing_key=keys[place % len(keys)],
            properties=encode_properties(
                BasicProperties(message_id=text, priority=priority, headers={"n": number, "s": header})
            ),
        )
        for place, (text, priority, number, header) in enumerate(some)
    )
    remembering = parser()
    position = 0
    while position < len(data):
        taken = Taken(*remembering.parse(data, position, len(data), publishes_max))
        agrees(taken, data, position)
        assert 0 < len(taken.entries) <= publishes_max
        position = taken.end


def test_columns_are_used_where_values_differ_and_given_up_where_they_are_of_no_use():
    """The properties are decoded once; all messages behind the first ones are taken together, four for one alone."""
    lists = [encode_properties(BasicProperties(message_id=f"{i:04}")) for i in range(900)]
    data = b"".join(publish(b"body", properties=properties) for properties in lists)
    [run], end = Taken(*parser().parse(data, 0, len(data), PUBLISHES_MAX, SINGLES_MAX))
    assert (end, len(run.entries), run.needed) == (len(data), 900, NO_PROPERTIES)
    data = b"".join(publish(b"body", routing_key=f"k{i:04}") for i in range(900))
    [run], end = Taken(*parser().parse(data, 0, len(data), PUBLISHES_MAX, SINGLES_MAX))
    assert (end, run.needed, run.routing_key) == (len(data), PERSISTENT, [f"k{i:04}" for i in range(900)])
    foreign = [encode_properties(BasicProperties(message_id=f"é{i:04}")) for i in range(900)]
    data = b"".join(publish(b"body", properties=properties) for properties in foreign)
    taken = Taken(*parser().parse(data, 0, len(data), PUBLISHES_MAX, 100))
    assert len(taken.entries) == 100, "one by one"
    agrees(taken, data, 0)


def test_unlike_messages_and_long_property_lists_cost_work():
    remembering, alike = parser(frame_max=131_072), publish(b"x") * 900
    remembering.parse(alike, 0, len(alike), PUBLISHES_MAX)
    assert remembering.work_done <= 2 * SINGLE_WORK, "like messages cost none"
    before = remembering.work_done
    unlike = b"".join(publish(b"x" * (1 + i % 5), routing_key=f"k{i}") for i in range(100))
    remembering.parse(unlike, 0, len(unlike), PUBLISHES_MAX)
    assert remembering.work_done - before == 100 * SINGLE_WORK
    before = remembering.work_done
    properties = encode_properties(BasicProperties(headers={"CC": [f"key-{i}" for i in range(1000)]}))
    long = publish(b"x", properties=properties)
    remembering.parse(long, 0, len(long), PUBLISHES_MAX)
    assert remembering.work_done - before == SINGLE_WORK + len(properties) // DECODED_BYTES_A_UNIT


@given(
    messages=repeated(understood | others),
    cut=st.integers(0, 60),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=2),
    position=st.integers(0, 50) | st.just(0),
)
@example(messages=[publish(b"x")] * 3, cut=0, changes=[(len(publish(b"x")) * 2 - 1, 0)], position=0)
def test_whatever_comes_is_taken_as_the_generic_codec_takes_it_or_declined(messages, cut, changes, position):
    broken = bytearray(b"".join(messages))
    for at, value in changes:
        if at < len(broken):
            broken[at] = value
    data = bytes(broken)
    stop = max(0, len(data) - cut)
    remembering = parser()
    for start in (position, *range(0, len(data), 61), 0):
        at: int = start
        while (taken := Taken(*remembering.parse(data, at, stop, PUBLISHES_MAX))).runs:
            agrees(taken, data[:stop], at)
            at = taken.end
