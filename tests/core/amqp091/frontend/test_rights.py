"""Rights on AMQP 0.9.1: each method for a user with the rights that it needs, and for users who lack one of them."""

from collections.abc import Callable, Collection

import pytest

from core.access.rights import FULL, Permission, Rights, TopicPermission, all_rights
from core.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxSelect,
)
from core.amqp091.properties import BasicProperties
from tests.kit.acts import Need, place, trials
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import Wire091Peer, connect

ACCESS_REFUSED, PRECONDITION_FAILED, NOT_ALLOWED = 403, 406, 530

Act = Callable[[Wire091Peer], str | None]
"""Does something; returns the text of the refusal, or None."""


def refusal(peer: Wire091Peer) -> str | None:
    closes = peer.methods(ChannelClose)
    assert all(close.reply_code == ACCESS_REFUSED for close in closes), closes
    return closes[0].reply_text if closes else None


def sends(*methods: Method) -> Act:
    def act(peer: Wire091Peer) -> str | None:
        peer.send(1, *methods)
        return refusal(peer)

    return act


def publishes(exchange: str, key: str, headers: dict[str, object] | None = None) -> Act:
    def act(peer: Wire091Peer) -> str | None:
        peer.publish(1, [b"x"], exchange=exchange, routing_key=key, properties=BasicProperties(headers=headers))
        return refusal(peer)

    return act


def publishes_in_transaction(peer: Wire091Peer) -> str | None:
    peer.send(1, TxSelect())
    return publishes("x", "k")(peer)


