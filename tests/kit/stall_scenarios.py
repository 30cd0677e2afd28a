"""A scenario for each reason of docs/flow-reasons, in which a link or connection waits for that reason.

Every test that asks who reports the reason uses them. ``no-message`` has none, because it is idleness.

No time passes while a scenario begins, and its cause lasts until the test calls ``end``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from amqp10.wire.messaging import ACCEPTED
from core.amqp091.properties import BasicProperties
from core.config.settings import Settings
from core.engine.options.policies import PolicyDeclaration
from core.server.orders import BoundLink, Order, PauseLink, ResumeLink
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage, work
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer, connect

IN, OUT = "test-0/0/0", "test-0/0/1"
"""The identities of the links that publish and consume."""
STOPPED = make_settings(engine={"stage_messages_per_turn": {"channel": 0}})
"""Settings under which a channel takes on no messages."""

PeerT = TypeVar("PeerT")


@dataclass
class Scenario(Generic[PeerT]):
    """A broker with a peer that waits, and the function that ends the cause."""

    broker: InProcessBroker
    peer: PeerT
    end: Callable[[], object]


@dataclass(frozen=True)
class Cause(Generic[PeerT]):
    """A scenario, and what every view must say of it."""

    name: str
    begin: Callable[[], Scenario[PeerT]]
    identity: str
    reason: str
    culprit: str


# --- links of AMQP 1.0 ---------------------------------------------------------------------------------------------


def publishing(broker: InProcessBroker, address: str | None) -> WirePeer:
    """A client with a publishing link."""
    peer = broker.connect(container_id="shop")
    peer.begin()
    peer.attach_sender(address)
    return peer


def consuming(broker: InProcessBroker, **arguments: object) -> WirePeer:
    """A client with a consuming link to a new queue."""
    peer = broker.connect(container_id="shop")
    peer.begin()
    peer.attach_receiver(broker.queue(**arguments))
    return peer


def use_up(peer: WirePeer, **fields: object) -> None:
    """Publish until the link credit is used up."""
    while (left := peer.link(0).credit.link_credit) > 0:
        peer.publish(numbered(left), **fields)


def alarm(name: str) -> Callable[[], Scenario[WirePeer]]:
    """An alarm is on."""

    def begin() -> Scenario[WirePeer]:
        broker = InProcessBroker()
        peer = publishing(broker, broker.queue())
        broker.raise_alarm(name)
        return Scenario(broker, peer, lambda: broker.clear_alarm(name))

    return begin


def paused(link: str) -> Callable[[], Scenario[WirePeer]]:
    """An operator has paused a link."""

    def begin() -> Scenario[WirePeer]:
        broker = InProcessBroker()
        peer = publishing(broker, broker.queue())
        peer.attach_receiver("/queues/q")
        peer.grant(10)
        give_order(peer, PauseLink(link))
        return Scenario(broker, peer, lambda: give_order(peer, ResumeLink(link)))

    return begin


def give_order(peer: WirePeer, order: Order) -> None:
    """Carry an order out, as the server does in the turn that follows."""
    peer.front_end.check(order)
    peer.front_end.obey(order, peer.broker.now)
    peer.broker.touch(peer)
    peer.broker.run()


def drained(link: str) -> Callable[[], Scenario[WirePeer]]:
    """The broker is in maintenance mode."""

    def begin() -> Scenario[WirePeer]:
        broker = InProcessBroker()
        peer = publishing(broker, broker.queue()) if link == IN else consuming(broker)
        if link == OUT:
            peer.grant(10)
        drain(broker, wanted=True)
        return Scenario(broker, peer, lambda: drain(broker, wanted=False))

    return begin


def drain(broker: InProcessBroker, *, wanted: bool) -> None:
    """Begin or end maintenance mode."""
    broker.control.drain(wanted=wanted)
    broker.run()


def policy() -> Scenario[WirePeer]:
    """A policy allows little link credit, and the queue is slow."""
    broker = InProcessBroker()
    declaration = PolicyDeclaration(
        name="few", pattern="^q$", priority=0, apply_to="queues", definition={"max-link-credit": 10}
    )
    broker.engine.policies.set(declaration)
    peer = publishing(broker, broker.queue())
    broker.stall()
    use_up(peer)
    return Scenario(broker, peer, broker.recover)


def bound_by_operator() -> Scenario[WirePeer]:
    """An operator allows little link credit, and the queue is slow."""
    broker = InProcessBroker()
    peer = publishing(broker, broker.queue())
    give_order(peer, BoundLink(IN, 10))
    broker.stall()
    use_up(peer)
    return Scenario(broker, peer, broker.recover)


def bounded_consumer() -> Scenario[WirePeer]:
    """An operator lets the consumer hold two messages, and it settles none."""
    broker = InProcessBroker()
    peer = consuming(broker)
    give_order(peer, BoundLink(OUT, 2))
    peer.grant(10)
    broker.fill(numbered(3))
    return Scenario(broker, peer, lambda: peer.dispose(0, 1, state=ACCEPTED))


def policed_consumer() -> Scenario[WirePeer]:
    """A policy lets each consumer hold two messages, and this one settles none."""
    broker = InProcessBroker()
    declaration = PolicyDeclaration(
        name="few", pattern="^q$", priority=0, apply_to="queues", definition={"max-unsettled": 2}
    )
    broker.engine.policies.set(declaration)
    peer = consuming(broker)
    peer.grant(10)
    broker.fill(numbered(3))
    return Scenario(broker, peer, lambda: peer.dispose(0, 1, state=ACCEPTED))


def frugal_consumer() -> Scenario[WirePeer]:
    """The consumer wants to hold one byte, which one message is always more than, and it settles none."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, properties={"headgate:max-unsettled-bytes": 1})
    peer.grant(10)
    broker.fill(numbered(2))
    return Scenario(broker, peer, lambda: peer.dispose(0, 0, state=ACCEPTED))


