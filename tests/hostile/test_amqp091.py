"""Bad input on AMQP 0.9.1. Each is answered with the code that the specification has for it, on the channel or on the
connection, and no other client is disturbed."""

from collections.abc import Iterator

import pytest

from core.amqp091.framing import PROTOCOL_HEADER, FrameType, encode_frame, method_frame
from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.kit.amqp091_peer import body_frame, header_frame
from tests.kit.hostile091 import Arena091, end, nested_table, raw_method
from tests.kit.settings import make_settings
from tests.kit.wire import numbered
from tests.kit.wire091 import connect, published

PUBLISH = method_frame(1, BasicPublish(routing_key="q"))
CONNECTION, CHANNEL = "connection", "channel"


@pytest.fixture
def arena() -> Iterator[Arena091]:
    """A broker to attack."""
    arena = Arena091()
    yield arena
    arena.finish()


def declare_with(table: bytes) -> bytes:
    """A queue.declare whose arguments may be any bytes."""
    return raw_method(1, 50, 10, b"\0\0\1q\0" + table)


BAD_INPUT = {
    "garbage": (b"\xff" * 64, (CONNECTION, 501)),
    "a frame over frame_max": (encode_frame(FrameType.BODY, 1, bytes(131_072 + 8)), (CONNECTION, 501)),
    "the head of such a frame": (b"\x03\x00\x01\xff\xff\xff\xff", (CONNECTION, 501)),
    "a wrong end byte": (PUBLISH[:-1] + b"\x00", (CONNECTION, 501)),
    "an unknown frame type": (b"\x07\0\1\0\0\0\0\xce", (CONNECTION, 501)),
    "a method without ids": (encode_frame(FrameType.METHOD, 1, b"\0"), (CONNECTION, 502)),
    "a method that is cut": (raw_method(1, 50, 10, b"\0\0\x05q"), (CONNECTION, 502)),
    "an unknown class": (raw_method(1, 99, 10), (CONNECTION, 540)),
    "an unknown method": (raw_method(1, 60, 999), (CONNECTION, 540)),
    "a name that is not UTF-8": (raw_method(1, 50, 10, b"\0\0\2\xc3\x28\0\0\0\0\0"), (CONNECTION, 502)),
    "a table of an unknown type": (declare_with(b"\0\0\0\3\1k?"), (CONNECTION, 502)),
    "a table that claims 4 GiB": (declare_with(b"\xff\xff\xff\xff"), (CONNECTION, 502)),
    "tables nested too deep": (declare_with(nested_table(1000)), (CONNECTION, 502)),
    "a channel that is not open": (method_frame(9, QueueDeclare(queue="q")), (CONNECTION, 504)),
    "a channel that is opened twice": (method_frame(1, ChannelOpen()), (CONNECTION, 504)),
    "a channel above channel_max": (method_frame(60_000, ChannelOpen()), (CONNECTION, 530)),
    "content on channel 0": (encode_frame(FrameType.HEADER, 0, bytes(14)), (CONNECTION, 504)),
    "a header without a publish": (header_frame(1, 5), (CONNECTION, 505)),
    "a body without a header": (PUBLISH + body_frame(1, b"x"), (CONNECTION, 505)),
    "a method instead of a header": (PUBLISH + PUBLISH, (CONNECTION, 505)),
    "a method amid a body": (
        PUBLISH + header_frame(1, 5) + body_frame(1, b"x") + method_frame(1, BasicQos()),
        (CONNECTION, 505),
    ),
    "a second header": (PUBLISH + header_frame(1, 5) + header_frame(1, 5), (CONNECTION, 505)),
    "a body that is larger than announced": (
        PUBLISH + header_frame(1, 5) + body_frame(1, b"123456"),
        (CONNECTION, 501),
    ),
    "a header of another class": (PUBLISH + header_frame(1, 5, class_id=50), (CONNECTION, 505)),
    "a header that is cut": (PUBLISH + encode_frame(FrameType.HEADER, 1, bytes(9)), (CONNECTION, 502)),
    "unknown property flags": (
        PUBLISH + encode_frame(FrameType.HEADER, 1, b"\0\x3c\0\0" + bytes(8) + b"\0\2"),
        (CONNECTION, 502),
    ),
    "a message over max_message_size": (PUBLISH + header_frame(1, 2**40), (CHANNEL, 406)),
    "a method that servers send": (method_frame(1, BasicDeliver(consumer_tag="t", delivery_tag=1)), (CONNECTION, 503)),
    "an answer to nothing": (method_frame(1, QueueDeclareOk(queue="q")), (CONNECTION, 503)),
    "a method of the connection on a channel": (method_frame(1, ConnectionOpen()), (CONNECTION, 503)),
    "an opening in the middle": (method_frame(0, ConnectionOpen()), (CONNECTION, 503)),
    "an unknown delivery tag": (method_frame(1, BasicAck(delivery_tag=5)), (CHANNEL, 406)),
    "delivery tag 0": (method_frame(1, BasicAck()), (CHANNEL, 406)),
    "all up to an unknown delivery tag": (method_frame(1, BasicAck(delivery_tag=9, multiple=True)), (CHANNEL, 406)),
    "immediate": (method_frame(1, BasicPublish(routing_key="q", immediate=True)), (CONNECTION, 540)),
    "flow off": (method_frame(1, ChannelFlow(active=False)), (CONNECTION, 540)),
    "a prefetch in bytes": (method_frame(1, BasicQos(prefetch_size=9)), (CONNECTION, 540)),
    "a missing exchange": (published(1, [b"x"], exchange="missing", routing_key="k"), (CHANNEL, 404)),
    "a missing queue": (method_frame(1, BasicConsume(queue="missing")), (CHANNEL, 404)),
}


