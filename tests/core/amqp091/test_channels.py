"""The channels of a connection: what the peer may do on them, and what it may not do."""

import pytest

from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.events import (
    AcksReceived,
    ChannelClosed,
    ChannelOpened,
    MethodReceived,
    PublishesReceived,
)
from core.amqp091.framing import (
    FRAME_MIN_SIZE,
    HEARTBEAT_FRAME,
    FrameType,
    encode_frame,
    method_frame,
)
from core.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
)
from core.amqp091.properties import BasicProperties, encode_properties
from tests.kit.amqp091_peer import (
    Peer,
    assert_channel_closed,
    assert_connection_closed,
    body_frame,
    header_frame,
    opened,
    publish,
)

NOT_FOUND = ChannelFault(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'", 50, 10)
NOT_FOUND_CLOSE = ChannelClose(
    reply_code=404, reply_text="NOT_FOUND - no queue 'q' in vhost '/'", class_id=50, method_id=10
)
FORCED = Amqp091ConnectionFault(ReplyCode.CONNECTION_FORCED, "the operator wants it")
NO_PROPERTIES = encode_properties(BasicProperties())


# --- channels --------------------------------------------------------------------------------------------------------


def test_methods_come_as_events_and_answers_go_out():
    one = opened(1)
    assert one.call(1, QueueDeclare(queue="q"), TxSelect()) == [
        MethodReceived(1, QueueDeclare(queue="q")),
        MethodReceived(1, TxSelect()),
    ]
    one.connection.send(1, QueueDeclareOk(queue="q"))
    one.connection.send(0, ConnectionBlocked(reason="low on memory"))
    one.connection.write(method_frame(1, QueueDeclareOk(queue="r")))
    assert one.connection.output.size > 0
    assert one.heard() == [
        (1, QueueDeclareOk(queue="q")),
        (0, ConnectionBlocked(reason="low on memory")),
        (1, QueueDeclareOk(queue="r")),
    ]
    assert one.connection.output.size == 0


def test_the_peer_closes_a_channel_and_hears_so_when_we_are_done():
    one = opened(1)
    assert one.call(1, QueueDeclare(), ChannelClose(reply_code=200), QueueDeclare()) == [
        MethodReceived(1, QueueDeclare()),
        ChannelClosed(1, by_peer=True),
    ]
    assert one.heard() == []
    one.connection.send(1, QueueDeclareOk(queue="q"))
    one.connection.accept_channel_close(1)
    one.connection.send(1, QueueDeclareOk(queue="late"))
    one.connection.accept_channel_close(1)
    assert one.heard() == [(1, QueueDeclareOk(queue="q")), (1, ChannelCloseOk())]
    assert one.call(1, ChannelOpen()) == [ChannelOpened(1)]


def test_a_channel_that_the_peer_has_closed_cannot_be_opened_before_the_answer():
    one = opened(1)
    one.call(1, ChannelClose(reply_code=200))
    assert_connection_closed(one, ReplyCode.CHANNEL_ERROR, one.call(1, ChannelOpen()))


def test_failing_a_channel_that_the_peer_has_closed_answers_its_close():
    one = opened(1)
    one.call(1, ChannelClose(reply_code=200))
    one.connection.fail_channel(1, NOT_FOUND)
    assert one.events() == []
    assert one.heard() == [(1, ChannelCloseOk())]


def test_after_a_channel_was_failed_it_is_deaf_but_for_the_answer():
    one = opened(1, 2)
    one.connection.fail_channel(1, NOT_FOUND)
    one.connection.fail_channel(1, NOT_FOUND)
    assert one.events() == [ChannelClosed(1, by_peer=False)]
    assert one.heard() == [(1, NOT_FOUND_CLOSE)]
    one.connection.send(1, QueueDeclareOk(queue="late"))
    late = method_frame(1, QueueDeclare()) + publish(1, b"body") + method_frame(1, ChannelOpen())
    assert one.say(late + encode_frame(FrameType.METHOD, 1, b"?") + body_frame(1, b"x")) == []
    assert one.call(2, TxSelect()) == [MethodReceived(2, TxSelect())]
    assert one.call(1, ChannelCloseOk(), ChannelOpen()) == [ChannelOpened(1)]
    assert one.heard() == [(1, ChannelOpenOk())]


@pytest.mark.parametrize("answered", [True, False])
def test_closes_of_one_channel_that_cross(answered):
    one = opened(1)
    one.connection.fail_channel(1, NOT_FOUND)
    one.heard()
    one.events()
    assert one.call(1, ChannelClose(reply_code=200)) == []
    assert one.heard() == [(1, ChannelCloseOk())]
    if answered:
        one.call(1, ChannelCloseOk())
    assert one.call(1, ChannelOpen()) == [ChannelOpened(1)]
    assert one.connection.channel_is_open(1)


def test_flow_is_on_and_stays_on():
    one = opened(1)
    assert one.call(1, ChannelFlow(active=True)) == []
    assert one.heard() == [(1, ChannelFlowOk(active=True))]
    assert_connection_closed(one, ReplyCode.NOT_IMPLEMENTED, one.call(1, ChannelFlow(active=False)))


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (method_frame(1, ChannelOpen()), ReplyCode.CHANNEL_ERROR),
        (method_frame(2, QueueDeclare()), ReplyCode.CHANNEL_ERROR),
        (method_frame(2, ChannelCloseOk()), ReplyCode.CHANNEL_ERROR),
        (body_frame(2, b"x"), ReplyCode.CHANNEL_ERROR),
        (publish(2, b"body"), ReplyCode.CHANNEL_ERROR),
        (method_frame(2048, ChannelOpen()), ReplyCode.NOT_ALLOWED),
        (method_frame(1, ChannelCloseOk()), ReplyCode.COMMAND_INVALID),
        (method_frame(1, QueueDeclareOk(queue="q")), ReplyCode.COMMAND_INVALID),
        (method_frame(1, BasicDeliver(consumer_tag="c", delivery_tag=1)), ReplyCode.COMMAND_INVALID),
        (method_frame(1, ConnectionOpen()), ReplyCode.COMMAND_INVALID),
        (method_frame(1, ConnectionClose(reply_code=200)), ReplyCode.COMMAND_INVALID),
        (method_frame(0, ConnectionOpen()), ReplyCode.COMMAND_INVALID),
        (method_frame(0, ConnectionCloseOk()), ReplyCode.COMMAND_INVALID),
        (method_frame(0, ChannelOpen()), ReplyCode.COMMAND_INVALID),
        (method_frame(0, QueueDeclare()), ReplyCode.COMMAND_INVALID),
        (header_frame(0, 1), ReplyCode.CHANNEL_ERROR),
        (body_frame(0, b"x"), ReplyCode.CHANNEL_ERROR),
        (encode_frame(FrameType.METHOD, 1, b"\x00\x3c\x03\xe7"), ReplyCode.NOT_IMPLEMENTED),
        (encode_frame(FrameType.METHOD, 1, b"\x03\xe7\x00\x0a"), ReplyCode.NOT_IMPLEMENTED),
        (encode_frame(FrameType.METHOD, 1, b"\x00"), ReplyCode.SYNTAX_ERROR),
        (encode_frame(FrameType.METHOD, 1, b"\x00\x32\x00\x0a\x00"), ReplyCode.SYNTAX_ERROR),
        (encode_frame(FrameType.METHOD, 0, b""), ReplyCode.SYNTAX_ERROR),
        (header_frame(1, 1), ReplyCode.UNEXPECTED_FRAME),
        (body_frame(1, b"x"), ReplyCode.UNEXPECTED_FRAME),
        (method_frame(1, BasicPublish(immediate=True)), ReplyCode.NOT_IMPLEMENTED),
    ],
)
def test_what_ends_the_connection(frames, code):
    one = opened(1)
    assert_connection_closed(one, code, one.say(frames))


