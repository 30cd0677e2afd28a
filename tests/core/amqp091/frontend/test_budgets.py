"""A peer's turn ends when its budget of work is spent. The rest is done in later turns, in order, before anything
newer."""

import gc
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.amqp091.framing import method_frame
from core.amqp091.frontend.channel import Channel
from core.amqp091.frontend.consuming import DELIVERY_RANGE_WORK, beyond
from core.amqp091.frontend.front_end import CHANNEL_WORK, EVENT_WORK
from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from core.amqp091.properties import BasicProperties
from core.amqp091.publish_run import DECODED_BYTES_A_UNIT, IN_COLUMNS, SINGLE_WORK
from core.amqp091.table import FieldTable
from core.errors import NotFound
from core.interface import ConsumeOptions, Consumer, Delivered, Mailbox
from core.work import AMPLE
from tests.kit.engine import NOW, PLAIN
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect, published

LITTLE = 300
"""A budget in units of work, enough for a few methods and 25 pieces of a settlement."""


def little(broker: InProcessBroker, *channels: int) -> Wire091Peer:
    """A client with a small budget of work in each turn."""
    settings = make_settings(engine={"work_per_turn": {"peer": LITTLE}})
    return connect(broker, *channels, settings=settings)


@pytest.fixture
def broker() -> InProcessBroker:
    return InProcessBroker()


def frames(channel: int, *methods: object) -> bytes:
    return b"".join(method_frame(channel, method) for method in methods)  # type: ignore[arg-type]


def exists(broker: InProcessBroker, queue: str) -> bool:
    try:
        broker.engine.queue_info(queue, broker)
    except NotFound:
        return False
    return True


def with_gaps(peer: Wire091Peer, n: int) -> None:
    """Let channel 1 hold ``n`` messages whose delivery tags are 2, 4, 6, …; their bodies are b"1", b"3", b"5", …"""
    peer.declare()
    peer.publish(1, numbered(2 * n), routing_key="q")
    peer.consume()
    assert len(peer.bodies()) == 2 * n
    peer.send(1, *(BasicAck(delivery_tag=tag) for tag in range(1, 2 * n, 2)))
    assert peer.broker.unacknowledged() == n


# --- reading ---------------------------------------------------------------------------------------------------------


def test_input_that_is_left_when_the_budget_is_spent_is_taken_on_later_in_order(broker: InProcessBroker):
    peer = little(broker)
    names = [f"q{number}" for number in range(40)]
    before = broker.engine.work.spent
    peer.front_end.receive_data(frames(1, *(QueueDeclare(queue=name) for name in names)), NOW)
    spent = broker.engine.work.spent - before
    assert LITTLE <= spent < LITTLE + 2 * EVENT_WORK + 100, "one method may go beyond it"
    assert not peer.front_end.reading, "the socket waits"
    assert 0 < sum(exists(broker, name) for name in names) < 40
    broker.run()
    assert [answer.queue for answer in peer.methods(QueueDeclareOk)] == names
    assert peer.front_end.reading


def test_without_an_allowance_bytes_are_kept_for_the_next_turn(broker: InProcessBroker):
    peer = little(broker)
    broker.engine.work.allowance = 0
    before = broker.engine.work.spent
    peer.front_end.receive_data(frames(1, QueueDeclare(queue="q")), NOW)
    assert (broker.engine.work.spent, exists(broker, "q"), peer.front_end.reading) == (before, False, False)
    broker.engine.work.allowance = AMPLE
    broker.run()
    assert [answer.queue for answer in peer.methods(QueueDeclareOk)] == ["q"]
    assert peer.front_end.reading


def test_a_turn_that_ends_with_its_input_asks_for_no_other(broker: InProcessBroker):
    """A peer that asks for another turn waits behind those that have much to do."""
    peer = little(broker)
    broker.engine.work.allowance = 1
    peer.front_end.receive_data(frames(1, QueueDeclare(queue="q")), NOW)
    assert not peer.front_end.reading, "there may be more"
    broker.run()
    turns = []
    peer.front_end._shared.wake = lambda: turns.append("wake")
    peer.front_end.take_actions(NOW)
    assert (turns, peer.front_end.reading) == ([], True)


