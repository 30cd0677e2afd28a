"""What the broker needs of property lists, against the generic codec, on lists of every kind: like, unlike, broken."""

import string
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from core.amqp091.properties import BasicProperties, encode_properties
from core.amqp091.property_layout import (
    LAYOUTS_MAX,
    LAYOUTS_OF_A_SIZE_MAX,
    LIST_BYTES_MAX,
    VALUES_MAX,
    PropertyLists,
    needed_of,
)
from core.amqp091.table import Amqp091Timestamp, OpaqueString

texts = st.text(string.ascii_letters + "é", max_size=3)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=3)
    | st.builds(Amqp091Timestamp, st.integers(0, 2**63))
    | st.builds(OpaqueString, st.just(b"\\xff\\xfe"))
    | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
keys = st.lists(texts, max_size=2)
headers = st.dictionaries(st.sampled_from(["a", "b", "CC", "BCC", "é"]), values | keys, max_size=4)
lists = st.builds(
    BasicProperties,
    content_type=st.none() | texts,
    headers=st.none() | headers,
    delivery_mode=st.sampled_from([None, 1, 2]),
    priority=st.sampled_from([None, 0, 9]),
    correlation_id=st.none() | texts,
    reply_to=st.sampled_from([None, "q", "r"]),
    expiration=st.sampled_from([None, "5", "9", "60"]),
    message_id=st.none() | texts,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    user_id=st.sampled_from([None, "guest", "other"]),
    app_id=st.none() | texts,
)


@given(some=st.lists(lists.map(encode_properties), min_size=1, max_size=8), again=st.integers(1, 2))
def test_lists_of_any_kind_have_what_is_needed(some: list[bytes], again: int):
    remembering = PropertyLists()
    for properties in some * again:
        needed = needed_of(properties)
        assert needed is not None
        assert remembering.needed(properties) == needed


@given(
    properties=lists.map(encode_properties),
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), min_size=1, max_size=3),
)
@example(properties=encode_properties(BasicProperties(message_id="ab")), changes=[(3, 0xFF)])
@example(properties=encode_properties(BasicProperties(headers={"ab": 1, "cd": 1})), changes=[(7, ord("c"))])
def test_a_list_with_other_bytes_is_what_the_generic_codec_says(properties: bytes, changes: list[tuple[int, int]]):
    """Any byte may differ from those of a list whose layout is known."""
    remembering = PropertyLists()
    remembering.needed(properties)
    broken = bytearray(properties)
    for at, value in changes:
        broken[at % len(broken)] = value
    assert remembering.needed(bytes(broken)) == needed_of(bytes(broken))


def test_every_other_byte_in_turn():
    properties = encode_properties(
        BasicProperties(
            content_type="a/b", priority=3, reply_to="q", expiration="77", message_id="id", timestamp=5,
            headers={"n": 1, "s": "x", "CC": ["k"], "t": True, "f": 0.5, "v": None, "a": [1], "d": {"e": "f"}},
        )
    )  # fmt: skip
    remembering = PropertyLists()
    remembering.needed(properties)
    for at in range(len(properties)):
        for value in (0, 1, 0x7F, 0xFF, properties[at] ^ 1, properties[at] ^ 0x80):
            other = properties[:at] + bytes((value,)) + properties[at + 1 :]
            assert remembering.needed(other) == needed_of(other)


def test_a_known_layout_is_not_decoded_again():
    remembering = PropertyLists()
    some = [
        encode_properties(BasicProperties(message_id=f"{i:03}", priority=i % 10, headers={"n": i})) for i in range(500)
    ]
    first = len(some[0])
    parts = [remembering.needed(properties) for properties in some]
    assert remembering.decoded_bytes == first
    assert parts == [encode_properties(BasicProperties(priority=i % 10)) for i in range(500)]
    assert len({id(part) for part in parts}) == 10, "equal parts are one object"


def test_what_is_remembered_is_bounded():
    remembering = PropertyLists()
    for i in range(3 * LAYOUTS_MAX):
        for mark in range(2 * LAYOUTS_OF_A_SIZE_MAX):
            remembering.needed(encode_properties(BasicProperties(headers={f"{mark}{'x' * (i % 200)}": 1})))
    layouts = list(remembering._layouts.values())
    assert sum(map(len, layouts)) <= LAYOUTS_MAX
    assert max(map(len, layouts)) <= LAYOUTS_OF_A_SIZE_MAX
    for i in range(3 * VALUES_MAX):
        remembering.needed(encode_properties(BasicProperties(expiration=f"{i:05}")))
        remembering.needed(encode_properties(BasicProperties(reply_to=f"{i:05}")))
    assert len(remembering._parts) <= VALUES_MAX
    assert all(len(layout.known) <= VALUES_MAX for some in remembering._layouts.values() for layout in some)


def test_no_layout_is_learned_from_a_long_list():
    remembering = PropertyLists()
    for i in range(3):
        properties = encode_properties(BasicProperties(headers={"h": "x" * LIST_BYTES_MAX, "n": i}))
        before = remembering.decoded_bytes
        assert remembering.needed(properties) == needed_of(properties)
        assert remembering.decoded_bytes == before + len(properties)