@pytest.mark.parametrize(
    "frame",
    [
        b"\x01\x00\x01\x00\x00\x00\x01?!",
        b"\x04\x00\x00\x00\x00\x00\x00\xce",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\x08\x00\x01\x00\x00\x00\x00\xce",
        b"\x08\x00\x00\x00\x00\x00\x01x\xce",
        b"\x03\x00\x01" + (131_072 + 1).to_bytes(4),
    ],
)
def test_after_a_frame_that_cannot_be_right_nothing_is_read(frame):
    one = opened(1)
    events = one.say(frame)
    assert_connection_closed(one, ReplyCode.FRAME_ERROR, events)
    one.call(0, ConnectionCloseOk())
    assert not one.connection.finished
    one.wait(1.0)
    assert one.connection.finished


def test_a_frame_may_be_larger_than_agreed_by_its_overhead():
    one = Peer().open(1, frame_max=FRAME_MIN_SIZE)
    body = b"x" * FRAME_MIN_SIZE
    (published,) = one.say(publish(1, body, body_frame_bytes=FRAME_MIN_SIZE))
    assert isinstance(published, PublishesReceived)
    assert published.runs[0].entries[0].endswith(body)
    too_large = body_frame(1, b"x" * (FRAME_MIN_SIZE + 1))
    assert_connection_closed(one, ReplyCode.FRAME_ERROR, one.say(too_large[:7]))