def test_what_it_takes_to_decode_long_tables_counts(broker: InProcessBroker):
    """In publishes, and in methods."""
    peer = little(broker)
    keys: FieldTable = {"CC": [f"key-{number}" for number in range(500)]}
    for data, size in (
        (published(1, [b"x"], routing_key="q", properties=BasicProperties(headers=keys)), 5000),
        (frames(1, QueueDeclare(queue="q", arguments=keys)), 5000),
    ):
        before = broker.engine.work.spent
        peer.front_end.receive_data(data, NOW)
        assert broker.engine.work.spent - before >= size // DECODED_BYTES_A_UNIT
        broker.run()


def test_a_run_whose_headers_decide_ends_with_the_budget_and_goes_on_in_order(broker: InProcessBroker):
    """Each message is searched for, although their routing keys are alike."""
    peer = little(broker, 1)
    peer.declare()
    peer.send(1, QueueBind(queue="q", exchange="amq.headers", arguments={"a": 1}))
    before, bodies = broker.engine.work.spent, numbered(200)
    properties = BasicProperties(headers={"a": 1})
    data = published(1, bodies, routing_key="", exchange="amq.headers", properties=properties)
    peer.front_end.receive_data(data, NOW)
    assert LITTLE <= broker.engine.work.spent - before < 2 * LITTLE
    assert not peer.front_end.reading
    broker.run()
    peer.consume()
    assert peer.bodies() == bodies


def test_a_publish_that_took_a_whole_turn_to_decode_is_published_in_the_next(broker: InProcessBroker):
    peer = little(broker)
    peer.declare()
    keys: FieldTable = {"CC": [f"key-{number}" for number in range(500)]}
    data = published(1, [b"x"], routing_key="q", properties=BasicProperties(headers=keys))
    peer.front_end.receive_data(data, NOW)
    broker.engine.turn(NOW)
    assert broker.ready() == 0
    broker.run()
    assert broker.ready() == 1


def test_publishes_of_which_no_two_are_alike_count(broker: InProcessBroker):
    """One by one, and in columns. A turn ends after some of them."""
    peer = little(broker)
    peer.declare()
    data = b"".join(
        published(1, [b"x"], routing_key="q", properties=BasicProperties(message_id=f"{number:04}"))
        for number in range(1000)
    )
    before = broker.engine.work.spent
    peer.front_end.receive_data(data, NOW)
    broker.engine.turn(NOW)
    taken = broker.ready()
    assert 0 < taken < 1000
    assert broker.engine.work.spent - before >= taken * SINGLE_WORK // IN_COLUMNS
    broker.run()
    assert broker.ready() == 1000


@pytest.mark.parametrize("allowance", [50, LITTLE, AMPLE])
def test_an_allowance_below_the_budget_ends_the_turn_sooner(broker: InProcessBroker, allowance: int):
    peer = little(broker)
    broker.engine.work.allowance = allowance
    before = broker.engine.work.spent
    peer.front_end.receive_data(frames(1, *(QueueDeclare(queue=f"q{number}") for number in range(40))), NOW)
    spent = broker.engine.work.spent - before
    assert min(allowance, LITTLE) <= spent < min(allowance, LITTLE) + 2 * EVENT_WORK + 100
    broker.engine.work.allowance = AMPLE
    broker.run()
    assert len(peer.methods(QueueDeclareOk)) == 40


def test_channels_that_are_opened_cost_something(broker: InProcessBroker):
    peer = little(broker)
    before = broker.engine.work.spent
    peer.front_end.receive_data(b"".join(frames(number, ChannelOpen()) for number in range(2, 40)), NOW)
    assert len(peer.front_end.channels) <= 1 + LITTLE // (EVENT_WORK + CHANNEL_WORK) + 1
    assert broker.engine.work.spent - before >= LITTLE
    broker.run()
    assert len(peer.front_end.channels) == 39


# --- settlements of many pieces --------------------------------------------------------------------------------------


def test_a_settlement_of_many_pieces_takes_several_turns_and_what_follows_waits(broker: InProcessBroker):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.front_end.receive_data(
        frames(1, BasicAck(delivery_tag=0, multiple=True), QueueDeclare(queue="next")), peer.broker.now
    )
    assert 0 < broker.unacknowledged() < 300
    assert peer.front_end.channels[1].waiting
    turns = 0
    while peer.front_end.channels[1].waiting:
        before = broker.unacknowledged()
        peer.front_end.take_actions(NOW)
        assert before - broker.unacknowledged() <= LITTLE // DELIVERY_RANGE_WORK + 64
        turns += 1
    assert turns >= 300 * DELIVERY_RANGE_WORK // (LITTLE + 64 * DELIVERY_RANGE_WORK)
    broker.run()
    assert peer.pick(QueueDeclareOk).queue == "next"
    assert broker.unacknowledged() == 0


