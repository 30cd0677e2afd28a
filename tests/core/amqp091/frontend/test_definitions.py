"""Exchange and queue methods of a 0.9.1 connection, and their refusals."""

from decimal import Decimal

import pytest

from core.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from core.amqp091.properties import BasicProperties
from core.amqp091.table import Amqp091Timestamp, OpaqueString
from tests.kit.cases import case
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    return connect(InProcessBroker())


def queue_names(peer: Wire091Peer) -> set[str]:
    return {str(row["name"]) for row in peer.broker.engine.snapshot("queues")}


# --- queues


def test_declaring_tells_what_is_in_the_queue(peer: Wire091Peer):
    assert peer.declare() == QueueDeclareOk(queue="q", message_count=0, consumer_count=0)
    peer.publish(1, numbered(3), routing_key="q")
    peer.consume(no_ack=False)
    peer.publish(1, numbered(2), routing_key="q")
    assert len(peer.bodies()) == 5
    assert peer.declare() == QueueDeclareOk(queue="q", message_count=0, consumer_count=1)


@case("engine", "3.18")
def test_row_3_18_a_passive_declare_counts_the_ready_messages(peer: Wire091Peer):
    """row 3.18: message_count of queue.declare-ok is the number of ready messages."""
    peer.declare()
    peer.publish(1, numbered(42), routing_key="q")
    assert peer.declare(passive=True).message_count == 42
    peer.send(1, BasicGet(queue="q"))
    assert peer.got() is not None
    assert peer.declare(passive=True).message_count == 41


def test_a_passive_declare_takes_any_arguments_and_makes_nothing(peer: Wire091Peer):
    peer.declare(durable=True)
    assert peer.declare(passive=True, arguments={"x-max-length": 3}).queue == "q"
    code, text = peer.refusal(1, QueueDeclare(queue="missing", passive=True))
    assert (code, "missing" in text) == (404, True)
    assert queue_names(peer) == {"q"}


def test_a_queue_that_the_server_names(peer: Wire091Peer):
    first, second = peer.declare("").queue, peer.declare("").queue
    assert first.startswith("amq.gen-")
    assert second.startswith("amq.gen-")
    assert first != second
    assert peer.declare(first, passive=True).queue == first
    assert peer.refusal(1, QueueDeclare(queue=first))[0] == 403, "its name is the broker's all the same"


def test_the_last_declared_queue_is_meant_where_none_is_named(peer: Wire091Peer):
    name = peer.declare("").queue
    peer.call(1, QueueBind(exchange="amq.direct"), QueueBindOk)
    peer.publish(1, numbered(2), exchange="amq.direct", routing_key=name)
    assert peer.call(1, QueuePurge(), QueuePurgeOk).message_count == 2
    peer.call(1, QueueBind(exchange="amq.direct", routing_key="key"), QueueBindOk)
    peer.publish(1, numbered(1), exchange="amq.direct", routing_key="key")
    peer.send(1, BasicGet())
    assert peer.got() is not None
    peer.call(1, QueueUnbind(exchange="amq.direct"), QueueUnbindOk)
    peer.consume("")
    peer.call(1, QueueDelete(), QueueDeleteOk)
    assert queue_names(peer) == set()


@pytest.mark.parametrize("method", [QueuePurge(), QueueDelete(), QueueBind(exchange="amq.direct"), BasicGet()])
def test_none_is_named_and_none_was_declared(peer: Wire091Peer, method: Method):
    assert peer.refusal(1, method) == (404, "NOT_FOUND - no previously declared queue")


def test_the_last_declared_queue_is_each_channels_own(peer: Wire091Peer):
    other = connect(peer.broker, 1, 2)
    other.declare("a", channel=1)
    assert other.refusal(2, QueuePurge())[0] == 404


def test_an_exclusive_queue_is_its_connections_alone(peer: Wire091Peer):
    peer.declare(exclusive=True)
    other = connect(peer.broker)
    for method in (
        QueueDeclare(queue="q", exclusive=True),
        QueueDeclare(queue="q", passive=True),
        QueuePurge(queue="q"),
        QueueDelete(queue="q"),
        QueueBind(queue="q", exchange="amq.fanout"),
        BasicGet(queue="q"),
        BasicConsume(queue="q"),
    ):
        assert other.refusal(1, method)[0] == 405, method
    other.publish(1, [b"answer"], routing_key="q")  # as a server answers into the reply queue of its caller
    peer.send(1, BasicGet(queue="q"))
    answer = peer.got()
    assert answer is not None
    assert answer[2] == b"answer"
    peer.disconnect()
    assert queue_names(peer) == set()


@pytest.mark.parametrize("name", ["amq.mine", "amq.gen-mine"])
def test_reserved_names_of_queues(peer: Wire091Peer, name: str):
    assert peer.refusal(1, QueueDeclare(queue=name))[0] == 403


