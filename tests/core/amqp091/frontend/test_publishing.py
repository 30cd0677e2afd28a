"""Publishing on a 0.9.1 channel: what becomes of a message, and what its publisher is told of it."""

import pytest

from core.amqp091.framing import method_frame
from core.amqp091.methods import (
    BasicAck,
    BasicGet,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
)
from core.amqp091.properties import BasicProperties
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage, sync, write
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect, published


@pytest.fixture
def peer() -> Wire091Peer:
    """A client with queue q. Channel 1 is in confirm mode; channel 2 is open."""
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    peer.select_confirms()
    return peer


def bind_all(peer: Wire091Peer, *queues: str) -> None:
    """Bind queues to amq.fanout."""
    for queue in queues:
        peer.bind("amq.fanout", queue=queue)


# --- confirms


def test_a_run_is_confirmed_by_one_answer(peer: Wire091Peer):
    peer.publish(1, numbered(100), routing_key="q")
    assert peer.confirms() == [("ack", 100, True)]
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.confirms() == [("ack", 101, False)]


def test_the_size_of_each_message_is_counted(peer: Wire091Peer):
    peer.publish(1, [bytes(50)] * 20 + [bytes(5000)], routing_key="q")
    peer.publish(1, [bytes(50)], exchange="amq.topic", routing_key="nowhere")
    sizes = peer.broker.traffic["amqp091"].sizes
    assert sizes.counts[:4] == [21, 0, 1, 0]
    assert 22 * 50 + 4950 < sizes.total < 22 * 90 + 4950


def test_numbers_count_from_1_since_confirm_select_and_it_may_be_said_twice():
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    peer.publish(1, numbered(5), routing_key="q")
    assert peer.take() == []
    peer.select_confirms()
    peer.publish(1, numbered(2), routing_key="q")
    assert peer.confirms() == [("ack", 2, True)]
    peer.select_confirms()
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.confirms() == [("ack", 3, False)]


def test_what_was_published_before_confirm_select_is_never_confirmed():
    broker = InProcessBroker()
    peer = connect(broker)
    peer.declare()
    broker.stall()
    peer.publish(1, numbered(3), routing_key="q")
    peer.select_confirms()
    peer.publish(1, numbered(2), routing_key="q")
    broker.recover()
    assert peer.confirms() == [("ack", 2, True)]


def test_each_channel_counts_by_itself(peer: Wire091Peer):
    peer.select_confirms(2)
    peer.publish(1, numbered(3), routing_key="q")
    peer.publish(2, numbered(2), routing_key="q")
    assert [(channel, method) for channel, method, _ in peer.take()] == [
        (1, BasicAck(delivery_tag=3, multiple=True)),
        (2, BasicAck(delivery_tag=2, multiple=True)),
    ]


def test_confirms_out_of_order_are_exact(peer: Wire091Peer):
    """Publishes to a slow queue and a quick one take turns: the messages of the quick one are confirmed one by one."""
    peer.declare("slow")
    peer.broker.stall("slow")
    for number in range(4):
        peer.publish(1, numbered(2), routing_key="slow" if number % 2 == 0 else "q")
    assert peer.confirms() == [("ack", tag, False) for tag in (3, 4, 7, 8)]
    peer.broker.recover("slow")
    assert peer.confirms() == [("ack", 2, True), ("ack", 6, True)]


def test_a_message_for_several_queues_is_confirmed_when_the_last_one_has_it(peer: Wire091Peer):
    peer.declare("slow")
    bind_all(peer, "q", "slow")
    peer.broker.stall("slow")
    peer.publish(1, numbered(3), exchange="amq.fanout", routing_key="")
    assert peer.broker.ready() == 3
    assert peer.confirms() == []
    peer.broker.recover("slow")
    assert peer.confirms() == [("ack", 3, True)]