def rate_limit() -> Scenario[WirePeer]:
    """A policy lets a byte a second be published, so the first message is paid for a long time."""
    broker = InProcessBroker()
    definition = {"publish-rate-bytes": 1}
    declaration = PolicyDeclaration(name="slow", pattern="^q$", priority=0, apply_to="queues", definition=definition)
    broker.engine.policies.set(declaration)
    peer = publishing(broker, broker.queue())
    use_up(peer)

    def end() -> None:
        broker.engine.policies.clear("slow")
        broker.run()

    return Scenario(broker, peer, end)


def queue_full() -> Scenario[WirePeer]:
    """The queue is at its length limit."""
    broker = InProcessBroker()
    peer = publishing(broker, broker.queue(x_max_length=2, x_overflow="block"))
    use_up(peer)

    def consume() -> None:
        consumer = broker.connect()
        consumer.begin()
        consumer.attach_receiver("/queues/q", snd_settle_mode=1)
        consumer.grant(1000)

    return Scenario(broker, peer, consume)


def unconfirmed_limit() -> Scenario[WirePeer]:
    """The queue takes on no messages."""
    broker = InProcessBroker()
    peer = publishing(broker, broker.queue())
    broker.stall()
    use_up(peer)
    return Scenario(broker, peer, broker.recover)


def unsettled_limit() -> Scenario[WirePeer]:
    """The client settles nothing, although its rcv-settle-mode leaves that to it."""
    broker = InProcessBroker(make_settings(amqp10={"unsettled_limit": 100}))
    broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q", rcv_settle_mode=1)
    use_up(peer)

    def settle() -> None:
        peer.dispose(0, 2**31 - 1, role=False, settled=True)

    return Scenario(broker, peer, settle)


def memory_share() -> Scenario[WirePeer]:
    """The queue takes on no messages, and those of the link are larger than its budget of bytes."""
    broker = InProcessBroker(make_settings(amqp10={"flow": "adaptive", "link_unconfirmed_bytes_max": 1000}))
    peer = publishing(broker, broker.queue())
    broker.stall()
    use_up(peer)
    return Scenario(broker, peer, broker.recover)


