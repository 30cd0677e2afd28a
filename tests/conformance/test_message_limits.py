"""Messages at the limits of both protocols: the largest size, the most frames, the deepest nesting."""

import pytest

from amqp10.protocol.receiver_link import EMPTY_FRAMES_PER_DELIVERY_MAX
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.performatives import Detach, Disposition, End, Transfer
from amqp10.wire.sections import APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS, Header, encode_header, encode_section
from core.amqp091.methods import BasicPublish
from core.config.settings import Settings
from core.interface import Binding
from core.slices import run_at_once
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message
from tests.kit.wire091 import connect

MOST = 2000
"""The largest message of these brokers, in bytes."""
FRONT = encode_header(Header(first_acquirer=True)) + encode_section(MESSAGE_ANNOTATIONS, {})
"""The header that the broker puts in front of a message without header and annotations at its first delivery
[3.2.1]."""


def message_of(size: int) -> bytes:
    """A message of exactly this many bytes, sections included, in one data section."""
    message = data_message(bytes(index % 251 for index in range(size - 8)))
    assert len(message) == size
    return message


def attached(settings: Settings, **open_fields: object) -> tuple[InProcessBroker, WirePeer]:
    """A broker, and a client that may publish to its queue ``q``."""
    broker = InProcessBroker(settings)
    peer = broker.connect(**open_fields)
    peer.begin()
    peer.attach_sender(broker.queue())
    return broker, peer


@pytest.mark.parametrize("piece", [1, 7, 250, 400, 667, 999, 1000, 1001, 1999, 2000, 2001])
def test_the_largest_message_comes_in_and_goes_out_in_frames_of_any_size(piece: int):
    """The message ends at the edge of a frame, one byte before it, or one byte behind it."""
    broker, peer = attached(make_settings(amqp10={"max_message_size": MOST}), max_frame_size=512)
    message = message_of(MOST)
    peer.send_all(peer.frames_of(message, piece))
    assert peer.take(Disposition)
    assert not peer.take(Detach)
    assert broker.ready() == 1
    peer.attach_receiver("/queues/q")
    peer.grant(1)
    frames = peer.deliveries()
    assert [transfer.more for transfer, _ in frames] == [True] * (len(frames) - 1) + [False]
    assert b"".join(payload for _, payload in frames) == FRONT + message


@pytest.mark.parametrize("piece", [1, 400, 667, 999, 1000, 1001, 2000, 2001])
def test_one_byte_more_is_refused_and_leaves_nothing(piece: int):
    broker, peer = attached(make_settings(amqp10={"max_message_size": MOST}))
    peer.send_all(peer.frames_of(message_of(MOST + 1), piece))
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert not peer.take(End)
    assert broker.ready() == 0


@pytest.mark.parametrize("room", [0, 1, 2])
def test_the_largest_message_of_a_consumer_ends_at_the_edge_of_a_frame(room: int):
    """The message is sent in frames that it fills, or fills but for a byte. The header that the broker puts in front
    counts [2.7.3]. A consumer that takes one byte less is detached, and the message is kept."""
    broker, peer = attached(Settings(), max_frame_size=512)
    peer.attach_receiver("/queues/q")
    peer.grant(2)
    for _ in range(2):
        peer.transfer(payload=message_of(MOST))
    per_frame = len(peer.deliveries()[-2][1])
    peer.detach(1)
    size = 4 * per_frame - room
    run_at_once(broker.engine.purge_queue("q", broker))
    peer.transfer(payload=message_of(size - len(FRONT)))
    peer.attach_receiver("/queues/q", handle=3, max_message_size=size - 1)
    peer.grant(1, handle=3)
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert broker.ready() == 1
    run_at_once(broker.engine.purge_queue("q", broker))
    peer.transfer(payload=message_of(size - len(FRONT)))
    peer.frames.clear()
    peer.attach_receiver("/queues/q", handle=4, max_message_size=size)
    peer.grant(1, handle=4)
    assert [len(payload) for _, payload in peer.deliveries()] == [per_frame] * 3 + [per_frame - room]


def test_the_largest_message_of_the_default_settings():
    """The message has 16 MiB, in frames of 128 KiB."""
    broker, peer = attached(Settings(), max_frame_size=131_072)
    most = broker.settings.amqp10.max_message_size
    message = message_of(most)
    peer.send_all(peer.frames_of(message, 131_072 - 64))
    assert broker.ready() == 1
    peer.attach_receiver("/queues/q", max_message_size=most + len(FRONT))
    peer.grant(1)
    assert b"".join(payload for _, payload in peer.deliveries()) == FRONT + message
    peer.send_all(peer.frames_of(message + b"\x00", 131_072 - 64))
    assert peer.detached_with("amqp:link:message-size-exceeded")


