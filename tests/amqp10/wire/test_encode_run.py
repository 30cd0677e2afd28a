"""Runs of deliveries are encoded as the generic codec would encode each, and are one run for a peer like us."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.wire.columns import COLUMNS_MIN, JOINED_BYTES_MAX
from amqp10.wire.framing import ReceiveBuffer
from amqp10.wire.performatives import Transfer, decode_performative
from amqp10.wire.transfer_encoding import bytes_of_tags, encode_run, frame_overhead
from amqp10.wire.transfer_run import TransferRunParser
from tests.kit import client_frames as kit
from tests.kit.client_frames import DURABLE, EMPTY_HEADER

BODY = kit.data_section(b"Hello, world")
headers = st.sampled_from([b"", EMPTY_HEADER, DURABLE, kit.header_section(kit.TRUE, b"\x50\x05")])
bodies = st.binary(max_size=20).map(kit.data_section) | st.just(kit.data_section(b"x" * 300)) | st.binary(max_size=10)
few = st.lists(st.tuples(headers, bodies), max_size=6)
many_alike = st.builds(lambda message, n: [message] * n, st.tuples(headers, bodies), st.integers(15, 40))
ids = st.sampled_from([0, 1, 255, 256, 2**31 - 1, 2**32 - 20, 2**32 - 2, 2**32 - 1]) | st.integers(0, 2**32 - 1)


def frames_of(data: bytes) -> list[tuple[int, int, Transfer, bytes]]:
    """The transfers as the generic codec reads them: size of the frame, channel, performative, payload."""
    buffer = ReceiveBuffer()
    buffer.feed(data)
    read = []
    while (bounds := buffer.next_frame(2**32 - 1)) is not None:
        transfer, payload_start = decode_performative(buffer.data, bounds.body_start, bounds.body_end)
        assert isinstance(transfer, Transfer)
        size = bounds.body_end - bounds.body_start + 8
        read.append((size, bounds.channel, transfer, buffer.data[payload_start : bounds.body_end]))
    return read


@given(
    channel=st.sampled_from([0, 1, 65535]),
    handle=st.sampled_from([0, 1, 255, 256, 2**32 - 1]),
    first_delivery_id=ids,
    first_number=st.sampled_from([0, 1, 2**32 - 2, 2**32 - 1, 2**32, 2**40]) | st.integers(0, 2**33),
    messages=few | many_alike,
    header=st.none() | headers,
    settled=st.booleans(),
)
@example(
    channel=0,
    handle=0,
    first_delivery_id=2**32 - 1,
    first_number=2**32 - 1,
    messages=[(b"", BODY)] * 3,
    header=b"",
    settled=False,
)
def test_encoded_runs_say_what_they_were_made_of(
    channel, handle, first_delivery_id, first_number, messages, header, settled
):
    """All messages have one header section, or each has its own. Many alike are one piece; others are not copied."""
    last_number = first_number + len(messages) - 1
    own = [each if header is None else header for each, _ in messages]
    pieces = encode_run(
        channel=channel,
        handle=handle,
        first_delivery_id=first_delivery_id,
        first_number=first_number,
        entries=[entry for _, entry in messages],
        header=own if header is None else header,
        settled=settled,
        tag_bytes=bytes_of_tags(last_number, settled),
        even=len({len(header) + len(entry) for header, (_, entry) in zip(own, messages, strict=True)}) == 1,
    )
    if len(pieces) == 1:
        assert len(messages) >= COLUMNS_MIN
    else:
        step = 3 if header is None else 2
        assert all(piece is entry for piece, (_, entry) in zip(pieces[step - 1 :: step], messages, strict=True))
    overhead = frame_overhead(handle, bytes_of_tags(last_number, settled), settled)
    frames = frames_of(b"".join(pieces))
    assert len(frames) == len(messages)
    for index, (size, frame_channel, transfer, payload) in enumerate(frames):
        tag = b"" if settled else (first_number + index).to_bytes(4 if last_number < 2**32 else 8)
        assert transfer == Transfer(
            handle=handle,
            delivery_id=(first_delivery_id + index) % 2**32,
            delivery_tag=tag,
            message_format=0,
            settled=True if settled else None,
        )
        assert frame_channel == channel
        assert payload == own[index] + messages[index][1]
        assert size == overhead + len(payload)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("like", [False, True])
def test_what_we_encode_is_one_run_for_a_peer_like_us(settled, like):
    bodies = [kit.data_section(bytes([i % 256]) * 12) for i in range(300)]
    own = [EMPTY_HEADER if i % 2 else DURABLE for i in range(300)]
    pieces = encode_run(
        channel=1,
        handle=2,
        first_delivery_id=0,
        first_number=0,
        entries=bodies,
        header=DURABLE if like else own,
        settled=settled,
        tag_bytes=bytes_of_tags(299, settled),
        even=like,
    )
    run = TransferRunParser(max_frame_size=4096).parse(b"".join(pieces), 0, limit=1000)
    assert run is not None
    whole = [header + body for header, body in zip(own, bodies, strict=True)]
    assert (run.entries, run.header, run.checked) == ((bodies, DURABLE, True) if like else (whole, b"", False))


@pytest.mark.parametrize(("size", "pieces"), [(JOINED_BYTES_MAX, 1), (JOINED_BYTES_MAX + 1, 2 * COLUMNS_MIN)])
def test_only_short_entries_are_copied(size, pieces):
    entries = [bytes(size)] * COLUMNS_MIN
    encoded = encode_run(
        channel=0,
        handle=0,
        first_delivery_id=0,
        first_number=0,
        entries=entries,
        header=b"",
        settled=False,
        tag_bytes=4,
        even=True,
    )
    assert len(encoded) == pieces
    assert [payload for *_, payload in frames_of(b"".join(encoded))] == entries