def store_slow() -> Scenario[WirePeer]:
    """The disk syncs no records."""
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    peer = publishing(broker, broker.queue(x_queue_type="quorum"))
    use_up(peer)

    def sync() -> None:
        while work(storage, broker.now.monotonic):
            broker.run()

    return Scenario(broker, peer, sync)


def leader_moving() -> Scenario[WirePeer]:
    """The node has handed the queue over to another one, which does not lead yet."""
    return no_quorum(moving=True)


def no_quorum(*, moving: bool = False) -> Scenario[WirePeer]:
    """The node does not lead the queue."""
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    peer = publishing(broker, broker.queue(x_queue_type="quorum"))
    broker.run()
    storage.quorum.tell_moving(moving=moving)
    storage.quorum.demote()
    use_up(peer)

    def lead() -> None:
        storage.quorum.tell_moving(moving=False)
        storage.quorum.lead_again()
        broker.run()
        while work(storage, broker.now.monotonic):
            broker.run()

    return Scenario(broker, peer, lead)


def session_window() -> Scenario[WirePeer]:
    """The client opens its session window for less than it asks for."""
    broker = InProcessBroker()
    peer = consuming(broker)
    peer.grant(10, incoming_window=2)
    broker.fill(numbered(5))
    return Scenario(broker, peer, lambda: peer.flow(incoming_window=100))


def link_credit() -> Scenario[WirePeer]:
    """The client gives no link credit."""
    broker = InProcessBroker()
    peer = consuming(broker)
    broker.fill(numbered(5))
    return Scenario(broker, peer, lambda: peer.grant(10))


def link_credit_of_a_stream() -> Scenario[WirePeer]:
    """The client gives less link credit than there are messages."""
    broker = InProcessBroker(durable=True)
    peer = consuming(broker, x_queue_type="stream")
    peer.grant(2)
    broker.fill(numbered(2))
    broker.fill(numbered(3))
    peer.grant(1)
    return Scenario(broker, peer, lambda: peer.grant(10))


def socket() -> Scenario[WirePeer]:
    """The client does not read."""
    broker = InProcessBroker()
    peer = consuming(broker)
    peer.grant(10)
    peer.stop_reading(writes=1)
    broker.fill(numbered(1))
    broker.fill(numbered(1))
    return Scenario(broker, peer, peer.go_on_reading)


def inactive() -> Scenario[WirePeer]:
    """A queue with a single active consumer has two consumers."""
    broker = InProcessBroker()
    peer = broker.connect(container_id="shop")
    peer.begin()
    address = broker.queue(x_single_active_consumer=True)
    peer.attach_receiver(address, handle=0)
    peer.attach_receiver(address, handle=1)
    peer.grant(10, handle=0)
    peer.grant(10, handle=1)
    return Scenario(broker, peer, lambda: peer.detach(0))


LINKS: Sequence[Cause[WirePeer]] = (
    Cause("drain-mode", drained(IN), IN, "drain-mode", "operator"),
    Cause("drain-mode of a consumer", drained(OUT), OUT, "drain-mode", "operator"),
    Cause("memory", alarm("memory"), IN, "memory", "alarm memory"),
    Cause("disk", alarm("disk"), IN, "disk", "alarm disk"),
    Cause("paused", paused(IN), IN, "paused", "operator"),
    Cause("paused consumer", paused(OUT), OUT, "paused", "operator"),
    Cause("rate-limit", rate_limit, IN, "rate-limit", "queue q"),
    Cause("policy", policy, IN, "policy", "policy of queue q"),
    Cause("policy of an operator", bound_by_operator, IN, "policy", "operator"),
    Cause("policy of an operator for a consumer", bounded_consumer, OUT, "policy", "operator"),
    Cause("policy for a consumer", policed_consumer, OUT, "policy", "policy of queue q"),
    Cause("policy of a consumer's own", frugal_consumer, OUT, "policy", "client"),
    Cause("leader-moving", leader_moving, IN, "leader-moving", "queue q"),
    Cause("no-quorum", no_quorum, IN, "no-quorum", "queue q"),
    Cause("queue-full", queue_full, IN, "queue-full", "queue q"),
    Cause("unconfirmed-limit", unconfirmed_limit, IN, "unconfirmed-limit", "queue q"),
    Cause("unconfirmed-limit of the client", unsettled_limit, IN, "unconfirmed-limit", "client"),
    Cause("memory-share", memory_share, IN, "memory-share", "bytes of the link"),
    Cause("store-slow", store_slow, IN, "store-slow", "store"),
    Cause("session-window", session_window, OUT, "session-window", "client"),
    Cause("link-credit", link_credit, OUT, "link-credit", "client"),
    Cause("link-credit of a stream", link_credit_of_a_stream, OUT, "link-credit", "client"),
    Cause("socket", socket, OUT, "socket", "client"),
    Cause("inactive", inactive, OUT, "inactive", "active consumer of queue q"),
)