def test_returned_messages_keep_their_order_although_they_come_in_parts(broker: InProcessBroker):
    peer = little(broker, 1, 2)
    with_gaps(peer, 300)
    peer.send(1, BasicNack(delivery_tag=0, multiple=True))
    assert peer.bodies() == [b"%d" % number for number in range(1, 600, 2)]


def test_a_recovery_of_many_pieces(broker: InProcessBroker):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.call(1, BasicRecover(requeue=True), BasicRecoverOk)
    assert peer.bodies() == [b"%d" % number for number in range(1, 600, 2)]


def test_one_run_acknowledges_pieces_of_two_consumers_in_parts(broker: InProcessBroker):
    peer = little(broker)
    for queue in ("a", "b"):
        peer.declare(queue)
        peer.consume(queue)
    for number in range(200):
        peer.publish(1, [b"x"], routing_key="ab"[number % 2])
    assert len(peer.bodies()) == 200
    acks = [*(BasicAck(delivery_tag=tag) for tag in range(1, 200)), BasicAck(delivery_tag=200)]
    peer.front_end.receive_data(frames(1, *acks), NOW)
    assert broker.unacknowledged("a") + broker.unacknowledged("b") > 0, "64 pieces at a time"
    broker.run()
    assert broker.unacknowledged("a") + broker.unacknowledged("b") == 0
    assert peer.take() == []


def test_an_unknown_tag_behind_many_pieces_closes_the_channel_and_they_are_settled(broker: InProcessBroker):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.send(1, BasicAck(delivery_tag=600, multiple=True), BasicAck(delivery_tag=601))
    code, text = peer.reopened(1)
    assert (code, "unknown delivery tag 601" in text) == (406, True)
    assert (broker.ready(), broker.unacknowledged()) == (0, 0)


@pytest.mark.parametrize("end", ["channel", "connection"])
def test_a_settlement_that_has_begun_is_done_to_its_end(broker: InProcessBroker, end: str):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.front_end.receive_data(frames(1, BasicAck(delivery_tag=598, multiple=True)), NOW)
    assert broker.unacknowledged() > 1
    if end == "channel":
        peer.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    else:
        peer.disconnect()
    assert (broker.ready(), broker.unacknowledged()) == (1, 0), "the one that was not settled is back"


# --- transactions ----------------------------------------------------------------------------------------------------


def test_acknowledgements_of_a_commit_are_charged_where_they_are_done(broker: InProcessBroker):
    peer = connect(broker)
    with_gaps(peer, 100)
    peer.call(1, TxSelect(), TxSelectOk)
    before = broker.engine.work.spent
    peer.send(1, *(BasicAck(delivery_tag=tag) for tag in range(200, 0, -2)))
    assert broker.engine.work.spent - before < 10 * EVENT_WORK, "nothing is settled yet"
    before = broker.engine.work.spent
    peer.call(1, TxCommit(), TxCommitOk)
    assert broker.engine.work.spent - before >= 100 * DELIVERY_RANGE_WORK


def test_a_commit_goes_on_behind_a_settlement_in_parts(broker: InProcessBroker):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.call(1, TxSelect(), TxSelectOk)
    peer.publish(1, [b"new"], routing_key="q")
    peer.send(1, BasicAck(delivery_tag=300, multiple=True), BasicAck(delivery_tag=302))
    peer.ack(600, multiple=True)
    peer.front_end.receive_data(frames(1, TxCommit(), QueueDeclare(queue="next")), NOW)
    assert peer.front_end.channels[1].publishing.committing
    broker.run()
    kinds = [type(method) for _, method, _ in peer.take() if not isinstance(method, BasicDeliver)]
    assert kinds == [TxCommitOk, QueueDeclareOk]
    assert broker.unacknowledged() == 1, "what the commit has published"


def test_a_commit_that_fails_in_the_middle_does_nothing_behind_that(broker: InProcessBroker):
    peer = little(broker)
    with_gaps(peer, 300)
    peer.call(1, TxSelect(), TxSelectOk)
    peer.send(1, BasicAck(delivery_tag=598, multiple=True), BasicAck(delivery_tag=1), BasicAck(delivery_tag=600))
    code, text = peer.refusal(1, TxCommit())
    assert (code, "unknown delivery tag 1" in text) == (406, True)
    assert (broker.ready(), broker.unacknowledged()) == (1, 0)


