"""Delivery frames in runs are byte for byte those of the generic codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.content import entry_of
from core.amqp091.deliver_run import PACKED_MIN, encode_by_keys, encode_each, encode_run
from core.amqp091.errors import Amqp091EncodeError
from core.amqp091.framing import content_frames, method_frame
from core.amqp091.methods import BasicDeliver
from core.amqp091.properties import BasicProperties, encode_properties

FRAME_MAX = 64
PROPERTIES = [
    encode_properties(BasicProperties()),
    encode_properties(BasicProperties(delivery_mode=2)),
    encode_properties(BasicProperties(delivery_mode=1)),
    encode_properties(BasicProperties(headers={"h": "x" * 100})),
]
names = st.sampled_from(["", "q", "é", "x" * 255])
payload_max = FRAME_MAX - 8
bodies = st.integers(0, 5).map(bytes) | st.sampled_from(
    [bytes(n * payload_max + more) for n in (1, 2, 3) for more in (-1, 0, 1)]
)
entries = st.builds(entry_of, st.sampled_from(PROPERTIES), bodies)


def one_by_one(
    channel: int,
    consumer_tag: str,
    first_delivery_tag: int,
    redelivered: bool,
    exchange: str,
    routing_key: str,
    entries: list[bytes],
    frame_max: int,
) -> bytes:
    frames = []
    for tag, entry in enumerate(entries, first_delivery_tag):
        deliver = BasicDeliver(
            consumer_tag=consumer_tag,
            delivery_tag=tag,
            redelivered=redelivered,
            exchange=exchange,
            routing_key=routing_key,
        )
        frames += [method_frame(channel, deliver), content_frames(channel, entry, frame_max)]
    return b"".join(frames)


@given(
    channel=st.sampled_from([1, 65535]),
    consumer_tag=names,
    tag=st.sampled_from([1, 255, 2**32 - 1, 2**63]),
    redelivered=st.booleans(),
    exchange=names,
    key=names,
    entries=st.lists(st.tuples(entries, st.integers(1, 3))).map(lambda some: [e for e, n in some for _ in range(n)]),
)
def test_the_same_bytes_as_one_by_one(channel, consumer_tag, tag, redelivered, exchange, key, entries):
    arguments = channel, consumer_tag, tag, redelivered, exchange, key, entries, FRAME_MAX
    assert b"".join(encode_run(*arguments)) == one_by_one(*arguments)


@given(
    tag=st.sampled_from([1, 255, 2**63]),
    redelivered=st.booleans(),
    some=st.lists(st.tuples(st.tuples(names, names), entries), max_size=6),
)
def test_messages_with_names_of_their_own_have_the_same_bytes_as_one_by_one(tag, redelivered, some):
    expected = [
        one_by_one(1, "ctag", tag + place, redelivered, exchange, key, [entry], FRAME_MAX)
        for place, ((exchange, key), entry) in enumerate(some)
    ]
    theirs, its_entries = [name for name, _ in some], [entry for _, entry in some]
    encoded = encode_each(1, "ctag", tag, redelivered, theirs, its_entries, FRAME_MAX)
    assert b"".join(encoded) == b"".join(expected)


@pytest.mark.parametrize("body", [b"", b"x" * 12, b"x" * payload_max, b"x" * (payload_max + 1)])
@pytest.mark.parametrize("other", [None, 0, PACKED_MIN - 1])
@pytest.mark.parametrize("count", [PACKED_MIN - 1, PACKED_MIN, 3 * PACKED_MIN])
def test_many_like_messages_and_one_that_differs_have_the_same_bytes_as_one_by_one(body, other, count):
    some = [entry_of(PROPERTIES[1], body)] * count
    for properties, its_body in ((PROPERTIES[2], body), (PROPERTIES[1], body + b"y"), (PROPERTIES[1], b"")):
        if other is not None and other < count:
            some[other] = entry_of(properties, its_body)
        arguments = 65535, "ctag", 2**32 - 10, True, "e", "q", some, FRAME_MAX
        assert b"".join(encode_run(*arguments)) == one_by_one(*arguments)


def test_headers_of_one_length_that_differ_are_not_mixed_up():
    some = [entry_of(properties, b"body") for properties in PROPERTIES[1:3] for _ in range(2)]
    arguments = 1, "ctag", 1, False, "", "q", some, FRAME_MAX
    assert b"".join(encode_run(*arguments)) == one_by_one(*arguments)


@pytest.mark.parametrize("frame_max", [FRAME_MAX, 2**20])
@pytest.mark.parametrize("names_of_their_own", [True, False])
def test_large_messages_are_not_copied(frame_max, names_of_their_own):
    large, small = entry_of(PROPERTIES[1], b"x" * 100_000), entry_of(PROPERTIES[1], b"y")
    if names_of_their_own:
        encoded = encode_each(1, "ctag", 1, False, [("", "q")] * 3, [large, small, large], frame_max)
    else:
        encoded = encode_run(1, "ctag", 1, False, "", "q", [large, small, large], frame_max)
    assert b"".join(encoded) == one_by_one(1, "ctag", 1, False, "", "q", [large, small, large], frame_max)
    assert sum(len(piece) for piece in encoded if isinstance(piece, memoryview) and piece.obj is large) == 200_000


def test_a_name_that_is_too_long_is_refused():
    with pytest.raises(Amqp091EncodeError):
        encode_run(1, "ctag", 1, False, "", "q" * 256, [entry_of(PROPERTIES[0], b"")], FRAME_MAX)


@given(
    some=st.lists(
        st.tuples(st.sampled_from([b"", b"a", b"bc"]), st.sampled_from([b"", b"x", b"yz"])).map(
            lambda one: entry_of(encode_properties(BasicProperties(message_id=one[0].decode())), one[1])
        ),
        min_size=1,
        max_size=6,
    ),
    one_size=st.sampled_from([None, None, 0, 1]),
)
def test_many_deliveries_with_content_headers_of_their_own(some, one_size):
    """Also of one size in all, but with bodies of different sizes."""
    if one_size is not None:
        some = [entry for entry in some if len(entry) == len(some[0])]
    entries = (some * PACKED_MIN)[: PACKED_MIN + 2]
    arguments = (1, "ctag", 7, True, "e", "key", entries, 4096)
    assert b"".join(encode_run(*arguments)) == one_by_one(*arguments)


@given(
    some=st.lists(entries, min_size=1, max_size=3),
    keys=st.lists(names, min_size=1, max_size=3),
    exchange=names,
    tag=st.sampled_from([1, 255, 2**63]),
    redelivered=st.booleans(),
    one_size=st.booleans(),
    count=st.sampled_from([1, PACKED_MIN, PACKED_MIN + 2]),
)
def test_many_deliveries_with_routing_keys_of_their_own(some, keys, exchange, tag, redelivered, one_size, count):
    if one_size:
        some = [entry for entry in some if len(entry) == len(some[0])]
    some, keys = (some * count)[:count], (keys * count)[:count]
    expected = [
        one_by_one(7, "ctag", tag + place, redelivered, exchange, key, [entry], FRAME_MAX)
        for place, (key, entry) in enumerate(zip(keys, some, strict=True))
    ]
    assert b"".join(encode_by_keys(7, "ctag", tag, redelivered, exchange, keys, some, FRAME_MAX)) == b"".join(expected)