# --- readers of AMQP 0.9.1 -----------------------------------------------------------------------------------------


def with_queue(broker: InProcessBroker, settings: Settings | None = None) -> Wire091Peer:
    """A client with two channels, and the queue q."""
    broker.queue("q")
    return connect(broker, 1, 2, settings=settings)


def publish_while_read(peer: Wire091Peer, body: bytes = b"m") -> None:
    """Publish until the broker stops reading."""
    for _ in range(1000):
        if not peer.front_end.reading:
            return
        peer.publish(1, [body] * 10, routing_key="q", properties=BasicProperties(delivery_mode=2))
    raise AssertionError("the reader never stops")


def reader_under_alarm(name: str) -> Callable[[], Scenario[Wire091Peer]]:
    """An alarm is on, and the client has published since."""

    def begin() -> Scenario[Wire091Peer]:
        peer = with_queue(InProcessBroker())
        peer.broker.raise_alarm(name)
        peer.publish(1, numbered(1), routing_key="q")
        return Scenario(peer.broker, peer, lambda: peer.broker.clear_alarm(name))

    return begin


def reader_of_drained() -> Scenario[Wire091Peer]:
    """The broker is in maintenance mode, and the client has published since."""
    peer = with_queue(InProcessBroker())
    drain(peer.broker, wanted=True)
    peer.publish(1, numbered(1), routing_key="q")
    return Scenario(peer.broker, peer, lambda: drain(peer.broker, wanted=False))


def slow_channel() -> Scenario[Wire091Peer]:
    """The channel takes on no messages."""
    peer = with_queue(InProcessBroker(), STOPPED)
    publish_while_read(peer)

    def hurry() -> None:
        for channel in peer.front_end.channels.values():
            channel._shared.messages_per_turn = 200
        peer.touch()
        peer.broker.run()

    return Scenario(peer.broker, peer, hurry)


def slow_queue() -> Scenario[Wire091Peer]:
    """The queue takes on no messages."""
    peer = with_queue(InProcessBroker())
    peer.broker.stall()
    publish_while_read(peer)
    return Scenario(peer.broker, peer, peer.broker.recover)


def slow_store() -> Scenario[Wire091Peer]:
    """The disk writes no records."""
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    settings = make_settings(stage_credit={"store_initial": 40, "store_more_after": 20})
    peer = with_queue(InProcessBroker(settings, storage=storage))
    publish_while_read(peer, bytes(5000))

    def write() -> None:
        while work(storage, peer.broker.now.monotonic):
            peer.broker.run()

    return Scenario(peer.broker, peer, write)


READERS: Sequence[Cause[Wire091Peer]] = (
    Cause("drain-mode", reader_of_drained, "test-0", "drain-mode", "operator"),
    Cause("memory", reader_under_alarm("memory"), "test-0", "memory", "alarm memory"),
    Cause("disk", reader_under_alarm("disk"), "test-0", "disk", "alarm disk"),
    Cause("channel", slow_channel, "test-0", "stage-credit", "channel test-0/1"),
    Cause("queue", slow_queue, "test-0", "stage-credit", "queue q"),
    Cause("message store", slow_store, "test-0", "stage-credit", "message store"),
)
