"""Acknowledgements in runs have the same effect as their frames one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.ack_run import RANGES_MAX, AckRun, parse
from core.amqp091.codec import decode_method
from core.amqp091.framing import FrameType, encode_frame, method_frame, read_frame
from core.amqp091.methods import BasicAck, BasicReject

FRAME_MAX = 4096
ACK_BYTES = 21


def acks(*tags: int, channel: int = 1) -> bytes:
    """One frame for each tag; a negative tag sets ``multiple``."""
    return b"".join(method_frame(channel, BasicAck(delivery_tag=abs(tag), multiple=tag < 0)) for tag in tags)


ALL = method_frame(1, BasicAck(delivery_tag=0, multiple=True))


def run_of(data: bytes) -> AckRun | None:
    return parse(data, 0, len(data))


@pytest.mark.parametrize(
    ("tags", "ranges"),
    [
        ([5], [(5, 5)]),
        (range(1, 301), [(1, 300)]),
        ([1, 2, 4, 5, 3], [(1, 2), (4, 5), (3, 3)]),
        ([3, 2, 1], [(3, 3), (2, 2), (1, 1)]),
        ([2, 2], [(2, 2), (2, 2)]),
        ([1, -2, 3], [(1, 1), (0, 2), (3, 3)]),
        ([-1, -2], [(0, 1), (0, 2)]),
        ([-(2**64 - 1), 2**64 - 1], [(0, 2**64 - 1), (2**64 - 1, 2**64 - 1)]),
    ],
)
def test_adjoining_tags_are_joined_and_the_order_is_kept(tags, ranges):
    data = acks(*tags, channel=65535)
    assert run_of(data) == AckRun(65535, ranges, len(data))


def test_all_of_a_channel():
    assert run_of(acks(1) + ALL + acks(2)) == AckRun(1, [(1, 1), (0, 0), (2, 2)], 3 * ACK_BYTES)


@pytest.mark.parametrize(
    "other",
    [
        acks(4, channel=2),
        acks(0),
        method_frame(1, BasicReject(delivery_tag=4)),
        acks(4)[:-1] + b"\x00",
        acks(4)[:-2] + b"\x02\xce",
        acks(4)[:-1],
        b"\x02" + acks(4)[1:],
    ],
)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 30])
def test_a_run_ends_where_something_differs(n, other):
    run = run_of(acks(*range(1, n + 1)) + other + acks(n + 1))
    if n or other == acks(4, channel=2):
        assert run is not None
        assert run.end_position == (n or 1) * ACK_BYTES
        assert run.ranges == ([(1, n)] if n else [(4, 4)])
    else:
        assert run is None


def test_tag_zero_is_no_part_of_a_range_of_consecutive_ones():
    assert run_of(acks(9, *range(20))) == AckRun(1, [(9, 9)], ACK_BYTES)


@pytest.mark.parametrize("data", [b"", acks(1, channel=0), acks(1)[:20], bytes(21)])
def test_what_is_not_understood_is_declined(data):
    assert run_of(data) is None


def test_nothing_is_read_behind_the_stop():
    data = acks(*range(1, 10))
    for stop in range(len(data)):
        run = parse(data, 0, stop)
        assert (0 if run is None else run.end_position) == stop // ACK_BYTES * ACK_BYTES


tags = st.integers(-9, 9) | st.sampled_from([2**63, -(2**64) + 1])
runs_of_tags = st.tuples(st.integers(1, 9), st.integers(1, 20)).map(lambda pair: list(range(pair[0], sum(pair))))


@given(
    frames=st.lists(
        (tags.map(lambda tag: [tag]) | runs_of_tags).map(lambda some: acks(*some))
        | st.sampled_from([ALL, acks(1, channel=2), method_frame(1, BasicReject(delivery_tag=1))]),
        max_size=12,
    ),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
)
def test_ranges_say_what_the_frames_say(frames, changes):
    broken = bytearray(b"".join(frames))
    for at, value in changes:
        if at < len(broken):
            broken[at] = value
    data = bytes(broken)
    at = 0
    while (run := run_of(data[at:])) is not None:
        said = [
            ("up to", last) if first == 0 else ("one", tag)
            for first, last in run.ranges
            for tag in ([0] if first == 0 else range(first, last + 1))
        ]
        expected = []
        for end in range(at + ACK_BYTES, at + run.end_position + 1, ACK_BYTES):
            frame = read_frame(data, end - ACK_BYTES, FRAME_MAX)
            assert frame is not None
            assert (frame.frame_type, frame.channel, frame.end) == (FrameType.METHOD, run.channel, end)
            ack = decode_method(frame.payload)
            assert isinstance(ack, BasicAck)
            expected.append(("up to" if ack.multiple else "one", ack.delivery_tag))
        assert said == expected
        assert expected
        at += run.end_position


def test_a_frame_of_another_size_is_no_acknowledgement():
    assert run_of(encode_frame(FrameType.METHOD, 1, acks(1)[7:-1] + b"\x00")) is None


def test_a_run_ends_where_it_would_be_too_many_ranges():
    apart = acks(*range(1, 2000, 2))
    run = run_of(apart)
    assert run is not None
    assert len(run.ranges) == RANGES_MAX
    assert run.end_position == RANGES_MAX * ACK_BYTES
    rest = run_of(apart[run.end_position :])
    assert rest is not None
    assert rest.ranges[0] == (2 * RANGES_MAX + 1, 2 * RANGES_MAX + 1)
