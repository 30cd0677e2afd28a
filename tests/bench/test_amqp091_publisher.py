"""The AMQP 0.9.1 sending end: the broker's codec reads its frames as they are meant, and it keeps to its limits."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.confirms import ACK, ACKS_AT_ONCE_MAX, ChannelConfirms
from amqp10.load.amqp091.endpoint import TURN_MESSAGES, ChannelsEndpoint
from amqp10.load.amqp091.publisher import ChannelPublisher
from amqp10.load.messages import BURST_BYTES_MAX, BURST_FRAMES_MAX
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.wire import WireError
from core.amqp091.codec import decode_method
from core.amqp091.content import body_of
from core.amqp091.framing import FrameType, method_frame, read_frame
from core.amqp091.methods import BasicAck, BasicNack, BasicPublish, ChannelClose, ConnectionBlocked
from core.amqp091.properties import decode_properties
from core.amqp091.publish_run import PublishRunParser

FRAME_MAX = 131072


def publisher(*, number=3, burst_max=0, batch=0, frame_max=FRAME_MAX, **traffic):
    application = Application(publisher=number, publish_to="q", batch=batch)
    one = ChannelPublisher(application, PlannedTraffic(**traffic), channel=1, frame_max=frame_max, burst_max=burst_max)
    one.start(0)
    return one


def sequences(data):
    """The sequence numbers of a burst, as the broker's parser of runs reads it."""
    parser = PublishRunParser(frame_max=FRAME_MAX, body_max=2**27)
    [run], end = parser.parse(data, 0, len(data), 1_000_000)
    assert end == len(data)
    assert (run.exchange, run.routing_key, run.mandatory) == ("", "q", False)
    return [struct.unpack_from(">IQ", body_of(entry))[1] for entry in run.entries]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("size", [12, 300])
def test_a_publish_is_what_the_codec_says_it_is(durable, size):
    [piece] = publisher(durable=durable, size=size, messages=1).burst(0)
    data = bytes(piece)
    method = read_frame(data, 0, FRAME_MAX)
    assert decode_method(method.payload) == BasicPublish(routing_key="q")
    header = read_frame(data, method.end, FRAME_MAX)
    assert header.frame_type is FrameType.HEADER
    assert struct.unpack_from(">HHQ", header.payload) == (60, 0, size)
    properties = decode_properties(header.payload, 12, len(header.payload))
    assert properties.delivery_mode == (2 if durable else None)
    body = read_frame(data, header.end, FRAME_MAX)
    assert body.payload == struct.pack(">IQ", 3, 0) + PlannedTraffic(size=size).padding()
    assert body.end == len(data)
    assert {method.channel, header.channel, body.channel} == {1}


def test_a_large_body_is_split_into_frames_that_are_allowed():
    [piece] = publisher(size=10_000, messages=1, frame_max=4096).burst(0)
    data, at, bodies = bytes(piece), 0, b""
    while at < len(data):
        frame = read_frame(data, at, 4096)
        bodies += frame.payload if frame.frame_type is FrameType.BODY else b""
        at = frame.end
    assert bodies == struct.pack(">IQ", 3, 0) + PlannedTraffic(size=10_000).padding()


def test_frames_without_room_are_refused():
    with pytest.raises(WireError, match="too small"):
        publisher(frame_max=16)


def test_bulk_fills_a_system_call_and_counts_on():
    one = publisher(settled=True, messages=5000)
    pieces = [bytes(*one.burst(0)) for _ in range(2)]
    assert all(BURST_BYTES_MAX * 0.99 < len(piece) <= BURST_BYTES_MAX for piece in pieces)
    numbers = [number for piece in pieces for number in sequences(piece)]
    assert numbers == list(range(one.sent))


def test_unbatched_gives_each_publish_a_system_call():
    pieces = publisher(shape="unbatched", messages=100).burst(0)
    assert [sequences(bytes(piece)) for piece in pieces] == [[number] for number in range(BURST_FRAMES_MAX)]


def test_in_flight_and_batch_wait_for_confirms():
    for limits in ({"in_flight": 10}, {"batch": 10}):
        one = publisher(**limits)
        one.burst(0)
        assert (one.sent, one.ready(0)) == (10, 0)
        one.acks(wire.ack(1, 4, multiple=True), 0, 0)
        assert one.ready(0) == (4 if "in_flight" in limits else 0)
        one.acks(wire.ack(1, 10, multiple=True), 0, 0)
        assert one.ready(0) == 10


def test_it_is_finished_when_everything_is_confirmed():
    one = publisher(messages=20)
    one.burst(0)
    one.ready(0)
    assert (one.finished, one.unconfirmed) == (False, 20)
    one.acks(wire.ack(1, 20, multiple=True), 0, 0)
    assert (one.finished, one.unconfirmed) == (True, 0)