@pytest.mark.parametrize(
    "fields",
    [{"durable": True}, {"auto_delete": True}, {"arguments": {"x-max-length": 1}}],
    ids=str,
)
def test_what_exists_is_declared_otherwise(peer: Wire091Peer, fields: dict[str, object]):
    peer.declare()
    other = QueueDeclare(queue="q", **fields)  # type: ignore[arg-type]
    code, text = peer.refusal(1, other)
    assert code == 406
    assert "q" in text


def test_exclusive_or_not_is_a_lock(peer: Wire091Peer):
    for exclusive in (False, True):
        peer.declare("q", exclusive=exclusive)
        assert peer.refusal(1, QueueDeclare(queue="q", exclusive=not exclusive))[0] == 405
        peer.call(1, QueueDelete(queue="q"), QueueDeleteOk)


@pytest.mark.parametrize(
    "arguments", [{"x-max-length": -1}, {"x-queue-type": "round"}, {"x-message-ttl": "soon"}], ids=str
)
def test_arguments_that_make_no_sense(peer: Wire091Peer, arguments: dict[str, object]):
    code, text = peer.refusal(1, QueueDeclare(queue="q", arguments=arguments))  # type: ignore[arg-type]
    assert code == 406
    assert next(iter(arguments)) in text


def test_purging_counts_what_was_ready(peer: Wire091Peer):
    peer.declare()
    peer.publish(1, numbered(7), routing_key="q")
    peer.send(1, BasicGet(queue="q"))
    assert peer.got() is not None
    assert peer.call(1, QueuePurge(queue="q"), QueuePurgeOk).message_count == 6
    assert peer.broker.unacknowledged() == 1
    assert peer.refusal(1, QueuePurge(queue="missing"))[0] == 404


def test_deleting_counts_what_was_ready_and_what_is_not_there_is_deleted_already(peer: Wire091Peer):
    peer.declare()
    peer.publish(1, numbered(7), routing_key="q")
    assert peer.call(1, QueueDelete(queue="q"), QueueDeleteOk).message_count == 7
    assert peer.call(1, QueueDelete(queue="q"), QueueDeleteOk).message_count == 0


def test_conditions_of_deleting_a_queue(peer: Wire091Peer):
    peer.declare()
    peer.publish(1, numbered(1), routing_key="q")
    assert peer.refusal(1, QueueDelete(queue="q", if_empty=True))[0] == 406
    peer.consume()
    assert len(peer.bodies()) == 1
    other = connect(peer.broker)
    assert other.refusal(1, QueueDelete(queue="q", if_unused=True))[0] == 406
    assert queue_names(peer) == {"q"}
    peer.disconnect()
    assert other.call(1, QueueDelete(queue="q", if_unused=True), QueueDeleteOk).message_count == 1


def test_an_auto_delete_queue_goes_with_its_last_consumer(peer: Wire091Peer):
    peer.declare(auto_delete=True)
    peer.send(1, BasicGet(queue="q"))
    assert peer.got() is None
    assert queue_names(peer) == {"q"}, "basic.get is no consumer"
    peer.consume()
    other = connect(peer.broker)
    peer.disconnect()
    assert queue_names(other) == set()


# --- exchanges and bindings


@pytest.mark.parametrize(
    ("kind", "key", "other_key"), [("direct", "a", "b"), ("fanout", "a", None), ("topic", "a.*", "a.b.c")]
)
def test_exchanges_of_each_type(peer: Wire091Peer, kind: str, key: str, other_key: str | None):
    peer.declare()
    peer.exchange("x", type=kind)
    peer.bind("x", key)
    peer.publish(1, [b"in"], exchange="x", routing_key=key.replace("*", "z"))
    peer.publish(1, [b"out"], exchange="x", routing_key=other_key or "anything")
    assert peer.broker.ready() == (1 if other_key else 2)


def test_an_exchange_by_headers(peer: Wire091Peer):
    peer.declare()
    arguments = {"x-match": "all", "colour": "red", "size": 3}
    peer.bind("amq.headers", arguments=arguments)
    for headers in ({"colour": "red", "size": 3}, {"colour": "red"}, {}):
        properties = BasicProperties(headers=headers)  # type: ignore[arg-type]
        peer.publish(1, [b"m"], exchange="amq.headers", routing_key="", properties=properties)
    assert peer.broker.ready() == 1


def test_arguments_are_kept_without_the_types_of_this_protocol(peer: Wire091Peer):
    peer.declare()
    arguments = {
        "x-match": "all",
        "since": Amqp091Timestamp(1_000),
        "rate": Decimal("1.5"),
        "raw": OpaqueString(b"\xff"),
    }
    peer.bind("amq.headers", arguments=arguments)
    bindings = [row for row in peer.broker.engine.snapshot("bindings") if row["source"] == "amq.headers"]
    assert [row["arguments"] for row in bindings] == [
        {"x-match": "all", "since": 1_000_000, "rate": 1.5, "raw": b"\xff"}
    ]
    peer.publish(1, [b"m"], exchange="amq.headers", routing_key="", properties=BasicProperties(headers=arguments))  # type: ignore[arg-type]
    assert peer.broker.ready() == 1


