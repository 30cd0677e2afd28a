"""Runs of dispositions against the generic codec, on frames of every shape, whole, mixed and broken."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.errors import ConnectionFault, DecodeError
from amqp10.wire.disposition_run import DispositionRun, DispositionRunParser, encode_disposition
from amqp10.wire.framing import AMQP_FRAME, ReceiveBuffer
from amqp10.wire.messaging import ACCEPTED, RELEASED
from amqp10.wire.performatives import RECEIVER, SENDER, Disposition, decode_performative
from tests.kit import client_frames as kit

ID = b"\x70\x00\x00\x03\xe8"
EMPTY_LISTS = (b"\x45", b"\xc0\x01\x00", b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00")


def parser() -> DispositionRunParser:
    return DispositionRunParser(max_frame_size=512)


def parse(data: bytes, position: int = 0, limit: int = 1000) -> DispositionRun | None:
    return parser().parse(data, position, limit=limit)


def custom(*fields: bytes, channel: int = 0, wide: bool = False, payload: bytes = b"") -> bytes:
    return kit.frame(channel, kit.described_list(kit.DISPOSITION, list(fields), wide=wide) + payload)


def one_each(n: int, *, first: int = 1000, fixed: bool = True, channel: int = 0, wide: bool = False) -> list[bytes]:
    """A disposition for each of n deliveries, settled and accepted."""
    return [
        custom(
            kit.TRUE,
            kit.uint((first + i) % 2**32, fixed=fixed),
            kit.NULL,
            kit.TRUE,
            kit.ACCEPTED,
            channel=channel,
            wide=wide,
        )
        for i in range(n)
    ]


def ranges(*bounds: tuple[int, int]) -> list[bytes]:
    return [
        custom(kit.TRUE, kit.uint(first, fixed=True), kit.uint(last, fixed=True), kit.TRUE, kit.ACCEPTED)
        for first, last in bounds
    ]


# --- frames that it takes -------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("first", [1000, 2**31 - 5, 2**32 - 100])
def test_one_disposition_for_each_message_is_one_range(first, wide):
    data = b"".join(one_each(100, first=first, channel=9, wide=wide))
    run = parse(data)
    assert run == DispositionRun(9, RECEIVER, first, first + 99, True, ACCEPTED, len(data), 100)


def test_ids_of_one_byte_adjoin_too():
    run = parse(b"".join(one_each(255, first=1, fixed=False)))
    assert run is not None
    assert (run.first, run.last, run.frame_count) == (1, 255, 255)


def test_ranges_that_adjoin_are_one():
    run = parse(b"".join(ranges((10, 19), (20, 20), (21, 99), (100, 2**32 - 1))))
    assert run is not None
    assert (run.first, run.last, run.frame_count) == (10, 2**32 - 1, 4)


@pytest.mark.parametrize(
    ("bounds", "last", "frame_count"),
    [
        ([(10, 19), (21, 30)], 19, 1),
        ([(10, 19), (19, 30)], 19, 1),
        ([(10, 19), (5, 6)], 19, 1),
        ([(10, 19), (20, 15)], 19, 1),
        ([(10, 19), (20, 29), (30, 29), (30, 39)], 29, 2),
        ([(10, 11), (12, 13), (14, 15), (16, 17), (19, 20), (21, 22)], 17, 4),
        ([(10, 2**32 - 1), (0, 5)], 2**32 - 1, 1),
    ],
)
def test_a_run_ends_where_ranges_do_not_adjoin(bounds, last, frame_count):
    run = parse(b"".join(ranges(*bounds)))
    assert run is not None
    assert (run.first, run.last, run.frame_count) == (10, last, frame_count)


def test_a_run_does_not_wrap_but_the_next_one_begins_there():
    data = b"".join(one_each(20, first=2**32 - 10))
    runs = parser()
    before = runs.parse(data, 0, limit=100)
    assert before is not None
    assert (before.first, before.last) == (2**32 - 10, 2**32 - 1)
    behind = runs.parse(data, before.end_position, limit=100)
    assert behind is not None
    assert (behind.first, behind.last) == (0, 9)


@pytest.mark.parametrize("empty_list", EMPTY_LISTS)
@pytest.mark.parametrize(("code", "state"), [(0x24, ACCEPTED), (0x26, RELEASED)])
def test_states_in_every_encoding(empty_list, code, state):
    encoded = b"\x00\x53" + bytes((code,)) + empty_list
    run = parse(custom(kit.FALSE, ID, kit.NULL, kit.FALSE, encoded))
    assert run is not None
    assert (run.role, run.settled, run.state) == (SENDER, False, state)


@pytest.mark.parametrize(
    ("fields", "settled"),
    [
        ([], False),
        ([kit.NULL], False),
        ([kit.NULL, kit.NULL], False),
        ([kit.NULL, kit.FALSE], False),
        ([kit.NULL, b"\x56\x00"], False),
        ([kit.NULL, b"\x56\x01"], True),
        ([ID, kit.TRUE, kit.NULL], True),
        ([kit.NULL, kit.TRUE, kit.NULL, kit.TRUE], True),
        ([ID, kit.TRUE, kit.NULL, b"\x56\x00"], True),
    ],
)
def test_fields_left_out_have_their_defaults(fields, settled):
    data = custom(b"\x56\x01", ID, *fields)
    assert parse(data) == DispositionRun(0, RECEIVER, 1000, 1000, settled, None, len(data), 1)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 50])
def test_the_limit_bounds_the_run(limit):
    runs = parser()
    data = b"".join(one_each(50))
    for _ in range(2):
        run = runs.parse(data, 0, limit=limit)
        assert (run.frame_count if run else 0) == limit


def test_an_incomplete_frame_stays():
    data = b"xxx" + b"".join(one_each(3))
    run = parse(data[:-1], 3)
    assert run is not None
    assert (run.first, run.last) == (1000, 1001)
    assert parse(data[:-1], run.end_position) is None
    (one,) = one_each(1)
    runs = parser()
    assert runs.parse(one, 0, limit=1) is not None
    for stop in range(len(one)):
        assert runs.parse(one[:stop], 0, limit=1) is None
        assert parse(one[:stop]) is None


@pytest.mark.parametrize("before", [1, 2, 3, 30])
@pytest.mark.parametrize(
    "odd",
    [
        lambda number: custom(kit.TRUE, number, kit.NULL, kit.TRUE, kit.ACCEPTED, channel=1),
        lambda number: custom(kit.FALSE, number, kit.NULL, kit.TRUE, kit.ACCEPTED),
        lambda number: custom(kit.TRUE, number, kit.NULL, kit.FALSE, kit.ACCEPTED),
        lambda number: custom(kit.TRUE, number, kit.NULL, kit.TRUE, kit.RELEASED),
        lambda number: custom(kit.TRUE, number, kit.NULL, kit.TRUE, b"\x00\x53\x25\x45"),
        lambda number: custom(kit.TRUE, number, number, kit.TRUE, kit.ACCEPTED),
        lambda number: custom(kit.TRUE, number, kit.NULL, kit.TRUE, kit.ACCEPTED, kit.TRUE),
        lambda _: custom(kit.TRUE, ID, kit.NULL, kit.TRUE, kit.ACCEPTED),
    ],
)
def test_a_run_ends_before_a_frame_that_differs(before, odd):
    different = odd(kit.uint(1000 + before, fixed=True))
    data = b"".join([*one_each(before), different, *one_each(3, first=1001 + before)])
    runs = parser()
    for _ in range(3):  # a new shape, a known one, and a known one with a long look ahead
        run = runs.parse(data, 0, limit=1000)
        assert run is not None
        assert (run.first, run.last) == (1000, 999 + before)
        runs.parse(b"".join(one_each(100)), 0, limit=1000)


def test_more_shapes_than_are_remembered():
    runs = parser()
    for channel in [*range(50), *range(50)]:
        run = runs.parse(b"".join(one_each(2, channel=channel)), 0, limit=10)
        assert run is not None
        assert (run.channel, run.first, run.last) == (channel, 1000, 1001)


# --- frames that it declines -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        custom(),
        custom(kit.TRUE),
        custom(kit.NULL, ID),
        custom(b"\x56\x02", ID),
        custom(kit.TRUE, kit.NULL),
        custom(kit.TRUE, b"\x43"),
        custom(kit.TRUE, ID, b"\x43"),
        custom(kit.TRUE, ID, kit.TRUE),
        custom(kit.TRUE, ID, kit.NULL, b"\x56\x02"),
        custom(kit.TRUE, ID, kit.NULL, kit.ACCEPTED),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, b"\x00\x53\x25\x45"),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, b"\x00\x53\x27\xc0\x02\x01\x41"),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, b"\x00\x53\x24\xc0\x02\x01\x40"),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, b"\x45"),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, kit.ACCEPTED, kit.ACCEPTED),
        custom(kit.TRUE, ID, kit.NULL, kit.TRUE, kit.ACCEPTED, kit.TRUE, kit.TRUE),
        custom(kit.TRUE, ID, payload=b"\x40"),
        *ranges((5, 4)),
        kit.frame(0, kit.described_list(kit.TRANSFER, [b"\x43", ID, b"\xa0\x01t"])),
        kit.frame(0, b"\x00\x53\x15\xc0\x08\x02\x41" + ID),
        kit.frame(0, b"\x00\x53\x15\xc0\x06\x02\x41" + ID),
        kit.frame(0, b"\x00\x53\x15\xc0\x07\x03\x41" + ID),
        kit.frame(0, b"\x00\x53\x15\xc0\x07\x01\x41" + ID),
        kit.frame(0, b"\x00\x53\x15\xc0\x04\x02\x41\x70\x00"),
        kit.frame(0, b"\x00\x53\x15\x45"),
        kit.frame(0, b"\x00\x53\x15"),
        b"\x00\x00\x00\x13\x02\x01\x00\x00" + custom(kit.TRUE, ID)[8:],
    ],
    ids=lambda data: data[8:].hex(),
)
def test_declined(data):
    assert parse(data) is None
    assert parse(data + b"\x00" * 20) is None


def test_a_frame_above_the_maximum_is_declined():
    (one,) = one_each(1)
    assert DispositionRunParser(max_frame_size=len(one)).parse(one, 0, limit=1) is not None
    assert DispositionRunParser(max_frame_size=len(one) - 1).parse(one, 0, limit=1) is None


# --- against the generic codec -----------------------------------------------------------------------------


def generic(data: bytes, position: int) -> tuple[int, int, Disposition | None]:
    """The frame at ``position`` as the generic codec reads it: its end, its channel, and a disposition if it is one."""
    buffer = ReceiveBuffer()
    buffer.feed(data[position:])
    bounds = buffer.next_frame(512)
    if bounds is None:
        raise EOFError
    end = position + bounds.body_end
    if bounds.frame_type != AMQP_FRAME or bounds.body_start == bounds.body_end:
        return end, bounds.channel, None
    performative, payload_start = decode_performative(buffer.data, bounds.body_start, bounds.body_end)
    if not isinstance(performative, Disposition) or payload_start != bounds.body_end:
        return end, bounds.channel, None
    return end, bounds.channel, performative


def check_against_generic(run: DispositionRun, data: bytes, position: int) -> None:
    assert 0 <= run.first <= run.last < 2**32
    due = run.first
    for _ in range(run.frame_count):
        position, channel, disposition = generic(data, position)
        assert disposition is not None
        assert disposition == Disposition(
            role=run.role,
            first=due,
            last=disposition.last,
            settled=run.settled,
            state=run.state,
            batchable=disposition.batchable,
        )
        assert channel == run.channel
        due = (due if disposition.last is None else disposition.last) + 1
    assert due == run.last + 1
    assert position == run.end_position


def read_through(data: bytes, runs: DispositionRunParser, limit: int) -> Iterator[DispositionRun]:
    """Every run of a stream. A frame that is declined is skipped, as the generic path reads it. The fast path may give
    up."""
    position = 0
    while True:
        run = runs.parse(data, position, limit=limit)
        try:
            if run is not None:
                check_against_generic(run, data, position)
                assert run.frame_count <= limit
                position = run.end_position
                yield run
            else:
                position, _, _ = generic(data, position)
        except (ConnectionFault, DecodeError, EOFError):
            assert run is None, "accepted what the generic codec rejects"
            return


ids = st.sampled_from([0, 1, 250, 255, 256, 1000, 2**31, 2**32 - 3, 2**32 - 1]) | st.integers(0, 2**32 - 1)
states = st.sampled_from([kit.NULL, kit.ACCEPTED, kit.RELEASED, b"\x00\x53\x25\x45", b"\x00\x53\x24\xc0\x01\x00"])
optional_fields = st.tuples(st.sampled_from([kit.TRUE, kit.FALSE, kit.NULL]), states, st.just(kit.TRUE))


@st.composite
def like_frames(draw):
    """A few dispositions of one client. Most have the same fields, and most ids adjoin."""
    fixed, wide, ranged = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    channel = draw(st.sampled_from([0, 65535]))
    role = draw(st.sampled_from([kit.TRUE, kit.FALSE, b"\x56\x01"]))
    rest = draw(optional_fields)[: draw(st.integers(0, 3))]
    due = draw(ids)
    frames = []
    for _ in range(draw(st.integers(1, 12))):
        length = draw(st.sampled_from([1, 1, 2, 300])) if ranged else 1
        last = kit.uint((due + length - 1) % 2**32, fixed=fixed) if ranged else kit.NULL
        first = kit.uint(due % 2**32, fixed=fixed)
        frames.append(custom(role, first, last, *rest, channel=channel, wide=wide))
        due += length + draw(st.sampled_from([0] * 8 + [1, -1]))
        due %= 2**32
    return frames


other_frames = st.sampled_from(
    [
        b"\x00\x00\x00\x08\x02\x00\x00\x00",
        kit.CLIENTS[0].transfer(kit.data_section(b"x"), delivery_id=5),
        custom(kit.TRUE, b"\x43"),
    ]
).map(lambda frame: [frame])
streams = st.lists(like_frames() | other_frames, min_size=1, max_size=6).map(
    lambda parts: b"".join(frame for part in parts for frame in part)
)
limits = st.sampled_from([1, 2, 5, 1000])


@given(streams, limits)
def test_random_mixes_are_read_as_the_generic_codec_reads_them(data, limit):
    runs = parser()
    first_time = list(read_through(data, runs, limit))
    assert list(read_through(data, runs, limit)) == first_time, "what it remembers changes what it says"


@given(streams, limits, st.data())
def test_broken_input_is_declined_or_read_as_the_generic_codec_reads_it(whole, limit, data):
    runs = parser()
    list(read_through(whole, runs, limit))
    broken = bytearray(whole)
    at = data.draw(st.integers(0, len(broken) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "insert"])):
        case "flip":
            broken[at] = data.draw(st.integers(0, 255))
        case "cut":
            del broken[at : at + data.draw(st.integers(1, 8))]
        case _:
            broken[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    for _ in read_through(bytes(broken), runs, limit):
        pass


@pytest.mark.parametrize("shape", [one_each, lambda n: ranges(*[(i, i + 1) for i in range(1000, 1000 + 2 * n, 2)])])
def test_every_byte_of_a_frame_in_every_wrong_way(shape):
    like = shape(3)
    runs = parser()
    for at in range(len(like[1])):
        for value in range(256):
            broken = bytearray(like[1])
            broken[at] = value
            for _ in read_through(like[0] + bytes(broken) + like[2], runs, 10):
                pass


# --- encoding -----------------------------------------------------------------------------


@given(
    channel=st.sampled_from([0, 1, 65535]),
    role=st.booleans(),
    first=ids,
    length=st.sampled_from([1, 2, 1000]),
    settled=st.booleans(),
    state=st.sampled_from([None, ACCEPTED, RELEASED]),
)
def test_encoded_dispositions_say_what_they_were_made_of(channel, role, first, length, settled, state):
    last = (first + length - 1) % 2**32
    frame = encode_disposition(channel=channel, role=role, first=first, last=last, settled=settled, state=state)
    expected = Disposition(role=role, first=first, last=None if first == last else last, settled=settled, state=state)
    assert generic(frame, 0) == (len(frame), channel, expected)
    if first <= last:
        assert parse(frame) == DispositionRun(channel, role, first, last, settled, state, len(frame), 1)


@pytest.mark.parametrize("place", range(26))
def test_a_run_of_very_many_ends_before_the_frame_in_which_a_byte_differs(place):
    frames = one_each(100)
    runs = parser()
    assert [run.frame_count for run in read_through(b"".join(frames), runs, 1000)] == [100]
    assert len(frames[60]) == 26
    odd = bytearray(frames[60])
    odd[place] ^= 0x10
    run = runs.parse(b"".join((*frames[:60], odd, *frames[61:])), 0, limit=1000)
    assert run is not None
    assert (run.first, run.last, run.frame_count) == (1000, 1059, 60)