# --- contents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_message_is_the_same_in_however_many_frames(step):
    one = opened(1)
    method = BasicPublish(exchange="x", routing_key="k", mandatory=True)
    properties = BasicProperties(content_type="text/plain", delivery_mode=2)
    (published,) = one.say(publish(1, b"12345", method=method, properties=properties, body_frame_bytes=step))
    assert isinstance(published, PublishesReceived)
    encoded = encode_properties(properties)
    entry = b"\x00\x3c\x00\x00" + (5).to_bytes(8) + encoded + b"12345"
    [run] = published.runs
    assert (published.channel, published.count) == (1, 1)
    assert (run.exchange, run.routing_key, run.mandatory, run.needed, run.entries) == (
        "x",
        "k",
        True,
        encode_properties(BasicProperties(delivery_mode=2)),
        [entry],
    )


@pytest.mark.parametrize("empty_frames", [0, 3])
def test_empty_bodies_and_empty_frames_of_a_body(empty_frames):
    one = opened(1)
    (published,) = one.say(publish(1, b""))
    assert isinstance(published, PublishesReceived)
    assert published.runs[0].entries == [b"\x00\x3c\x00\x00" + bytes(8) + NO_PROPERTIES]
    head = method_frame(1, BasicPublish()) + header_frame(1, 2)
    (published,) = one.say(head + body_frame(1, b"") * empty_frames + body_frame(1, b"ab"))
    assert isinstance(published, PublishesReceived)
    assert published.runs[0].entries[0].endswith(b"ab")


def test_like_messages_come_as_a_run_of_as_many_as_there_may_be():
    one = opened(1)
    one.publishes_max = 3
    events = one.say(b"".join(publish(1, bytes((number,))) for number in range(8)))
    assert all(isinstance(event, PublishesReceived) for event in events)
    assert [event.count for event in events] == [3, 3, 2]
    assert [entry[-1] for event in events for run in event.runs for entry in run.entries] == list(range(8))


def test_how_many_there_may_be_is_asked_for_each_channel():
    one = opened(1, 2)
    one.connection.receive_data((publish(1, b"a") + publish(2, b"b")) * 2, 0.0)
    asked = []

    def publishes_max(channel: int) -> int:
        asked.append(channel)
        return 1

    while one.connection.next_event(publishes_max, 0.0):
        pass
    assert asked == [1, 2, 1, 2]


def test_contents_of_several_channels_may_be_mixed():
    one = opened(1, 2)
    first, second = publish(1, b"ab", body_frame_bytes=1), publish(2, b"cd", body_frame_bytes=1)
    half_first, half_second = len(first) - 9, len(second) - 9
    mixed = first[:half_first] + second[:half_second] + HEARTBEAT_FRAME + first[half_first:] + second[half_second:]
    events = one.say(mixed)
    assert [
        (event.channel, event.runs[0].entries[0][-2:]) for event in events if isinstance(event, PublishesReceived)
    ] == [
        (1, b"ab"),
        (2, b"cd"),
    ]