def test_a_rollback_holds_the_channel_until_all_of_it_is_gone(broker: InProcessBroker):
    peer = little(broker)
    peer.declare()
    peer.call(1, TxSelect(), TxSelectOk)
    for number in range(300):
        peer.publish(1, [b"x"], routing_key="q", properties=BasicProperties(message_id=f"{number}"))
    peer.front_end.receive_data(frames(1, TxRollback(), QueueDeclare(queue="next")), NOW)
    channel = peer.front_end.channels[1]
    assert channel.transaction.dropped
    assert channel.waiting
    broker.run()
    assert [type(method) for _, method, _ in peer.take()] == [TxRollbackOk, QueueDeclareOk]
    assert not channel.transaction.dropped


def test_a_commit_that_outlives_its_connection_asks_for_nothing_more(broker: InProcessBroker):
    peer = little(broker)
    peer.declare()
    peer.publish(1, numbered(400), routing_key="q")
    peer.call(1, BasicQos(prefetch_count=150), BasicQosOk)
    peer.consume()
    peer.call(1, TxSelect(), TxSelectOk)
    for tag in range(1, 151, 2):
        peer.ack(tag)
    peer.front_end.receive_data(frames(1, TxCommit()), NOW)
    assert peer.front_end.channels[1].waiting
    peer.lost = True
    broker.run()
    held = [broker.unacknowledged()]
    while peer.front_end.connection_lost(NOW):
        broker.run()
        held.append(broker.unacknowledged())
    assert held == sorted(held, reverse=True), "nothing more is handed out to it"
    assert len(held) > 5
    broker.run()
    assert (broker.ready(), broker.unacknowledged()) == (400 - 75, 0)


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_connection_with_much_is_let_go_in_slices(broker: InProcessBroker):
    peer = little(broker, *range(1, 21))
    peer.declare()
    for channel in range(1, 21):
        peer.send(channel, *(BasicConsume(queue="q") for _ in range(5)))
    assert broker.engine.queue_info("q", broker).consumers == 100
    steps = 0
    more = True
    while more:
        before, spent = broker.engine.queue_info("q", broker).consumers, broker.engine.work.spent
        more = peer.front_end.connection_lost(NOW)
        assert before - broker.engine.queue_info("q", broker).consumers <= LITTLE // 40 + 1
        assert broker.engine.work.spent - spent < LITTLE + 200
        steps += 1
    assert steps >= 100 * 40 // LITTLE
    assert broker.engine.queue_info("q", broker).consumers == 0
    peer.lost = True


def test_a_channel_that_is_closed_leaves_nothing_to_the_collector_of_garbage(broker: InProcessBroker):
    peer = connect(broker)
    peer.declare()
    gc.disable()
    try:
        before = sum(isinstance(each, Channel) for each in gc.get_objects())
        peer.call(2, ChannelOpen(), ChannelOpenOk)
        peer.consume(channel=2)
        peer.publish(2, [b"x"], routing_key="q")
        peer.ack(1, channel=2)
        peer.call(2, ChannelClose(reply_code=200), ChannelCloseOk)
        assert sum(isinstance(each, Channel) for each in gc.get_objects()) == before
    finally:
        gc.enable()


# --- bytes of deliveries ---------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    limit=st.integers(0, 1000),
    told=st.booleans(),
    first=st.integers(0, 2**40),
)
def test_a_delivery_is_cut_by_bytes_and_nothing_is_lost(sizes: list[int], limit: int, told: bool, first: int):
    entries = [bytes(size) for size in sizes]
    sequences = list(range(7, 7 + 3 * len(sizes), 3)) if told else None
    consumer = Consumer(0, "q", Mailbox(lambda: None), ConsumeOptions(), None)
    whole = Delivered(consumer, first, [*entries], PLAIN, 0, True, sequences=sequences)
    parts = [whole]
    while (rest := beyond(parts[-1], limit)) is not None:
        parts.append(rest)
    assert [entry for part in parts for entry in part.entries] == entries
    at = first
    for part in parts:
        assert part.first == at
        at += len(part.entries)
        assert len(part.entries) == 1 or sum(map(len, part.entries)) <= limit
    for part, after in pairwise(parts):
        assert sum(map(len, part.entries)) + len(after.entries[0]) > limit, "no part is smaller than it must be"
    if told:
        assert [sequence for part in parts for sequence in part.sequences] == sequences
    else:
        assert all(part.sequences is None for part in parts)
