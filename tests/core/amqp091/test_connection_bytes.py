"""The same bytes give the same events and answers however they are cut, and no bytes do more harm than a close."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.amqp091.errors import ChannelFault, ReplyCode
from core.amqp091.events import (
    AcksReceived,
    Amqp091ConnectionClosed,
    ChannelClosed,
    ChannelOpened,
    Event,
    PublishesReceived,
)
from core.amqp091.framing import FRAME_MIN_SIZE, HEARTBEAT_FRAME, PROTOCOL_HEADER, FrameType, encode_frame, method_frame
from core.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    TxSelect,
)
from core.amqp091.properties import BasicProperties
from core.config.amqp091 import Amqp091Settings
from core.message import each_of
from tests.kit.amqp091_peer import Peer, body_frame, header_frame, opening, publish

SETTINGS = Amqp091Settings(channel_max=3, frame_max=FRAME_MIN_SIZE, max_message_size=60, partial_content_bytes_max=100)
OPENING = opening(channel_max=3, frame_max=FRAME_MIN_SIZE)


def told(events: Iterable[Event]) -> list[object]:
    """Events with their runs taken apart, because the length of a run depends on how the bytes come."""
    single: list[object] = []
    for event in events:
        if isinstance(event, PublishesReceived):
            for run in event.runs:
                count = len(run.entries)
                each = zip(each_of(run.routing_key, count), each_of(run.needed, count), run.entries, strict=True)
                single += [(event.channel, run.exchange, run.mandatory, *one) for one in each]
        elif isinstance(event, AcksReceived):
            single += [(event.channel, tags) for tags in _singles(event.ranges)]
        else:
            single.append(event)
    return single


def _singles(ranges: Iterable[tuple[int, int]]) -> Iterable[object]:
    for first, last in ranges:
        yield from [("up to", last)] if first == 0 else range(first, last + 1)


class Conversation:
    """A connection whose front end agrees to everything."""

    def __init__(self) -> None:
        self.peer = Peer(SETTINGS)
        self.events: list[Event] = []

    def say(self, data: bytes) -> None:
        self.peer.connection.receive_data(data, 0.0)
        while event := self.peer.connection.next_event(lambda channel: 2, 0.0):
            self.events.append(event)
            match event:
                case ChannelClosed(channel, by_peer=True):
                    self.peer.connection.accept_channel_close(channel)
                case Amqp091ConnectionClosed(by_peer=True):
                    self.peer.connection.accept_close()

    def result(self) -> tuple[list[object], object, bool]:
        return told(self.events), self.peer.heard(), self.peer.connection.finished


def conversation(pieces: Iterable[bytes]) -> Conversation:
    made = Conversation()
    for piece in pieces:
        made.say(piece)
    return made


def cut(data: bytes, positions: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(positions), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds)]


WELL_BEHAVED = OPENING + b"".join(
    [
        method_frame(1, ChannelOpen()),
        method_frame(2, ChannelOpen()),
        method_frame(1, QueueDeclare(queue="q", durable=True)),
        *(publish(1, bytes([number]) * 12) for number in range(3)),
        *(publish(1, b"", properties=BasicProperties(delivery_mode=2)) for _ in range(2)),
        publish(2, b"0123456789", body_frame_bytes=4, method=BasicPublish(exchange="x", mandatory=True)),
        HEARTBEAT_FRAME,
        *(method_frame(2, BasicAck(delivery_tag=tag)) for tag in (1, 2, 3)),
        method_frame(2, BasicAck(delivery_tag=7, multiple=True)),
        publish(1, b"x" * 61),
        method_frame(1, ChannelCloseOk()),
        method_frame(1, ChannelOpen()),
        method_frame(1, ChannelFlow(active=True)),
        method_frame(2, ChannelClose(reply_code=200)),
        method_frame(0, ConnectionClose(reply_code=200)),
    ]
)
WHOLE = conversation([WELL_BEHAVED]).result()


def test_a_long_conversation_goes_as_expected():
    events, _, finished = WHOLE
    assert finished
    assert [
        event for event in events if isinstance(event, ChannelOpened | ChannelClosed | Amqp091ConnectionClosed)
    ] == [
        ChannelOpened(1),
        ChannelOpened(2),
        ChannelClosed(1, by_peer=False),
        ChannelOpened(1),
        ChannelClosed(2, by_peer=True),
        Amqp091ConnectionClosed(200, "", by_peer=True),
    ]
    assert len([event for event in events if isinstance(event, tuple)]) == 6 + 4


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 21, 50])
def test_pieces_of_one_size(size):
    assert conversation(cut(WELL_BEHAVED, range(size, len(WELL_BEHAVED), size))).result() == WHOLE


def test_one_cut_at_every_place():
    for position in range(len(WELL_BEHAVED) + 1):
        assert conversation(cut(WELL_BEHAVED, [position])).result() == WHOLE


@given(st.lists(st.integers(0, len(WELL_BEHAVED)), max_size=12))
def test_cuts_anywhere(positions):
    assert conversation(cut(WELL_BEHAVED, positions)).result() == WHOLE


CHANNELS = st.integers(0, 4)
METHODS = st.sampled_from(
    [
        ChannelOpen(),
        ChannelOpen(),
        ChannelOpen(),
        ChannelClose(reply_code=200),
        ChannelCloseOk(),
        ChannelFlow(active=True),
        QueueDeclare(queue="q"),
        TxSelect(),
        BasicPublish(routing_key="q"),
        BasicAck(delivery_tag=1),
        BasicAck(delivery_tag=0),
        ConnectionClose(reply_code=200),
        ConnectionCloseOk(),
    ]
)
BODIES = st.binary(max_size=70)
FRAMES = st.one_of(
    st.builds(method_frame, CHANNELS, METHODS),
    st.builds(publish, CHANNELS, BODIES, body_frame_bytes=st.integers(10, 80)),
    st.builds(publish, st.integers(1, 3), BODIES, body_frame_bytes=st.integers(10, 80)),
    st.builds(header_frame, CHANNELS, st.integers(0, 70)),
    st.builds(body_frame, CHANNELS, BODIES),
    st.builds(encode_frame, st.sampled_from(FrameType), CHANNELS, BODIES),
    st.just(HEARTBEAT_FRAME),
)
CHANNELS_OPENED = b"".join(method_frame(channel, ChannelOpen()) for channel in (1, 2))


@given(st.lists(FRAMES, max_size=12), st.integers(0, 2**32), st.integers(1, 40))
def test_frames_in_any_order_are_the_same_however_they_are_cut(frames, seed, piece_bytes_max):
    data = OPENING + CHANNELS_OPENED + b"".join(frames)
    random = Random(seed)
    positions, position = [], 0
    while position < len(data):
        position += random.randint(1, piece_bytes_max)
        positions.append(min(position, len(data)))
    assert conversation(cut(data, positions)).result() == conversation([data]).result()


def check_lives(events: Iterable[Event]) -> None:
    """Check that each open channel closes at most once before it opens again, and that nothing follows the connection's
    close."""
    opened: set[int] = set()
    over = False
    for event in events:
        assert not over, "an event after the connection's close"
        match event:
            case ChannelOpened(channel):
                assert channel not in opened
                opened.add(channel)
            case ChannelClosed(channel):
                opened.remove(channel)
            case PublishesReceived(channel=channel) | AcksReceived(channel=channel):
                assert channel in opened
            case Amqp091ConnectionClosed():
                over = True


@given(st.lists(FRAMES, max_size=20))
def test_channels_live_and_die_in_order(frames):
    made = conversation([OPENING, CHANNELS_OPENED, *frames])
    made.peer.connection.receive_eof()
    made.say(b"")
    check_lives(made.events)
    assert isinstance(made.events[-1], Amqp091ConnectionClosed)
    assert made.peer.connection.finished


@given(st.lists(FRAMES | st.binary(max_size=40), max_size=20), st.data())
@settings(max_examples=100)
def test_a_byte_changed_anywhere_raises_nothing_and_keeps_no_more_than_allowed(pieces, data):
    stream = bytearray(OPENING + CHANNELS_OPENED + b"".join(pieces))
    for _ in range(data.draw(st.integers(0, 3))):
        stream[data.draw(st.integers(len(PROTOCOL_HEADER), len(stream) - 1))] = data.draw(st.integers(0, 255))
    made = conversation([bytes(stream)])
    check_lives(made.events)
    connection = made.peer.connection
    assert connection.output.size < 2000 + 20 * len(stream)
    connection.fail_channel(1, ChannelFault(ReplyCode.NOT_FOUND, "no queue"))
    made.peer.wait(10.0)
    made.peer.heard()


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_raise_nothing(data):
    for prefix in (b"", OPENING, OPENING[:8]):
        check_lives(conversation([prefix, data]).events)