def expected(name: str) -> tuple[str, int]:
    return BAD_INPUT[name][1]


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_ends_what_it_should(arena: Arena091, name: str):
    data, outcome = BAD_INPUT[name]
    attacker = arena.attacker()
    attacker.send_bytes(data + method_frame(2, QueueDeclare(queue="q", passive=True)))
    arena.bystander.round()
    other_channel_lives = any(isinstance(method, QueueDeclareOk) for _, method, _ in attacker.received)
    assert end(attacker) == outcome
    assert other_channel_lives == (outcome[0] == CHANNEL)


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_byte_by_byte(arena: Arena091, name: str):
    data, outcome = BAD_INPUT[name]
    attacker = arena.attacker()
    for at in range(min(len(data), 400)):
        attacker.send_bytes(data[at : at + 1])
    attacker.send_bytes(data[400:])
    assert end(attacker) == outcome


@pytest.mark.parametrize("name", [name for name in BAD_INPUT if expected(name)[0] == CONNECTION])
def test_after_the_close_nothing_is_done(arena: Arena091, name: str):
    attacker = arena.attacker()
    attacker.send_bytes(BAD_INPUT[name][0])
    attacker.take()
    attacker.publish(2, numbered(100), routing_key="q")
    attacker.send(2, BasicConsume(queue="q"))
    assert attacker.take() == []
    assert arena.broker.ready() == 20
    arena.broker.advance(10.0)
    assert attacker.lost, "and who does not answer is cut off"


BEFORE_OPEN = {
    "another protocol": b"GET / HTTP/1.1\r\n",
    "a method before the login": PROTOCOL_HEADER + method_frame(0, ConnectionTuneOk()),
    "a channel before the login": PROTOCOL_HEADER + method_frame(1, ChannelOpen()),
    "an unknown mechanism": PROTOCOL_HEADER + method_frame(0, ConnectionStartOk(mechanism="MAGIC")),
    "a publish before the login": PROTOCOL_HEADER + published(1, [b"x"], routing_key="q"),
    "garbage behind the header": PROTOCOL_HEADER + b"\xff" * 4096,
    "4 GiB": PROTOCOL_HEADER + b"\x01\x00\x00\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", BEFORE_OPEN.values(), ids=BEFORE_OPEN)
def test_before_the_connection_is_open(arena: Arena091, data: bytes):
    stranger = arena.stranger()
    stranger.send_bytes(data)
    arena.bystander.round()
    arena.broker.advance(10.0)
    assert stranger.lost
    assert not stranger.front_end.established


def test_methods_on_a_closed_channel_are_dropped_until_it_is_answered(arena: Arena091):
    attacker = arena.attacker()
    attacker.send_bytes(published(1, [b"x"], exchange="missing", routing_key="k"))
    attacker.take()
    for _ in range(100):
        attacker.send_bytes(
            method_frame(1, ConfirmSelect())
            + published(1, numbered(3), routing_key="q")
            + method_frame(1, BasicAck(delivery_tag=7))
            + header_frame(1, 5)
        )
    assert attacker.take() == []
    assert arena.broker.ready() == 20
    attacker.send(1, ChannelCloseOk(), ChannelOpen())
    assert attacker.expect(ChannelOpenOk) == ChannelOpenOk()


def test_both_sides_close_at_once(arena: Arena091):
    attacker = arena.attacker()
    attacker.send_bytes(
        method_frame(1, BasicAck(delivery_tag=7))
        + method_frame(1, ChannelClose(reply_code=200))
        + method_frame(1, ChannelCloseOk())
        + method_frame(1, ChannelOpen())
    )
    kinds = [type(method) for _, method, _ in attacker.take()]
    assert kinds == [ChannelClose, ChannelCloseOk, ChannelOpenOk]


def test_a_close_is_answered_even_behind_a_stopped_queue(arena: Arena091):
    attacker = arena.attacker()
    arena.broker.stall()
    attacker.publish(1, numbered(100), routing_key="q")
    attacker.send(0, ConnectionClose(reply_code=200))
    assert attacker.expect(ConnectionCloseOk) == ConnectionCloseOk()
    assert attacker.lost
    arena.broker.recover()


def test_a_flood_into_a_stopped_queue_stays_in_the_socket(arena: Arena091):
    attacker = arena.attacker(*range(1, 51))
    arena.broker.stall()
    for channel in range(1, 51):
        attacker.publish(channel, [bytes(100)] * 1000, routing_key="q")
        arena.bystander.round()
    assert len(attacker.unread) > 40 * 1000 * 100
    attacker.disconnect()
    arena.broker.recover()


def test_consumers_as_many_as_there_may_be():
    arena = Arena091(consumers_max=100)
    attacker = arena.attacker()
    attacker.send_bytes(b"".join(method_frame(1, BasicConsume(queue="q", no_wait=True)) for _ in range(101)))
    assert end(attacker) == (CHANNEL, 406)
    assert arena.broker.engine.queue_info("q", None).consumers == 0
    arena.finish()


def test_partial_messages_are_bounded_over_all_channels():
    settings = make_settings(amqp091={"max_message_size": 100_000, "partial_content_bytes_max": 200_000})
    arena = Arena091()
    attacker = connect(arena.broker, 1, 2, 3, settings=settings)
    ends = []
    for channel in (1, 2, 3):
        attacker.send_bytes(
            method_frame(channel, BasicPublish(routing_key="q"))
            + header_frame(channel, 100_000)
            + body_frame(channel, bytes(90_000))
        )
        ends.append(end(attacker))
    assert ends == [("nothing", 0), ("nothing", 0), (CHANNEL, 311)]
    arena.finish()