def test_a_full_queue_that_rejects_publishes_nacks(peer: Wire091Peer):
    peer.declare("full", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    peer.publish(1, numbered(5), routing_key="full")
    assert peer.confirms() == [("ack", 3, True), ("nack", 5, True)]


def test_one_queue_that_rejects_is_enough_for_a_nack_and_never_both(peer: Wire091Peer):
    peer.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    bind_all(peer, "q", "full")
    peer.publish(1, numbered(3), exchange="amq.fanout", routing_key="")
    assert peer.confirms() == [("ack", 1, False), ("nack", 3, True)]
    assert peer.broker.ready() == 3, "the others have it all the same"


def test_a_quorum_queue_confirms_only_after_the_sync():
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    peer = connect(broker)
    peer.send(1, QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))
    peer.take()
    peer.select_confirms()
    peer.publish(1, numbered(3), routing_key="q", properties=BasicProperties(delivery_mode=2))
    assert peer.confirms() == []
    lane = storage.store.quorum
    assert write(lane, disk)
    broker.run()
    assert peer.confirms() == []
    assert sync(lane, disk, broker.now.monotonic)
    broker.run()
    assert peer.confirms() == [("ack", 3, True)]


def test_what_a_quorum_queue_has_not_taken_on_after_all_is_not_acknowledged():
    """Its leader has changed meanwhile. A message without a route is acknowledged, and this one had one."""
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    peer = connect(broker)
    peer.send(1, QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))
    peer.take()
    peer.select_confirms()
    storage.quorum.log.acquire_lease()  # another writer has it
    peer.publish(1, numbered(3), routing_key="q", properties=BasicProperties(delivery_mode=2))
    broker.run()
    assert peer.confirms() == [("nack", 3, True)]


def test_row_1_05_a_publisher_that_waits_for_confirms_has_no_more_than_its_window_under_way(peer: Wire091Peer):
    """Confirms alone slow no publisher down; a window that the publisher keeps does."""
    window, sent, confirmed = 50, 0, 0
    peer.broker.engine.set_stage_budget("q", 20)
    under_way = []
    while sent < 500:
        room = window - (sent - confirmed)
        peer.publish(1, numbered(room, sent), routing_key="q")
        sent += room
        under_way.append(sent - confirmed)
        answers = peer.confirms()
        confirmed = answers[-1][1] if answers else confirmed
    assert set(under_way) == {window}
    assert confirmed == sent


# --- messages without a queue


def test_row_0_17_an_unroutable_message_is_confirmed(peer: Wire091Peer):
    peer.publish(1, numbered(2), exchange="amq.direct", routing_key="nowhere")
    assert peer.take() == [(1, BasicAck(delivery_tag=2, multiple=True), None)]
    peer.publish(1, numbered(1), routing_key="no-such-queue")
    assert peer.take() == [(1, BasicAck(delivery_tag=3), None)]


@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_row_0_17_an_unroutable_mandatory_message_comes_back_before_its_confirm(peer: Wire091Peer, exchange: str):
    peer.publish(1, numbered(2), exchange=exchange, routing_key="nowhere", mandatory=True)
    returned = BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange=exchange, routing_key="nowhere")
    came = peer.take()
    assert [method for _, method, _ in came] == [returned, returned, BasicAck(delivery_tag=2, multiple=True)]
    assert [entry[-1:] for _, _, entry in came if entry is not None] == numbered(2)


def test_row_0_18_a_client_that_sends_again_what_came_back(peer: Wire091Peer):
    """A message that is published before its queue exists comes back, and is published again when the queue exists."""
    peer.publish(1, [b"early"], routing_key="late", mandatory=True, properties=BasicProperties(message_id="m-1"))
    (_, returned, entry), _ = peer.take()
    assert isinstance(returned, BasicReturn)
    assert entry is not None
    peer.declare("late")
    peer.publish(1, [b"early"], routing_key=returned.routing_key, mandatory=True)
    assert peer.returned() == []
    assert peer.broker.ready("late") == 1


def test_a_mandatory_message_that_was_routed_does_not_come_back(peer: Wire091Peer):
    peer.publish(1, numbered(3), routing_key="q", mandatory=True)
    assert peer.take() == [(1, BasicAck(delivery_tag=3, multiple=True), None)]


def test_mandatory_messages_come_back_without_confirms_too(peer: Wire091Peer):
    peer.publish(2, numbered(1), routing_key="nowhere", mandatory=True)
    assert [body for _, body in peer.returned()] == numbered(1)
    assert peer.take() == []


