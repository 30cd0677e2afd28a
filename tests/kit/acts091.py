"""What a client of AMQP 0.9.1 may try with queues and exchanges, the rights that it needs, and how it is refused."""

from collections.abc import Callable, Collection, Mapping

from core.access.rights import Rights
from core.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
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
from tests.kit.acts import Need
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import Wire091Peer, connect

ACCESS_REFUSED = 403

Act = Callable[[Wire091Peer], str | None]
"""Does something; returns the text of the refusal, or None."""


def refusal(peer: Wire091Peer) -> str | None:
    """The text with which the channel was closed; None for one that is open."""
    closes = peer.methods(ChannelClose)
    assert all(close.reply_code == ACCESS_REFUSED for close in closes), closes
    return closes[0].reply_text if closes else None


def sends(*methods: Method) -> Act:
    """Send these methods on channel 1."""

    def act(peer: Wire091Peer) -> str | None:
        peer.send(1, *methods)
        return refusal(peer)

    return act


def publishes(exchange: str, key: str, headers: dict[str, object] | None = None) -> Act:
    """Publish a message."""

    def act(peer: Wire091Peer) -> str | None:
        peer.publish(1, [b"x"], exchange=exchange, routing_key=key, properties=BasicProperties(headers=headers))
        return refusal(peer)

    return act


def publishes_in_transaction(peer: Wire091Peer) -> str | None:
    """Publish a message in a transaction."""
    peer.send(1, TxSelect())
    return publishes("x", "k")(peer)


DEAD_LETTERS, ALTERNATE = {"x-dead-letter-exchange": "x"}, {"alternate-exchange": "x"}
ACTS: Mapping[str, tuple[Act, Collection[Need]]] = {
    "queue.declare": (sends(QueueDeclare(queue="new")), [("configure", "new")]),
    "queue.declare, with dead letters": (
        sends(QueueDeclare(queue="new", arguments=DEAD_LETTERS)),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    "queue.delete": (sends(QueueDelete(queue="q")), [("configure", "q")]),
    "queue.delete, of none": (sends(QueueDelete(queue="new")), [("configure", "new")]),
    "queue.purge": (sends(QueuePurge(queue="q")), [("read", "q")]),
    "queue.bind": (
        sends(QueueBind(queue="q", exchange="x", routing_key="new")),
        [("write", "q"), ("read", "x")],
    ),
    "queue.unbind": (
        sends(QueueUnbind(queue="q", exchange="x", routing_key="k")),
        [("write", "q"), ("read", "x")],
    ),
    "exchange.declare": (sends(ExchangeDeclare(exchange="new")), [("configure", "new")]),
    "exchange.declare, with an alternate": (
        sends(ExchangeDeclare(exchange="new", arguments=ALTERNATE)),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    "exchange.delete": (sends(ExchangeDelete(exchange="x")), [("configure", "x")]),
    "exchange.bind": (sends(ExchangeBind(destination="topic", source="x")), [("write", "topic"), ("read", "x")]),
    "exchange.unbind": (sends(ExchangeUnbind(destination="topic", source="x")), [("write", "topic"), ("read", "x")]),
    "basic.consume": (sends(BasicConsume(queue="q")), [("read", "q")]),
    "basic.get": (sends(BasicGet(queue="q")), [("read", "q")]),
    "basic.publish, to a queue": (publishes("", "q"), [("write", "amq.default")]),
    "basic.publish": (publishes("x", "k"), [("write", "x")]),
    "basic.publish, with CC": (publishes("x", "k", {"CC": ["other"]}), [("write", "x")]),
    "basic.publish, in a transaction": (publishes_in_transaction, [("write", "x")]),
}
"""Each act with the rights that it needs; the name begins with the method."""


def connected(broker: InProcessBroker, rights: Rights) -> Wire091Peer:
    """A client with channel 1, whose user has these rights."""
    broker.rights = rights
    return connect(broker)
