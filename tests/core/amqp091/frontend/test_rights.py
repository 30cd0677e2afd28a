"""Rights on AMQP 0.9.1: each method for a user with the rights that it needs, and for users who lack one of them."""

import re
from collections.abc import Collection

import pytest

from core.access.rights import FULL, Permission, Rights, TopicPermission, all_rights
from core.amqp091 import methods
from core.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from core.amqp091.properties import BasicProperties
from tests.kit.acts import Need, place, trials
from tests.kit.acts091 import ACCESS_REFUSED, ACTS, Act, connected, publishes, refusal, sends
from tests.kit.wire091 import connect

PRECONDITION_FAILED, NOT_ALLOWED = 406, 530


@pytest.mark.parametrize(("act", "needs"), ACTS.values(), ids=ACTS)
def test_a_method_is_allowed_with_all_of_its_rights_only(act: Act, needs: Collection[Need]):
    for trial in trials(needs):
        refused = act(connected(place(), trial.rights))
        if trial.allowed:
            assert refused is None
        else:
            assert refused is not None, f"allowed without {trial.told}"
            assert refused.startswith(f"ACCESS_REFUSED - {trial.told}")
            assert refused.endswith("in vhost '/' refused for user 'guest'")


NEEDS_NO_RIGHT = {
    methods.ConnectionStartOk: "the login itself",
    methods.ConnectionSecureOk: "the login itself",
    methods.ConnectionTuneOk: "before the client is in a virtual host",
    methods.ConnectionOpen: "the right to enter: see test_users_on_virtual_hosts.py",
    methods.ConnectionClose: "gives something up",
    methods.ConnectionCloseOk: "gives something up",
    methods.ConnectionUpdateSecret: "a login again: see test_secret_renewal.py",
    methods.ChannelOpen: "a limit, no right",
    methods.ChannelFlow: "of the client's own channel",
    methods.ChannelFlowOk: "of the client's own channel",
    methods.ChannelClose: "gives something up",
    methods.ChannelCloseOk: "gives something up",
    methods.AccessRequest: "does nothing",
    methods.BasicQos: "of the client's own channel",
    methods.BasicCancel: "gives something up",
    methods.BasicAck: "of a delivery that the client was allowed to read",
    methods.BasicReject: "of a delivery that the client was allowed to read",
    methods.BasicNack: "of a delivery that the client was allowed to read",
    methods.BasicRecover: "of deliveries that the client was allowed to read",
    methods.BasicRecoverAsync: "of deliveries that the client was allowed to read",
    methods.ConfirmSelect: "of the client's own channel",
    methods.TxSelect: "of the client's own channel",
    methods.TxCommit: "its publishes were checked when they came",
    methods.TxRollback: "gives something up",
}
FROM_THE_BROKER = {
    methods.ConnectionStart,
    methods.ConnectionSecure,
    methods.ConnectionTune,
    methods.ConnectionOpenOk,
    methods.ConnectionUpdateSecretOk,
    methods.ConnectionBlocked,
    methods.ConnectionUnblocked,
    methods.BasicReturn,
    methods.BasicDeliver,
    methods.BasicGetEmpty,
}


def test_every_method_of_a_client_needs_a_right_or_has_a_reason_to_need_none():
    with_a_right = {name.partition(",")[0] for name in ACTS}
    for method in methods.METHODS.values():
        name = ".".join(re.findall("[A-Z][a-z]+", method.__name__)[:2]).lower()
        answer = method.__name__.endswith("Ok") and method not in NEEDS_NO_RIGHT
        of_the_broker = answer or method in FROM_THE_BROKER
        found = [name in with_a_right and not of_the_broker, method in NEEDS_NO_RIGHT, of_the_broker]
        assert found.count(True) == 1, (method, found)


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