def test_only_what_has_no_queue_comes_back(peer: Wire091Peer):
    """One read: a slow queue takes the first and last messages. Those between them have no queue and are answered
    before."""
    peer.broker.stall()
    for key in ("q", "nowhere", "q"):
        peer.publish(1, [key.encode()] * 2, routing_key=key, mandatory=True)
    assert [body for _, body in peer.returned()] == [b"nowhere"] * 2
    assert peer.confirms() == [("ack", 3, False), ("ack", 4, False)]
    peer.broker.recover()
    assert peer.returned() == []
    assert peer.confirms() == [("ack", 2, True), ("ack", 6, True)]


def test_a_queue_that_is_deleted_with_messages_in_its_stage(peer: Wire091Peer):
    peer.broker.stall()
    peer.publish(1, numbered(3), routing_key="q", mandatory=True)
    peer.send(2, QueueDelete(queue="q"))
    kinds = [kind for kind, _, _ in peer.confirms()]
    assert len(kinds) == 1, "each of them is answered, and once"


def test_a_return_comes_before_the_answer_to_a_close_that_followed(peer: Wire091Peer):
    lost = published(1, numbered(1), routing_key="nowhere", mandatory=True)
    peer.send_bytes(lost + method_frame(1, ChannelClose(reply_code=200)))
    assert [type(method) for _, method, _ in peer.take()] == [BasicReturn, BasicAck, ChannelCloseOk]


def test_nothing_follows_a_channel_that_the_broker_closed(peer: Wire091Peer):
    lost = published(1, numbered(2), routing_key="nowhere", mandatory=True)
    wrong = published(1, numbered(1), routing_key="k", exchange="missing")
    peer.send_bytes(lost + wrong)
    assert isinstance(peer.take()[-1][1], ChannelClose)


# --- publishes that are refused


def test_publishing_to_an_exchange_that_is_not_there_closes_the_channel(peer: Wire091Peer):
    peer.publish(1, numbered(1), exchange="missing", routing_key="q")
    code, text = peer.reopened(1)
    assert (code, "missing" in text) == (404, True)
    assert peer.take() == [], "and there is no confirm"


@pytest.mark.parametrize("expiration", ["", "soon", "-1", "1.5", "4294967296", "٣"])
def test_an_expiration_that_is_no_time(peer: Wire091Peer, expiration: str):
    peer.publish(1, numbered(1), routing_key="q", properties=BasicProperties(expiration=expiration))
    assert peer.reopened(1)[0] == 406


@pytest.mark.parametrize(("user", "right"), [("guest", True), ("somebody", False)])
def test_the_user_id_is_the_publishers_own_or_none(peer: Wire091Peer, user: str, right: bool):
    peer.publish(1, numbered(1), routing_key="q", properties=BasicProperties(user_id=user))
    if right:
        assert peer.confirms() == [("ack", 1, False)]
    else:
        assert peer.reopened(1)[0] == 406
    assert peer.broker.ready() == right


# --- content of a message


def test_everything_comes_out_as_it_went_in(peer: Wire091Peer):
    properties = BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"a": [1, "two", {"three": True}], "b": None},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="app",
        cluster_id="cl",
    )
    body = bytes(range(256)) * 2000
    peer.publish(1, [body, b""], routing_key="q", properties=properties)
    peer.consume(channel=2)
    assert [(props, content) for _, props, content in peer.deliveries()] == [(properties, body), (properties, b"")]


def test_messages_of_all_kinds_in_one_piece_keep_their_order_and_their_names(peer: Wire091Peer):
    """Runs that differ in their keys only go to the engine together, and every other run by itself."""
    peer.bind("amq.topic", queue="q", routing_key="#")
    peer.bind("amq.fanout", queue="q")
    texts = [BasicProperties(), BasicProperties(message_id="m"), BasicProperties(delivery_mode=2), BasicProperties()]
    kinds = [
        ("amq.topic", "a", texts[0]),
        ("amq.topic", "b", texts[0]),
        ("amq.topic", "b", texts[1]),
        ("amq.topic", "c", texts[2]),
        ("amq.fanout", "c", texts[2]),
        ("", "q", texts[0]),
        ("amq.topic", "x" * 255, BasicProperties(headers={"CC": ["d"]})),  # type: ignore[dict-item]
        ("amq.topic", "é" * 127, texts[0]),
    ]
    sent = [kinds[number % 8] for number in (*range(8), *range(0, 64, 7))]
    data = b"".join(
        published(1, [b"%d" % place], exchange=exchange, routing_key=key, properties=properties)
        for place, (exchange, key, properties) in enumerate(sent)
    )
    peer.send_bytes(data)
    confirmed = [tag for kind, tag, multiple in peer.confirms() if kind == "ack"]
    assert max(confirmed) == len(sent)
    peer.consume(channel=2)
    got = peer.deliveries()
    assert [body for _, _, body in got] == [b"%d" % place for place in range(len(sent))]
    assert [(deliver.exchange, deliver.routing_key, props) for deliver, props, _ in got] == sent