@pytest.mark.parametrize(
    ("after_the_method", "code"),
    [
        (body_frame(1, b"x"), ReplyCode.UNEXPECTED_FRAME),
        (method_frame(1, QueueDeclare()), ReplyCode.UNEXPECTED_FRAME),
        (method_frame(1, BasicPublish()), ReplyCode.UNEXPECTED_FRAME),
        (method_frame(1, ChannelClose(reply_code=200)), ReplyCode.UNEXPECTED_FRAME),
        (header_frame(1, 1, class_id=10), ReplyCode.UNEXPECTED_FRAME),
        (header_frame(1, 1, weight=1), ReplyCode.FRAME_ERROR),
        (encode_frame(FrameType.HEADER, 1, b"\x00\x3c\x00\x00"), ReplyCode.SYNTAX_ERROR),
        (encode_frame(FrameType.HEADER, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\x00"), ReplyCode.SYNTAX_ERROR),
        (header_frame(1, 2) + header_frame(1, 2), ReplyCode.UNEXPECTED_FRAME),
        (header_frame(1, 2) + method_frame(1, QueueDeclare()), ReplyCode.UNEXPECTED_FRAME),
        (header_frame(1, 2) + body_frame(1, b"x") + method_frame(1, BasicPublish()), ReplyCode.UNEXPECTED_FRAME),
        (header_frame(1, 2) + body_frame(1, b"xyz"), ReplyCode.FRAME_ERROR),
        (header_frame(1, 2) + body_frame(1, b"x") + body_frame(1, b"yz"), ReplyCode.FRAME_ERROR),
        (header_frame(1, 0) + body_frame(1, b"x"), ReplyCode.UNEXPECTED_FRAME),
    ],
)
def test_contents_out_of_order(after_the_method, code):
    one = opened(1)
    events = one.say(method_frame(1, BasicPublish(routing_key="q")) + after_the_method)
    assert_connection_closed(one, code, [event for event in events if not isinstance(event, PublishesReceived)])


def test_a_message_above_the_limit_costs_its_channel_and_no_memory():
    one = opened(1, 2, max_message_size=10)
    assert len(one.say(publish(1, b"x" * 10))) == 1
    events = one.say(method_frame(1, BasicPublish()) + header_frame(1, 11) + body_frame(1, b"x" * 11))
    assert one.connection.output.size < 200
    assert one.call(2, TxSelect()) == [MethodReceived(2, TxSelect())]
    assert_channel_closed(one, 1, ReplyCode.PRECONDITION_FAILED, events)


def test_contents_that_are_not_complete_are_bounded_over_all_channels():
    one = opened(1, 2, 3, max_message_size=10, partial_content_bytes_max=25)
    begun = b"".join(
        method_frame(channel, BasicPublish()) + header_frame(channel, 10) + body_frame(channel, b"x" * 9)
        for channel in (1, 2, 3)
    )
    assert_channel_closed(one, 3, ReplyCode.CONTENT_TOO_LARGE, one.say(begun))
    events = one.say(body_frame(1, b"y") + publish(3, b"x" * 10, body_frame_bytes=7) + body_frame(2, b"y"))
    assert [event.channel for event in events if isinstance(event, PublishesReceived)] == [1, 3, 2]


def test_a_channel_that_is_failed_amid_a_content_forgets_it():
    one = opened(1, max_message_size=10, partial_content_bytes_max=10)
    for _ in range(3):
        one.say(method_frame(1, BasicPublish()) + header_frame(1, 10) + body_frame(1, b"x" * 9))
        one.connection.fail_channel(1, NOT_FOUND)
        assert_channel_closed(one, 1, ReplyCode.NOT_FOUND, one.events())
    assert len(one.say(publish(1, b"x" * 10, body_frame_bytes=5))) == 1


# --- acknowledgements ------------------------------------------------------------------------------------------------


def test_acknowledgements_come_as_ranges():
    one = opened(1, 2)
    tags = [1, 2, 3, 7]
    data = b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in tags)
    more = method_frame(1, BasicAck(delivery_tag=9, multiple=True)) + method_frame(2, BasicAck(delivery_tag=1))
    assert one.say(data + more) == [
        AcksReceived(1, [(1, 3), (7, 7), (0, 9)]),
        AcksReceived(2, [(1, 1)]),
    ]
    assert one.call(1, BasicAck(delivery_tag=0, multiple=True)) == [AcksReceived(1, [(0, 0)])]


@pytest.mark.parametrize(("bits", "tags"), [(2, (7, 7)), (3, (0, 7))])
def test_bits_without_a_meaning_have_none(bits, tags):
    payload = b"\x00\x3c\x00\x50" + (7).to_bytes(8) + bytes((bits,))
    assert opened(1).say(encode_frame(FrameType.METHOD, 1, payload)) == [AcksReceived(1, [tags])]


def test_no_delivery_has_delivery_tag_0():
    one = opened(1)
    assert_channel_closed(one, 1, ReplyCode.PRECONDITION_FAILED, one.call(1, BasicAck(delivery_tag=0)))


def test_an_acknowledgement_amid_a_content_is_unexpected():
    one = opened(1)
    one.call(1, BasicPublish())
    assert_connection_closed(one, ReplyCode.UNEXPECTED_FRAME, one.call(1, BasicAck(delivery_tag=1)))
