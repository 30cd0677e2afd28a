"""The sending end: frames of the right form, and never more than link credit, window and pace allow."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load import wire
from amqp10.load.messages import BURST_BYTES_MAX, BURST_FRAMES_MAX
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.publisher import LinkPublisher, message_unit
from amqp10.load.wire import WireError

PLENTY = 2**31 - 1
FIRST, THIRD = Application(publisher=1), Application(publisher=3)


def publisher(*, application=THIRD, max_frame_size=131072, link_credit=PLENTY, **traffic):
    one = LinkPublisher(application, PlannedTraffic(**traffic), max_frame_size)
    one.flow_received(0, link_credit)
    one.start(0)
    return one


def frames_in(data):
    frames, at = [], 0
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        frame = wire.decode_frame(data, at, size)
        assert frame is not None
        frames.append(frame)
        at += size
    return frames


def burst(one, window=PLENTY, now_ns=0):
    pieces, count = one.burst(window, now_ns)
    frames = frames_in(b"".join(pieces))
    assert len(frames) == count
    return frames


def test_a_frame_has_the_shape_of_go_amqp():
    [frame] = burst(publisher(link_credit=1))
    assert frame.fields == [0, 0, bytes(8), 0]
    assert frame.payload == bytes.fromhex("005375 a00c 00000003 0000000000000000")
    [settled] = burst(publisher(link_credit=1, settled=True))
    assert settled.fields == [0, 0, bytes(8), 0, True]
    [durable] = burst(publisher(link_credit=1, durable=True))
    assert durable.payload.startswith(bytes.fromhex("005370 c002 01 41 005375"))


@pytest.mark.parametrize("count", [3, 300])
def test_delivery_id_tag_and_body_all_carry_the_sequence_number(count):
    one = publisher(messages=count, size=40)
    for number, frame in enumerate(burst(one)):
        assert frame.field(1) == number
        assert frame.field(2) == struct.pack(">Q", number)
        body = frame.payload[5:]
        assert body == struct.pack(">IQ", 3, number) + PlannedTraffic(size=40).padding()
    assert one.sent == count


def test_a_large_message_takes_several_frames_within_the_limit():
    unit = message_unit(THIRD, PlannedTraffic(size=2500), 1000)
    frames = frames_in(unit.data)
    assert [frame.field(5) for frame in frames] == [True, True, False]
    assert all(end - start <= 1000 for start, end in zip((0, *unit.frame_ends), unit.frame_ends, strict=False))
    payload = b"".join(frame.payload for frame in frames)
    assert payload == message_unit(THIRD, PlannedTraffic(size=2500), 131072).data[-len(payload) :]


def test_all_frames_of_a_large_message_are_numbered():
    one = publisher(max_frame_size=1000, size=2500, link_credit=2)
    frames = burst(one)
    assert [frame.field(1) for frame in frames] == [0, 0, 0, 1, 1, 1]
    assert frames[3].payload[8 : 8 + 12] == struct.pack(">IQ", 3, 1)


def test_too_small_frames_are_refused():
    with pytest.raises(WireError):
        message_unit(THIRD, PlannedTraffic(size=64), 50)


@given(link_credit=st.integers(0, 3000), window=st.integers(0, 3000), frames=st.sampled_from([1, 3]))
def test_never_beyond_link_credit_or_session_window(link_credit, window, frames):
    one = publisher(link_credit=link_credit, size=2500 if frames == 3 else 12, max_frame_size=1000)
    sent = len(burst(one, window))
    assert sent <= window
    assert one.sent == sent // frames <= link_credit
    assert sent % frames == 0
    if min(link_credit, window // frames):
        assert sent


def test_link_credit_counts_from_what_the_broker_has_seen():
    one = publisher(link_credit=10)
    burst(one)
    assert (one.sent, one.link_credit) == (10, 0)
    one.flow_received(4, 10)  # six are still on their way
    assert one.link_credit == 4
    one.flow_received(10, 3)
    assert one.link_credit == 3
    one.flow_received(4, 2)  # less than is already on its way
    assert one.link_credit == 0


def test_bulk_is_one_write_and_unbatched_one_per_frame():
    pieces, count = publisher().burst(PLENTY, 0)
    assert len(pieces) == 1
    assert BURST_BYTES_MAX - 54 <= len(pieces[0]) <= BURST_BYTES_MAX
    pieces, count = publisher(shape="unbatched").burst(PLENTY, 0)
    assert len(pieces) == count == BURST_FRAMES_MAX
    assert all(len(frames_in(bytes(piece))) == 1 for piece in pieces)


def test_in_flight_limits_what_is_unsettled():
    one = publisher(in_flight=5)
    assert len(burst(one)) == 5
    assert not burst(one)
    one.settled(0, 1, accepted=True, now_ns=0)
    assert len(burst(one)) == 2


def test_at_a_rate_a_message_carries_when_it_was_meant_to_go():
    one = publisher(application=FIRST, rate=1000.0, size=20)
    assert len(burst(one, now_ns=0)) == 1
    assert one.wake_ns(PLENTY) == 1_000_000
    assert not burst(one, now_ns=999_999)
    late = burst(one, now_ns=5_000_000)  # it was held up, and five are due by now
    assert [struct.unpack(">Q", frame.payload[-8:])[0] for frame in late] == [n * 1_000_000 for n in range(1, 6)]


def test_at_a_rate_every_intended_message_is_sent_however_late():
    one = publisher(application=FIRST, rate=10.0, seconds=1.0, size=20)
    assert len(burst(one, now_ns=60 * 10**9)) == 10
    assert not one.ready(PLENTY, 60 * 10**9)
    assert not one.finished
    one.settled(0, 9, accepted=True, now_ns=0)
    assert one.finished


def test_waiting_for_link_credit_needs_no_clock():
    one = publisher(application=FIRST, rate=1000.0, size=20, link_credit=1)
    burst(one)
    assert one.wake_ns(PLENTY) is None


def test_without_a_rate_time_ends_it():
    one = publisher(seconds=2.0)
    assert one.wake_ns(PLENTY) == 2 * 10**9
    assert not burst(one, now_ns=2 * 10**9)
    assert one.finished


def test_outcomes_are_counted():
    one = publisher(messages=4)
    burst(one)
    assert not one.ready(PLENTY, 0)
    one.settled(0, 1, accepted=True, now_ns=0)
    one.settled(2, 2, accepted=False, now_ns=0)
    assert (one.finished, one.refused, one.unconfirmed) == (False, 1, 1)
    one.settled(3, 3, accepted=True, now_ns=0)
    assert (one.finished, one.unconfirmed) == (True, 0)


def test_a_second_outcome_for_a_message_does_not_stand_for_a_missing_one():
    one = publisher(messages=2)
    burst(one)
    one.settled(0, 0, accepted=True, now_ns=0)
    one.settled(0, 0, accepted=True, now_ns=0)
    assert one.unconfirmed == 2


def test_confirms_are_timed_from_the_burst_that_sent_the_message():
    one = publisher(link_credit=4, timed=True, messages=6)
    burst(one, now_ns=0)
    one.settled(0, 2, accepted=True, now_ns=2_000_000)
    one.flow_received(4, 2)
    burst(one, now_ns=3_000_000)
    one.settled(3, 5, accepted=True, now_ns=8_000_000)
    assert one.latency is not None
    assert one.latency.get_total_count() == 6
    assert [one.latency.get_value_at_percentile(share) // 100 for share in (50, 80, 100)] == [20, 50, 80]


def test_what_holds_a_publisher_up_is_told_while_it_has_a_message_to_send():
    one = publisher(link_credit=2, messages=10, in_flight=5)
    assert one.held_up(PLENTY, 0) is None
    one.burst(PLENTY, 0)
    assert one.held_up(PLENTY, 0) == "link-credit"
    one.told = "queue-full"
    assert one.held_up(PLENTY, 0) == "queue-full"
    one.told = None
    one.flow_received(2, PLENTY)
    assert one.held_up(0, 0) == "session-window"
    one.burst(PLENTY, 0)
    assert (one.sent, one.held_up(PLENTY, 0)) == (5, "in-flight")
    one.settled(0, 4, accepted=True, now_ns=0)
    one.burst(PLENTY, 0)
    assert (one.sent, one.held_up(PLENTY, 0)) == (10, None)


def test_at_a_rate_nothing_is_held_up_before_it_is_due():
    one = publisher(application=FIRST, link_credit=1, rate=10.0, size=20, seconds=1.0)
    one.burst(PLENTY, 0)
    assert one.held_up(PLENTY, 99_000_000) is None
    assert one.held_up(PLENTY, 100_000_000) == "link-credit"


def test_at_a_rate_confirms_count_from_the_intended_time():
    one = publisher(application=FIRST, rate=10.0, size=20, seconds=1.0, timed=True)
    one.burst(PLENTY, 150_000_000)
    assert one.sent == 2
    one.settled(0, 1, accepted=True, now_ns=200_000_000)
    assert one.latency.get_max_value() == pytest.approx(200_000, rel=0.001)
    assert one.latency.get_min_value() == pytest.approx(100_000, rel=0.001)