def test_unbinding_takes_the_way_away_and_may_be_done_twice(peer: Wire091Peer):
    peer.declare()
    peer.bind("amq.direct", "k")
    for _ in range(2):
        peer.call(1, QueueUnbind(queue="q", exchange="amq.direct", routing_key="k"), QueueUnbindOk)
    peer.publish(1, [b"m"], exchange="amq.direct", routing_key="k")
    assert peer.broker.ready() == 0


def test_from_exchange_to_exchange(peer: Wire091Peer):
    peer.declare()
    peer.bind("amq.fanout")
    edge = {"destination": "amq.fanout", "source": "amq.topic", "routing_key": "#"}
    peer.call(1, ExchangeBind(**edge), ExchangeBindOk)  # type: ignore[arg-type]
    peer.publish(1, [b"m"], exchange="amq.topic", routing_key="a.b")
    assert peer.broker.ready() == 1
    peer.call(1, ExchangeUnbind(**edge), ExchangeUnbindOk)  # type: ignore[arg-type]
    peer.publish(1, [b"m"], exchange="amq.topic", routing_key="a.b")
    assert peer.broker.ready() == 1


def test_a_passive_declare_of_an_exchange(peer: Wire091Peer):
    peer.call(1, ExchangeDeclare(exchange="amq.topic", type="fanout", passive=True), ExchangeDeclareOk)
    assert peer.refusal(1, ExchangeDeclare(exchange="missing", passive=True))[0] == 404


def test_deleting_exchanges(peer: Wire091Peer):
    peer.call(1, ExchangeDelete(exchange="missing"), ExchangeDeleteOk)
    peer.declare()
    peer.exchange("x")
    peer.bind("x")
    assert peer.refusal(1, ExchangeDelete(exchange="x", if_unused=True))[0] == 406
    peer.call(1, ExchangeDelete(exchange="x"), ExchangeDeleteOk)
    assert peer.refusal(1, ExchangeDeclare(exchange="x", passive=True))[0] == 404
    peer.exchange("x")
    peer.call(1, ExchangeDelete(exchange="x", if_unused=True), ExchangeDeleteOk)


@pytest.mark.parametrize(
    "method",
    [
        ExchangeDeclare(exchange=""),
        ExchangeDeclare(exchange="", passive=True),
        ExchangeDelete(exchange=""),
        QueueBind(queue="q", exchange="", routing_key="k"),
        QueueUnbind(queue="q", exchange="", routing_key="q"),
        ExchangeBind(destination="", source="amq.direct"),
        ExchangeBind(destination="amq.direct", source=""),
        ExchangeDeclare(exchange="amq.mine"),
        ExchangeDelete(exchange="amq.direct"),
    ],
    ids=str,
)
def test_the_default_exchange_and_reserved_names_are_the_brokers(peer: Wire091Peer, method: Method):
    peer.declare()
    assert peer.refusal(1, method)[0] == 403


@pytest.mark.parametrize(
    "method",
    [
        QueueBind(queue="q", exchange="missing"),
        QueueBind(queue="missing", exchange="amq.direct"),
        ExchangeBind(destination="missing", source="amq.direct"),
        ExchangeBind(destination="amq.direct", source="missing"),
    ],
    ids=str,
)
def test_bindings_need_both_ends(peer: Wire091Peer, method: Method):
    peer.declare()
    assert peer.refusal(1, method)[0] == 404


@pytest.mark.parametrize("fields", [{"durable": True}, {"type": "fanout"}, {"internal": True}], ids=str)
def test_an_exchange_that_exists_is_declared_otherwise(peer: Wire091Peer, fields: dict[str, object]):
    peer.exchange("x")
    assert peer.refusal(1, ExchangeDeclare(exchange="x", **fields))[0] == 406  # type: ignore[arg-type]


def test_an_unknown_type_of_exchange_closes_the_connection(peer: Wire091Peer):
    code, text = peer.refusal(1, ExchangeDeclare(exchange="x", type="round"))
    assert (code, "headers" in text) == (406, True)


def test_an_internal_exchange_takes_nothing_from_clients(peer: Wire091Peer):
    peer.exchange("x", internal=True)
    peer.publish(1, [b"m"], exchange="x", routing_key="k")
    assert peer.reopened(1)[0] == 403


