"""The fast path against the generic codec, on frames of every client shape, whole, mixed and broken."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.errors import ConnectionFault, DecodeError
from amqp10.wire import sections, serial
from amqp10.wire.framing import AMQP_FRAME, ReceiveBuffer
from amqp10.wire.performatives import Transfer, decode_performative
from amqp10.wire.transfer_run import TransferRun, TransferRunParser
from tests.kit import client_frames as kit
from tests.kit.client_frames import CLIENTS, DURABLE, EMPTY_HEADER, EMPTY_PROPERTIES, Client

MAX_FRAME_SIZE = 4096
BY_NAME = {client.name: client for client in CLIENTS}
GO = BY_NAME["go-amqp"]
BODY = kit.data_section(b"Hello, world")
every_client = pytest.mark.parametrize("client", CLIENTS, ids=str)


def parser() -> TransferRunParser:
    return TransferRunParser(max_frame_size=MAX_FRAME_SIZE)


def parse(data: bytes, position: int = 0, limit: int = 1000) -> TransferRun | None:
    return parser().parse(data, position, limit=limit)


def frames(client: Client, n: int, *, first: int = 1000, payload: bytes = BODY, **fields) -> list[bytes]:
    return [client.transfer(payload, delivery_id=(first + i) % 2**32, **fields) for i in range(n)]


# --- frames that it takes -------------------------------------------------------------------------


@every_client
@pytest.mark.parametrize("settled", [False, True])
def test_like_frames_of_every_client_are_one_run(client, settled):
    data = b"".join(frames(client, 85, channel=3, handle=7, settled=settled, payload=DURABLE + BODY))
    run = parse(data)
    assert run is not None
    assert (run.channel, run.handle, run.first_delivery_id) == (3, 7, 1000)
    assert bool(run.settled) is settled
    assert run.entries == [BODY] * 85
    assert run.frame_count == 85
    assert run.header == DURABLE
    assert run.checked
    assert run.end_position == len(data)


@every_client
@pytest.mark.parametrize("handle", [0, 1, 255, 256, 2**32 - 1])
def test_a_single_frame_is_a_run_whatever_its_handle(client, handle):
    run = parse(*frames(client, 1, handle=handle))
    assert run is not None
    assert run.handle == handle
    assert run.entries == [BODY]


def test_absent_and_null_settled_are_told_apart_from_false():
    def settled(*end):
        client = Client("", False, True, lambda _: b"", end, ())
        run = parse(*frames(client, 1))
        return run and run.settled

    assert settled() is None
    assert settled(kit.NULL, kit.NULL) is None
    assert settled(kit.NULL, kit.FALSE) is False
    assert settled(kit.NULL, b"\x56\x00") is False
    assert settled(kit.NULL, kit.TRUE) is True
    assert settled(kit.NULL, b"\x56\x01") is True


@pytest.mark.parametrize(
    "body",
    [
        kit.data_section(b""),
        kit.data_section(b"x" * 255),
        kit.data_section(b"x" * 256),
        b"\x00\x53\x75\xb0\x00\x00\x00\x01x",
        kit.value_section(kit.binary(b"x" * 300)),
        kit.value_section(kit.string("")),
        kit.value_section(kit.string("grüß" * 100)),
    ],
)
@pytest.mark.parametrize("header", [b"", EMPTY_HEADER, DURABLE, kit.header_section(kit.TRUE, b"\x50\x09", wide=True)])
def test_opaque_bodies_are_checked(body, header):
    run = parse(b"".join(frames(GO, 3, payload=header + body)))
    assert run is not None
    assert run.checked
    assert run.header == header
    assert run.entries == [body] * 3


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        BODY + BODY,
        BODY + b"\x00",
        BODY[:-1],
        b"\x00\x53\x75\xb0\x00\x00",
        kit.value_section(kit.TRUE),
        kit.value_section(b"\x45"),
        EMPTY_PROPERTIES + BODY,
        EMPTY_HEADER + EMPTY_PROPERTIES + kit.value_section(kit.string("proton")),
        EMPTY_HEADER,
        EMPTY_HEADER + EMPTY_HEADER + BODY,
        kit.header_section(b"\x56\x02") + BODY,
        kit.header_section(kit.TRUE, kit.NULL, kit.NULL, kit.NULL, kit.NULL, kit.NULL) + BODY,
        b"\x00\x53\x70\xc0\x02\x01\x41\x40" + BODY,
        b"\x00\x53\x70\xc0\xff\x01\x41" + BODY,
        b"\x00\x53\x70\xc0\x00\x00" + BODY,
        b"\x00\x53\x70\x80" + BODY,
        b"\x00\x53\x70\xc0",
    ],
    ids=lambda payload: payload.hex()[:40],
)
def test_other_payloads_are_whole_and_unchecked(payload):
    """Payloads that the section scanner will refuse are taken, too: the frame is right, and the message is not."""
    run = parse(b"".join(frames(GO, 3, payload=payload)))
    assert run is not None
    assert not run.checked
    assert run.header == b""
    assert run.entries[0] == payload
    assert run.frame_count == 3


def test_bodies_of_one_run_may_differ_in_content_and_size():
    bodies = [kit.data_section(bytes([i]) * (i * 7 % 50)) for i in range(200)]
    data = b"".join(GO.transfer(body, delivery_id=1000 + i) for i, body in enumerate(bodies))
    run = parse(data)
    assert run is not None
    assert run.entries == bodies
    assert run.end_position == len(data)


def test_delivery_ids_wrap_inside_a_run():
    run = parse(b"".join(frames(BY_NAME["rabbitmq"], 20, first=2**32 - 10)))
    assert run is not None
    assert run.first_delivery_id == 2**32 - 10
    assert run.frame_count == 20


def test_a_run_begins_where_it_is_asked_for_and_leaves_an_incomplete_frame():
    data = b"xxx" + b"".join(frames(GO, 5))
    whole = parse(data, 3)
    assert whole is not None
    assert whole.end_position == len(data)
    cut = parse(data[:-1], 3)
    assert cut is not None
    assert cut.frame_count == 4
    assert parse(data[:-1], cut.end_position) is None


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 7, 50])
def test_the_limit_bounds_the_run(limit):
    runs = parser()
    data = b"".join(frames(GO, 50))
    for _ in range(2):
        run = runs.parse(data, 0, limit=limit)
        assert (run.frame_count if run else 0) == limit


@pytest.mark.parametrize("before", [1, 2, 3, 30])
@pytest.mark.parametrize(
    "odd",
    [
        {"channel": 1},
        {"handle": 1},
        {"settled": True},
        {"delivery_id": 0x10000},
        {"delivery_id": 1000},
    ],
    ids=str,
)
def test_a_run_ends_before_a_frame_that_differs(before, odd):
    client = Client("", True, True, lambda _: b"tag", (b"\x43",), (b"\x43", kit.TRUE))
    like = frames(client, before)
    fields = {"payload": BODY, "delivery_id": 1000 + before} | odd
    data = b"".join([*like, client.transfer(**fields), *frames(client, 3, first=1001 + before)])
    runs = parser()
    for _ in range(3):  # a new shape, a known one, and a known one with a long look ahead
        run = runs.parse(data, 0, limit=1000)
        assert run is not None
        assert run.entries == [BODY] * before
        runs.parse(b"".join(frames(client, 100)), 0, limit=1000)


UNLIKE = [
    DURABLE + BODY,
    kit.header_section(kit.TRUE, b"\x50\x09") + BODY,
    kit.value_section(kit.binary(b"Hello, world")),
    BODY + BODY,
    EMPTY_PROPERTIES + BODY,
    b"",
    kit.data_section(b"x" * 300),
]


@pytest.mark.parametrize("before", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("odd", UNLIKE)
def test_few_like_messages_are_one_run_with_the_messages_behind_them(before, odd):
    payloads = [BODY] * before + [odd] + [BODY] * 30 + UNLIKE
    runs = parser()
    for _ in range(2):
        run = runs.parse(
            b"".join(GO.transfer(each, delivery_id=1000 + i) for i, each in enumerate(payloads)), 0, limit=99
        )
        assert run is not None
        assert not run.checked
        assert run.entries == payloads


@pytest.mark.parametrize("before", [8, 30])
@pytest.mark.parametrize("odd", UNLIKE)
def test_many_like_messages_are_a_run_of_their_own(before, odd):
    runs = parser()
    for _ in range(2):
        run = runs.parse(b"".join([*frames(GO, before), *frames(GO, 5, first=1000 + before, payload=odd)]), 0, limit=99)
        assert run is not None
        assert run.checked
        assert run.entries == [BODY] * before


@pytest.mark.parametrize("payloads", [[BODY], [EMPTY_PROPERTIES + BODY], UNLIKE])
def test_delivery_tags_and_ids_of_one_run_may_have_any_length(payloads):
    """Delivery-ids have one byte up to 255, and four beyond; a client that counts in decimal digits has longer and
    longer tags."""
    lengths = [1, 1, 3, 32, 0, 8, 8, 8, 8, 8, 8, 2, 31, 32, 7]
    tags = [bytes([i]) * length for i, length in enumerate(lengths)]
    client = Client("", False, False, lambda number: tags[number], (b"\x43",), ())
    data = b"".join(
        client.transfer(payloads[i % len(payloads)], delivery_id=250 + i, number=i) for i in range(len(tags))
    )
    runs = parser()
    for _ in range(2):
        run = runs.parse(data, 0, limit=99)
        assert run is not None
        assert run.first_delivery_id == 250
        assert run.entries == [payloads[i % len(payloads)] for i in range(len(tags))]
        assert [run.delivery_tag(i) for i in range(len(tags))] == tags


@pytest.mark.parametrize(
    ("odd", "ordinary"),
    [
        (BODY + BODY, BODY),
        (b"", BODY),
        (BODY[:-1], BODY),
        (kit.header_section(b"\x56\x02") + BODY, DURABLE + BODY),
        (EMPTY_PROPERTIES + BODY, BODY),
    ],
)
def test_frames_of_an_unknown_shape_do_not_displace_known_shapes(odd, ordinary):
    runs = parser()
    for payload, checked in [(odd, False), (ordinary, True), (odd, False), (ordinary, True)]:
        run = runs.parse(b"".join(frames(GO, 3, payload=payload)), 0, limit=10)
        assert run is not None
        assert run.checked is checked
        assert run.frame_count == 3


def test_more_links_and_sizes_than_are_remembered():
    runs = parser()
    for handle in [*range(600), *range(600)]:
        body = kit.data_section(b"x" * handle)
        run = runs.parse(b"".join(frames(GO, 3, handle=handle, payload=body)), 0, limit=10)
        assert run is not None
        assert (run.handle, run.entries) == (handle, [body] * 3)
    for size in range(200):
        body = kit.data_section(b"x" * size)
        run = runs.parse(b"".join(frames(GO, 5, payload=body)), 0, limit=10)
        assert run is not None
        assert run.entries == [body] * 5


@pytest.mark.parametrize("what", ["links", "frame sizes"])
def test_what_is_remembered_is_bounded(what):
    runs = parser()

    def held_bytes(kinds):
        for i in kinds:
            handle, size = (1000 + i, 12) if what == "links" else (0, i)
            like = frames(GO, 5, handle=handle, payload=kit.data_section(b"x" * size))
            assert runs.parse(b"".join(like), 0, limit=10) is not None
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        growth = -held_bytes(range(600)) + held_bytes(range(600, 1400))
    finally:
        tracemalloc.stop()
    assert growth < 20_000, "800 layouts are above 200 kB, 800 shapes above 2 MB"


# --- frames that it declines -----------------------------------------------------------------------


def custom(*fields: bytes, body: bytes = BODY, wide: bool = False) -> bytes:
    return kit.frame(0, kit.described_list(kit.TRANSFER, list(fields), wide=wide) + body)


ID = b"\x70\x00\x00\x03\xe8"
TAG = b"\xa0\x01t"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00\x08\x02\x00\x00\x00",
        custom(),
        custom(b"\x43"),
        custom(b"\x43", ID),
        custom(kit.NULL, ID, TAG),
        custom(b"\x43", kit.NULL, TAG),
        custom(b"\x43", b"\x43", TAG),
        custom(b"\x43", ID, kit.NULL),
        custom(b"\x43", ID, b"\xb0\x00\x00\x00\x01t"),
        custom(b"\x43", ID, b"\xa1\x01t"),
        custom(b"\x43", ID, b"\xa0\x21" + b"t" * 33),
        custom(b"\x43", ID, TAG, b"\x52\x01"),
        custom(b"\x43", ID, TAG, kit.NULL, b"\x56\x02"),
        custom(b"\x43", ID, TAG, kit.NULL, kit.NULL, kit.TRUE),
        custom(b"\x43", ID, TAG, kit.NULL, kit.NULL, kit.NULL, b"\x50\x00"),
        custom(b"\x43", ID, TAG, kit.NULL, kit.NULL, kit.NULL, kit.NULL, kit.ACCEPTED),
        custom(b"\x43", ID, TAG, *[kit.NULL] * 5, kit.TRUE),
        custom(b"\x43", ID, TAG, *[kit.NULL] * 6, kit.TRUE),
        custom(b"\x43", ID, TAG, *[kit.NULL] * 9),
        kit.frame(0, kit.described_list(kit.DISPOSITION, [kit.TRUE, ID, kit.NULL, kit.TRUE])),
        kit.frame(0, b"\x00\x80" + (0x14).to_bytes(8) + b"\xc0\x0a\x03\x43" + ID + TAG),
        kit.frame(0, b"\x00\x53\x14\xc0\x0b\x03\x43" + ID + TAG),
        kit.frame(0, b"\x00\x53\x14\xc0\x0a\x04\x43" + ID + TAG),
        kit.frame(0, b"\x00\x53\x14\xc0\x0a\x02\x43" + ID + TAG),
        kit.frame(0, b"\x00\x53\x14\xc0\x11\x02\x43" + ID + TAG + kit.NULL * 7),
        kit.frame(0, b"\x00\x53\x14\xc0\x12\x03\x43" + ID + TAG + kit.NULL * 8),
        kit.frame(0, b"\x00\x53\x14\x45"),
        kit.frame(0, b"\x00\x53\x14"),
        b"\x00\x00\x00\x20\x02\x01" + custom(b"\x43", ID, TAG)[6:],
        b"\x00\x00\x00\x20\x03\x00" + custom(b"\x43", ID, TAG)[6:],
        custom(b"\x43", ID, TAG, body=kit.data_section(b"x" * MAX_FRAME_SIZE)),
    ],
    ids=lambda data: data[8:].hex()[:60],
)
def test_declined(data):
    assert parse(data) is None
    assert parse(data + BODY) is None


@every_client
def test_nothing_but_complete_frames_is_taken(client):
    (one,) = frames(client, 1)
    runs = parser()
    assert runs.parse(one, 0, limit=1) is not None
    for stop in range(len(one)):
        assert runs.parse(one[:stop], 0, limit=1) is None
        assert parse(one[:stop]) is None


# --- against the generic codec -----------------------------------------------------------------------------


def generic(data: bytes, position: int) -> tuple[int, int, Transfer, bytes] | None:
    """The transfer at ``position`` as the generic codec reads it: end, channel, performative, payload."""
    buffer = ReceiveBuffer()
    buffer.feed(data[position:])
    bounds = buffer.next_frame(MAX_FRAME_SIZE)
    if bounds is None or bounds.frame_type != AMQP_FRAME:
        return None
    transfer, payload_start = decode_performative(buffer.data, bounds.body_start, bounds.body_end)
    if not isinstance(transfer, Transfer):
        return None
    return position + bounds.body_end, bounds.channel, transfer, buffer.data[payload_start : bounds.body_end]


def check_against_generic(run: TransferRun, data: bytes, position: int) -> None:
    assert run.frame_count > 0
    for index, entry in enumerate(run.entries):
        frame = generic(data, position)
        assert frame is not None
        position, channel, transfer, payload = frame
        assert transfer.delivery_tag is not None
        assert transfer.message_format in (None, 0)
        assert transfer == Transfer(
            handle=run.handle,
            delivery_id=serial.add(run.first_delivery_id, index),
            delivery_tag=transfer.delivery_tag,
            message_format=transfer.message_format,
            settled=run.settled,
            batchable=transfer.batchable,
        )
        assert channel == run.channel
        assert run.header + entry == payload
        if run.checked:
            check_opaque(run, entry, payload)
    assert position == run.end_position


def check_opaque(run: TransferRun, entry: bytes, payload: bytes) -> None:
    bounds = sections.scan(payload)
    assert bounds.body == (len(run.header), len(payload))
    assert bounds.body_code in (sections.DATA, sections.AMQP_VALUE)
    assert bounds.header == ((0, len(run.header)) if run.header else None)
    assert sections.scan(entry).body == (0, len(entry))
    if run.header:
        sections.decode_header(run.header, 0, len(run.header))


def read_through(data: bytes, runs: TransferRunParser, limit: int) -> Iterator[TransferRun]:
    """Every run of a stream. A frame that is declined is skipped, as the generic path reads it. The fast path may give
    up."""
    position = 0
    while position < len(data):
        run = runs.parse(data, position, limit=limit)
        try:
            if run is not None:
                check_against_generic(run, data, position)
                assert run.frame_count <= limit
                position = run.end_position
                yield run
                continue
            buffer = ReceiveBuffer()
            buffer.feed(data[position:])
            bounds = buffer.next_frame(MAX_FRAME_SIZE)
        except (ConnectionFault, DecodeError):
            assert run is None, "accepted what the generic codec rejects"
            return
        if bounds is None:
            return
        position += bounds.body_end


headers = st.sampled_from(
    [
        b"",
        EMPTY_HEADER,
        DURABLE,
        kit.header_section(kit.TRUE, b"\x50\x05"),
        kit.header_section(kit.TRUE, b"\x50\x09", kit.uint(60_000), wide=True),
        kit.header_section(kit.TRUE, b"\x50\x09", kit.NULL, kit.FALSE, b"\x43"),
    ]
)
contents = st.binary(max_size=20) | st.just(b"x" * 300)
bodies = st.one_of(
    contents.map(kit.data_section),
    contents.map(lambda content: kit.value_section(kit.binary(content))),
    st.text(max_size=10).map(lambda text: kit.value_section(kit.string(text))),
    st.tuples(contents, contents).map(lambda two: kit.data_section(two[0]) + kit.data_section(two[1])),
    contents.map(lambda content: EMPTY_PROPERTIES + kit.data_section(content)),
    st.binary(max_size=10),
)
ids = st.sampled_from([0, 1, 250, 254, 255, 256, 1000, 2**31 - 1, 2**32 - 2, 2**32 - 1]) | st.integers(0, 2**32 - 1)


@st.composite
def like_frames(draw):
    """A few frames that a client would send one after another: ids count up, and most other fields do not change."""
    client = draw(st.sampled_from(CLIENTS))
    first = draw(ids)
    fields = {
        "channel": draw(st.sampled_from([0, 1, 65535])),
        "handle": draw(st.sampled_from([0, 1, 255, 256])),
        "settled": draw(st.booleans()),
    }
    header = draw(headers)
    body = draw(bodies)
    other = draw(bodies)
    return [
        client.transfer(
            header + (other if draw(st.integers(0, 5)) == 0 else body),
            delivery_id=(first + i) % 2**32,
            **fields,
        )
        for i in range(draw(st.integers(1, 12) | st.integers(20, 40)))
    ]


@st.composite
def unlike_frames(draw):
    """Frames of one link with messages and delivery-tags of any kind; a delivery-id or a settled flag may not
    follow."""
    tags = draw(st.lists(st.binary(max_size=33), min_size=1, max_size=12))
    end = draw(st.sampled_from([(), (b"\x43",), (b"\x43", kit.FALSE)]))
    client = Client("", draw(st.booleans()), draw(st.booleans()), lambda number: tags[number], end, (b"\x43", kit.TRUE))
    first = draw(ids)
    odd = draw(st.sampled_from([None] * 4 + list(range(len(tags)))))
    return [
        client.transfer(
            draw(headers) + draw(bodies),
            delivery_id=(first + number + (odd == number and draw(st.integers(0, 1)))) % 2**32,
            number=number,
            settled=odd == number,
        )
        for number in range(len(tags))
    ]


others = st.sampled_from(
    [
        b"\x00\x00\x00\x08\x02\x00\x00\x00",
        kit.frame(0, kit.described_list(kit.DISPOSITION, [kit.TRUE, ID, kit.NULL, kit.TRUE, kit.ACCEPTED])),
        custom(b"\x43", ID, TAG, kit.NULL, kit.NULL, kit.TRUE),
        custom(b"\x43", kit.NULL, kit.NULL),
    ]
)
streams = st.lists(like_frames() | unlike_frames() | others.map(lambda frame: [frame]), max_size=6).map(
    lambda parts: [frame for part in parts for frame in part]
)
limits = st.sampled_from([1, 2, 5, 1000])


@given(streams, limits)
def test_random_mixes_are_read_as_the_generic_codec_reads_them(stream, limit):
    data = b"".join(stream)
    runs = parser()
    first_time = list(read_through(data, runs, limit))
    assert list(read_through(data, runs, limit)) == first_time, "what it remembers changes what it says"
    assert list(read_through(data, parser(), limit)) == first_time


@given(streams.filter(bool), limits, st.data())
def test_broken_input_is_declined_or_read_as_the_generic_codec_reads_it(stream, limit, data):
    whole = b"".join(stream)
    runs = parser()
    list(read_through(whole, runs, limit))
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(broken)))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip" if at < len(broken):
                broken[at] = data.draw(st.integers(0, 255))
            case "cut":
                del broken[at : at + data.draw(st.integers(1, 8))]
            case _:
                broken[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    for _ in read_through(bytes(broken), runs, limit):
        pass
    for _ in read_through(bytes(broken), parser(), limit):
        pass


@every_client
@pytest.mark.parametrize("payload", [DURABLE + BODY, EMPTY_PROPERTIES + BODY])
def test_every_byte_of_a_frame_in_many_wrong_ways(client, payload):
    """Each byte of one frame among others, up to its body, with each bit flipped and with every format code in its
    place.

    The second frame is compared by itself, the fifth together with its neighbours.
    """
    like = frames(client, 6, payload=payload)
    runs = parser()
    list(read_through(b"".join(like), runs, 10))
    for index in (1, 4):
        for at in range(len(like[index]) - 12):
            for value in {like[index][at] ^ 1 << bit for bit in range(8)} | kit.FORMAT_CODES:
                broken = bytearray(like[index])
                broken[at] = value
                stream = b"".join([*like[:index], bytes(broken), *like[index + 1 :]])
                for _ in read_through(stream, runs, 10):
                    pass


@every_client
@pytest.mark.parametrize("first", [0, 240, 1000, 2**32 - 30])
def test_many_frames_with_one_wrong_byte_are_read_as_the_generic_codec_reads_them(client, first):
    """The frames before the wrong one are compared by columns, and so is that one."""
    alike = frames(client, 40, first=first)
    at = sum(map(len, alike[:30]))
    for place in range(len(alike[30])):
        data = bytearray(b"".join(alike))
        data[at + place] ^= 1
        runs = parser()
        taken = sum(run.frame_count for run in read_through(bytes(data), runs, 1000))
        assert taken >= 30 or first != 1000


@every_client
@pytest.mark.parametrize("before_body", [DURABLE, DURABLE + EMPTY_PROPERTIES])
@pytest.mark.parametrize("first", [1000, 2**32 - 30])
def test_many_frames_of_any_size_with_one_wrong_byte_are_read_the_same_whatever_is_remembered(
    client, before_body, first
):
    payloads = [before_body + kit.data_section(b"x" * (number * 7 % 40)) for number in range(60)]
    unlike = [client.transfer(each, delivery_id=(first + i) % 2**32, number=i) for i, each in enumerate(payloads)]
    runs = parser()
    right = list(read_through(b"".join(unlike), runs, 1000))
    assert sum(run.frame_count for run in right) == 60 or first != 1000
    at = sum(map(len, unlike[:50]))
    for place in range(len(unlike[50])):
        data = bytearray(b"".join(unlike))
        data[at + place] ^= 1
        taken = list(read_through(bytes(data), runs, 1000))
        assert taken == list(read_through(bytes(data), parser(), 1000)), "what it remembers changes what it says"