def test_at_an_offered_rate_messages_go_when_they_are_due():
    one = publisher(number=1, size=20, rate=1000.0, seconds=1.0, messages=10)
    assert one.ready(0) == 1
    one.burst(0)
    assert one.wake_ns() == 1_000_000
    assert one.ready(3_500_000) == 3


@given(
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=60),
    st.integers(1, 10),
)
def test_confirms_count_as_a_set_of_numbers_would(said, at_once):
    confirms, model, repeated = ChannelConfirms(), set(), 0
    for first in range(0, len(said), at_once):
        some = said[first : first + at_once]
        data = b"".join(wire.ack(1, number, multiple=multiple) for number, multiple in some)
        assert confirms.take(data, 0, 40) == len(data)
        for number, multiple in some:
            news = set(range(1, number + 1) if multiple else [number]) - model
            repeated += not news
            model |= news
    assert (confirms.count, confirms.repeated) == (len(model), repeated)


def test_a_run_of_acks_ends_with_what_is_none():
    confirms = ChannelConfirms()
    many = b"".join(wire.ack(1, number, multiple=False) for number in range(1, ACKS_AT_ONCE_MAX + 11))
    data = many + wire.ack(2, 1, multiple=False)
    at = confirms.take(data, 0, 1000)
    at = confirms.take(data, at, 1000)
    assert (at, confirms.count, confirms.repeated) == (len(many), ACKS_AT_ONCE_MAX + 10, 0)


def test_a_confirm_of_what_was_never_sent_is_a_violation():
    with pytest.raises(WireError, match="number 6 was confirmed, 5 were sent"):
        ChannelConfirms().confirm(6, multiple=True, sent=5)


TWO = [Application(publisher=1, publish_to="a"), Application(publisher=2, publish_to="b")]


def started(applications, **traffic):
    endpoint = ChannelsEndpoint(applications, PlannedTraffic(**traffic), FRAME_MAX)
    endpoint.start(0)
    return endpoint


def test_two_publishers_take_turns_at_the_socket():
    endpoint = started(TWO, settled=True)
    for turn in range(1, 4):
        pieces = endpoint.output(0)
        assert [read_frame(bytes(piece), 0, FRAME_MAX).channel for piece in pieces] == [1, 3]
        assert [one.sent for one in endpoint.publishers] == [turn * TURN_MESSAGES] * 2


def test_confirms_find_their_publisher_and_nacks_are_refusals():
    endpoint = started(TWO)
    endpoint.output(0)
    said = (
        method_frame(0, ConnectionBlocked(reason="low on memory"))
        + method_frame(1, BasicAck(delivery_tag=2))
        + method_frame(3, BasicAck(delivery_tag=5, multiple=True))
        + method_frame(3, BasicNack(delivery_tag=7, multiple=True))
    )
    for at in range(0, len(said), 5):
        endpoint.receive_data(said[at : at + 5], 0)
    assert [(one.confirmed, one.refused) for one in endpoint.publishers] == [(1, 0), (7, 2)]


def test_a_close_is_an_error_with_the_brokers_reason():
    endpoint = started(TWO)
    with pytest.raises(WireError, match="closed channel 1: 404 no queue"):
        endpoint.receive_data(method_frame(1, ChannelClose(reply_code=404, reply_text="no queue")), 0)


def test_tables_give_their_texts_and_other_types_are_passed_over():
    inner = wire.table({"n": b"l" + bytes(8), "ok": b"t\x01", "none": b"V"})
    table = wire.table({"in": b"F" + inner, "product": b"S" + wire.long_string("Hägar".encode()), "u": b"u\x00\x01"})
    assert wire.texts(b".." + table, 2) == {"product": "Hägar"}
    with pytest.raises(WireError, match="type '!'"):
        wire.texts(wire.table({"odd": b"!"}), 0)


def test_a_frame_without_its_end_is_an_error():
    broken = wire.HEARTBEAT[:-1] + b"\x00"
    with pytest.raises(WireError, match="ends with 0x0"):
        wire.frame_at(broken, 0)


def test_only_the_limit_in_flight_holds_a_publisher_up():
    one = publisher(messages=4, in_flight=3)
    assert one.held_up(0) is None
    one.burst(0)
    assert (one.sent, one.held_up(0)) == (3, "in-flight")
    assert one.wants_to_send


def test_confirms_are_timed():
    one = publisher(number=1, rate=10.0, size=20, seconds=1.0, timed=True)
    one.burst(150_000_000)
    one.acks(ACK.pack(1, 1, 13, 60, 80, 2, 1, 0xCE), 0, 200_000_000)
    assert (one.confirmed, one.latency.get_total_count()) == (2, 2)
    assert one.latency.get_max_value() == pytest.approx(200_000, rel=0.001)