DEAD_LETTERS, ALTERNATE = {"x-dead-letter-exchange": "x"}, {"alternate-exchange": "x"}
ACTS: list[tuple[Act, Collection[Need]]] = [
    (sends(QueueDeclare(queue="new")), [("configure", "new")]),
    (
        sends(QueueDeclare(queue="new", arguments=DEAD_LETTERS)),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    (sends(QueueDelete(queue="q")), [("configure", "q")]),
    (sends(QueueDelete(queue="new")), [("configure", "new")]),
    (sends(QueuePurge(queue="q")), [("read", "q")]),
    (sends(QueueBind(queue="q", exchange="x", routing_key="new")), [("write", "q"), ("read", "x")]),
    (sends(QueueUnbind(queue="q", exchange="x", routing_key="k")), [("write", "q"), ("read", "x")]),
    (sends(ExchangeDeclare(exchange="new")), [("configure", "new")]),
    (
        sends(ExchangeDeclare(exchange="new", arguments=ALTERNATE)),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    (sends(ExchangeDelete(exchange="x")), [("configure", "x")]),
    (sends(ExchangeBind(destination="topic", source="x")), [("write", "topic"), ("read", "x")]),
    (sends(ExchangeUnbind(destination="topic", source="x")), [("write", "topic"), ("read", "x")]),
    (sends(BasicConsume(queue="q")), [("read", "q")]),
    (sends(BasicGet(queue="q")), [("read", "q")]),
    (publishes("", "q"), [("write", "amq.default")]),
    (publishes("x", "k"), [("write", "x")]),
    (publishes("x", "k", {"CC": ["other"]}), [("write", "x")]),
    (publishes_in_transaction, [("write", "x")]),
]


def connected(broker: InProcessBroker, rights: Rights) -> Wire091Peer:
    broker.rights = rights
    return connect(broker)


@pytest.mark.parametrize(("act", "needs"), ACTS)
def test_a_method_is_allowed_with_all_of_its_rights_only(act: Act, needs: Collection[Need]):
    for trial in trials(needs):
        refused = act(connected(place(), trial.rights))
        if trial.allowed:
            assert refused is None
        else:
            assert refused is not None, f"allowed without {trial.told}"
            assert refused.startswith(f"ACCESS_REFUSED - {trial.told}")
            assert refused.endswith("in vhost '/' refused for user 'guest'")


@pytest.mark.parametrize("what", ["configure", "write", "read"])
def test_a_passive_declaration_needs_any_right(what: str):
    for method in (QueueDeclare(queue="q", passive=True), ExchangeDeclare(exchange="x", passive=True)):
        assert sends(method)(connected(place(), Rights("guest", Permission(**{what: "^(q|x)$"})))) is None
        assert sends(method)(connected(place(), Rights("guest", Permission(**{what: "^other$"})))) is not None


def test_direct_replies_need_no_right_to_read():
    peer = connected(place(), Rights("guest", Permission(write="^amq[.]default$")))
    peer.call(1, BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True), BasicConsumeOk)
    requester = BasicProperties(reply_to="amq.rabbitmq.reply-to")
    peer.publish(1, [b"x"], routing_key="q", properties=requester)
    assert refusal(peer) is None


TOPICS = {"topic": TopicPermission(write="^mine[.]", read="^mine[.]")}


@pytest.mark.parametrize(
    ("act", "allowed"),
    [
        (publishes("topic", "mine.a"), True),
        (publishes("topic", "other"), False),
        (publishes("topic", "mine.a", {"CC": ["mine.b"]}), True),
        (publishes("topic", "mine.a", {"CC": ["other"]}), False),
        (publishes("topic", "mine.a", {"BCC": ["other"]}), False),
        (publishes("x", "other"), True),
        (sends(QueueBind(queue="q", exchange="topic", routing_key="mine.#")), True),
        (sends(QueueBind(queue="q", exchange="topic", routing_key="#")), False),
        (sends(QueueUnbind(queue="q", exchange="topic", routing_key="#")), False),
    ],
)
def test_topic_permissions_restrict_the_keys_of_a_topic_exchange(act: Act, allowed: bool):
    refused = act(connected(place(), Rights("guest", FULL, topics=TOPICS)))
    assert (refused is None) is allowed
    if refused is not None:
        assert "access to topic '" in refused


def test_messages_with_keys_in_turn_are_each_checked():
    """Runs whose routes are known go to the engine together."""
    peer = connected(place(), Rights("guest", FULL, topics=TOPICS))
    peer.call(1, ConfirmSelect(), ConfirmSelectOk)
    for key in ("mine.a", "mine.b", "mine.a"):
        peer.publish(1, [b"x"], exchange="topic", routing_key=key)
    assert refusal(peer) is None
    peer.broker.rights.change(FULL, {"topic": TopicPermission(write="^mine[.]a$")}, frozenset())
    peer.broker.run()
    peer.publish(1, [b"x"], exchange="topic", routing_key="mine.a")
    assert refusal(peer) is None
    peer.publish(1, [b"x"], exchange="topic", routing_key="mine.b")
    assert refusal(peer) is not None


def test_the_user_id_is_that_of_the_user_or_of_anybody_for_an_impersonator():
    broker = place()
    rights = all_rights("guest", ("impersonator",))
    peer = connected(broker, rights)
    other = BasicProperties(user_id="other")
    peer.publish(1, [b"x"], routing_key="q", properties=other)
    assert peer.methods(ChannelClose) == []
    rights.change(FULL, {}, frozenset())
    broker.run()
    peer.publish(1, [b"x"], routing_key="q", properties=other)
    assert [close.reply_code for close in peer.methods(ChannelClose)] == [PRECONDITION_FAILED]


# --- changes on open channels ------------------------------------------------------------------------------------


def test_a_channel_whose_consumer_may_not_read_any_more_is_closed_and_the_others_stay():
    broker = place()
    rights = all_rights("guest")
    broker.rights = rights
    peer = connect(broker, 1, 2)
    peer.call(1, BasicConsume(queue="q"), BasicConsumeOk)
    broker.fill([b"1"])
    assert broker.unacknowledged() == 1
    rights.change(Permission(write="^amq[.]default$"), {}, frozenset())
    broker.run()
    (close,) = peer.methods(ChannelClose)
    assert close.reply_code == ACCESS_REFUSED
    assert close.reply_text == "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'guest'"
    assert (broker.ready(), broker.unacknowledged()) == (1, 0)
    peer.publish(2, [b"2"], routing_key="q")
    assert broker.ready() == 2


def test_a_publisher_who_may_not_write_any_more_is_refused_with_the_next_message():
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    assert publishes("x", "k")(peer) is None
    rights.change(Permission(read=".*"), {}, frozenset())
    broker.run()
    assert publishes("x", "k")(peer) == (
        "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'guest'"
    )
    assert broker.ready() == 1


def test_a_user_who_is_gone_loses_the_connection():
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    peer.call(1, BasicConsume(queue="q"), BasicConsumeOk)
    rights.change(None, {}, frozenset())
    broker.run()
    close = peer.pick(ConnectionClose)
    assert close.reply_code == NOT_ALLOWED
    assert close.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'guest'"
    assert broker.engine.queue_info("q", None).consumers == 0
    peer.disconnect()
    assert rights.mailboxes == {}