def test_a_run_that_is_refused_leaves_the_runs_before_it_published(peer: Wire091Peer):
    peer.bind("amq.topic", queue="q", routing_key="#")
    wrong = BasicProperties(user_id="another")
    data = b"".join(
        published(1, [b"x"], exchange="amq.topic", routing_key=key, properties=properties)
        for key, properties in (("a", None), ("b", None), ("c", wrong), ("d", None))
    )
    peer.send_bytes(data)
    assert peer.reopened(1)[0] == 406
    assert peer.broker.ready("q") == 2


def test_cc_and_bcc_are_further_keys_and_bcc_is_taken_out(peer: Wire091Peer):
    for name in ("copy", "blind"):
        peer.declare(name)
    headers = {"CC": ["copy", "q"], "BCC": ["blind"], "x": 1}
    peer.publish(1, [b"m"], routing_key="q", properties=BasicProperties(headers=headers))  # type: ignore[arg-type]
    for name in ("q", "copy", "blind"):
        peer.take()
        peer.send(1, BasicGet(queue=name))
        got = peer.got()
        assert got is not None
        assert got[1].headers == {"CC": ["copy", "q"], "x": 1}
        assert peer.broker.ready(name) == 0, "once, however often it is named"


@pytest.mark.parametrize("value", ["q", [1], {"a": "b"}], ids=str)
def test_a_cc_that_is_no_list_of_keys(peer: Wire091Peer, value: object):
    properties = BasicProperties(headers={"CC": value})  # type: ignore[dict-item]
    peer.publish(1, [b"m"], routing_key="q", properties=properties)
    assert peer.reopened(1)[0] == 406


def test_a_message_expires_by_its_own_property(peer: Wire091Peer):
    peer.publish(1, [b"short"], routing_key="q", properties=BasicProperties(expiration="500"))
    peer.publish(1, [b"long"], routing_key="q", properties=BasicProperties(expiration="5000"))
    peer.broker.advance(1.0)
    peer.consume(channel=2)
    assert peer.bodies() == [b"long"]


def test_priorities():
    peer = connect(InProcessBroker())
    peer.declare(arguments={"x-max-priority": 5})
    for priority in (0, 5, 3, None):
        peer.publish(1, [str(priority).encode()], routing_key="q", properties=BasicProperties(priority=priority))
    peer.consume()
    assert peer.bodies() == [b"5", b"3", b"0", b"None"]


def test_a_transient_message_does_not_outlive_what_a_persistent_one_does():
    storage_disk, definitions = MemoryDisk(), KeptDefinitions()
    broker = InProcessBroker(storage=open_storage(storage_disk, definitions))
    peer = connect(broker)
    peer.declare(durable=True)
    for mode in (1, 2):
        peer.publish(1, [b"%d" % mode], routing_key="q", properties=BasicProperties(delivery_mode=mode))
    rows = broker.engine.peek_queue("q", 2)
    assert [row["durable"] for row in rows] == [False, True]


def test_large_messages_are_cut_into_frames_on_both_ways():
    peer = connect(InProcessBroker())
    peer.declare()
    body = b"0123456789" * 100_000
    peer.publish(1, [body], routing_key="q")
    peer.consume()
    assert peer.bodies() == [body]


def test_confirm_select_without_an_answer():
    peer = connect(InProcessBroker())
    peer.declare()
    peer.send(1, ConfirmSelect(no_wait=True))
    assert peer.take() == []
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.confirms() == [("ack", 1, False)]