def test_what_no_queue_takes_goes_to_the_alternate_exchange(peer: Wire091Peer):
    peer.declare()
    peer.bind("amq.fanout")
    arguments = {"alternate-exchange": "amq.fanout"}
    peer.exchange("x", arguments=arguments)
    peer.publish(1, [b"m"], exchange="x", routing_key="nowhere", mandatory=True)
    assert peer.broker.ready() == 1
    assert peer.returned() == []


# --- no_wait


def test_no_answer_is_sent_where_none_is_wanted(peer: Wire091Peer):
    peer.send(
        1,
        ExchangeDeclare(exchange="x", no_wait=True),
        ExchangeDeclare(exchange="y", no_wait=True),
        ExchangeBind(destination="y", source="x", no_wait=True),
        QueueDeclare(queue="q", no_wait=True),
        QueueBind(queue="q", exchange="y", no_wait=True),
        QueuePurge(queue="q", no_wait=True),
    )
    assert peer.take() == []
    peer.publish(1, [b"m"], exchange="x", routing_key="")
    assert peer.broker.ready() == 1
    peer.send(
        1,
        ExchangeUnbind(destination="y", source="x", no_wait=True),
        QueueDelete(queue="q", no_wait=True),
        ExchangeDelete(exchange="x", no_wait=True),
        ExchangeDelete(exchange="y", no_wait=True),
    )
    assert peer.take() == []
    assert queue_names(peer) == set()


def test_a_refusal_comes_whether_an_answer_was_wanted_or_not(peer: Wire091Peer):
    assert peer.refusal(1, QueueDeclare(queue="amq.mine", no_wait=True))[0] == 403


# --- many at once, recorded together


@pytest.fixture
def stored() -> Wire091Peer:
    """A client of a broker that records durable queues, and so answers in the next turn."""
    return connect(InProcessBroker(durable=True))


def pipelined(*names: str) -> list[Method]:
    return [QueueDeclare(queue=name, durable=True) for name in names]


def test_queues_that_are_declared_in_a_row_are_answered_in_their_order(stored: Wire091Peer):
    stored.send(1, *pipelined("a", "b", "c"), QueueDelete(queue="b"), QueueDeclare(queue="t"), *pipelined("b", "a"))
    answers = [method for _, method, _ in stored.take()]
    assert answers == [
        *(QueueDeclareOk(queue=name) for name in ("a", "b", "c")),
        QueueDeleteOk(),
        *(QueueDeclareOk(queue=name) for name in ("t", "b", "a")),
    ]
    assert queue_names(stored) == {"a", "b", "c", "t"}


def test_what_follows_a_declaration_finds_its_queue(stored: Wire091Peer):
    stored.send(
        1,
        QueueDeclare(queue="a", durable=True, no_wait=True),
        QueueBind(queue="a", exchange="amq.direct", routing_key="k", no_wait=True),
        *pipelined("b"),
        QueueDeclare(queue="b", passive=True),
        QueueDelete(queue="a", if_empty=True),
    )
    assert [method for _, method, _ in stored.take()] == [
        QueueDeclareOk(queue="b"),
        QueueDeclareOk(queue="b"),
        QueueDeleteOk(),
    ]
    stored.send(1, QueueDeclare(queue="", durable=True, no_wait=True))
    stored.publish(1, numbered(1), routing_key="b")
    assert stored.broker.ready("b") == 1


def test_a_refused_declaration_comes_behind_the_answers_before_it_and_ends_the_row(stored: Wire091Peer):
    stored.declare("there", durable=True)
    stored.send(1, *pipelined("a"), QueueDeclare(queue="there", durable=False), *pipelined("b"))
    (_, first, _), (_, second, _) = stored.take()
    assert first == QueueDeclareOk(queue="a")
    assert isinstance(second, ChannelClose)
    assert (second.reply_code, second.class_id, second.method_id) == (406, *QueueDeclare.ID)
    assert queue_names(stored) == {"there", "a"}


def test_the_broker_rests_while_queues_are_recorded_and_the_first_one_wakes_the_channel():
    """:meth:`tests.kit.wire.InProcessBroker.run` fails if the broker does not come to rest."""
    definitions = KeptDefinitions()
    definitions.slow = True
    peer = connect(InProcessBroker(storage=open_storage(MemoryDisk(), definitions)))
    bind = QueueBind(queue="b", exchange="amq.direct", routing_key="k")
    peer.send(1, *pipelined("a", "b"), bind, QueueDelete(queue="a"), *pipelined("c"))
    assert peer.take() == []

    def answers() -> list[Method]:
        definitions.under_way.pop().finish()
        peer.broker.run()
        return [method for _, method, _ in peer.take()]

    assert answers() == [QueueDeclareOk(queue="a"), QueueDeclareOk(queue="b"), QueueBindOk()]
    assert answers() == [QueueDeleteOk(), QueueDeclareOk(queue="c")]
    assert queue_names(peer) == {"b", "c"}