@pytest.mark.parametrize("size", [MOST - 1, MOST])
def test_the_largest_message_of_amqp_091(size: int):
    """In AMQP 0.9.1 the body counts. A consumer of the other protocol gets the same body."""
    settings = make_settings(amqp091={"max_message_size": MOST})
    broker = InProcessBroker()
    peer = connect(broker, settings=settings)
    peer.declare("q")
    body = bytes(index % 251 for index in range(size))
    peer.publish(1, [body, body], routing_key="q")
    peer.consume("q", no_ack=True)
    assert peer.bodies() == [body, body]
    peer.publish(1, [body + b"x" * (MOST + 1 - size)], routing_key="q")
    code, text = peer.reopened(1)
    assert code == 406
    assert str(MOST) in text
    assert broker.ready() == 0


def test_a_content_of_amqp_091_is_refused_by_its_header():
    """The refusal does not wait for the body."""
    broker = InProcessBroker()
    peer = connect(broker, settings=make_settings(amqp091={"max_message_size": MOST}))
    peer.declare("q")
    peer.send(1, BasicPublish(routing_key="q"))
    header = (60).to_bytes(2, "big") + bytes(2) + (MOST + 1).to_bytes(8, "big") + bytes(2)
    peer.send_bytes(b"\x02\x00\x01" + len(header).to_bytes(4, "big") + header + b"\xce")
    assert peer.reopened(1)[0] == 406


# --- frames without payload ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("empty", "accepted"), [(EMPTY_FRAMES_PER_DELIVERY_MAX, True), (EMPTY_FRAMES_PER_DELIVERY_MAX + 1, False)]
)
def test_frames_without_payload(empty: int, accepted: bool):
    """One delivery may have 1,024 of them, and no more."""
    broker, peer = attached(Settings())
    peer.transfer(b"", payload=data_message(b"m")[:2], more=True)
    for start in range(0, empty, 100):
        peer.send_all([(Transfer(handle=0, more=True), b"")] * min(100, empty - start))
    peer.send(Transfer(handle=0), data_message(b"m")[2:])
    assert broker.ready() == accepted
    assert peer.detached_with("amqp:link:transfer-limit-exceeded") is not accepted


# --- nesting ---------------------------------------------------------------------------------------------------------


def deep(lists: int) -> bytes:
    """The encoding of this many lists in each other, deeper than our encoder goes."""
    value = b"\x54\x01"
    for _ in range(lists):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + value
    return value


def section(descriptor: int, *items: bytes) -> bytes:
    """A section that is a map of these keys and values."""
    inside = len(items).to_bytes(4, "big") + b"".join(items)
    return b"\x00\x53" + bytes([descriptor]) + b"\xd1" + len(inside).to_bytes(4, "big") + inside


@pytest.mark.parametrize(("lists", "accepted"), [(DEPTH_MAX - 1, True), (DEPTH_MAX, False)])
def test_annotations_are_looked_into_and_may_be_64_levels_deep(lists: int, accepted: bool):
    """The section's map is one of the levels."""
    broker, peer = attached(Settings())
    annotations = section(MESSAGE_ANNOTATIONS, b"\xa3\x06x-deep", deep(lists))
    peer.transfer(payload=annotations + data_message(b"m"))
    assert broker.ready() == accepted
    assert peer.detached_with("amqp:decode-error") is not accepted


@pytest.mark.parametrize(("lists", "compared"), [(0, True), (DEPTH_MAX - 1, True), (DEPTH_MAX, False), (3000, False)])
def test_application_properties_are_not_looked_into_and_may_be_nested(lists: int, compared: bool):
    """Application properties are the publisher's, and leave as they came [3.2.5]. To compare headers the broker must
    read them. It reads 64 levels: a message with more is routed as one without headers."""
    broker, peer = attached(Settings())
    broker.queue("red")
    exchange = "amq.headers"
    broker.engine.bind(
        Binding(
            source=exchange,
            destination="red",
            destination_is_queue=True,
            binding_key="",
            arguments={"color": "red"},
        ),
        broker,
    )
    plain = (b"\xa1\x05color", b"\xa1\x03red")
    message = section(APPLICATION_PROPERTIES, *plain, b"\xa1\x04deep", deep(lists)) + data_message(b"m")
    peer.transfer(payload=message)
    assert broker.ready() == 1
    peer.attach_receiver("/queues/q")
    peer.grant(1)
    ((_, payload),) = peer.deliveries()
    assert payload == FRONT + message
    peer.attach_sender(f"/exchanges/{exchange}", handle=5)
    peer.transfer(handle=5, payload=message)
    assert broker.ready("red") == compared
