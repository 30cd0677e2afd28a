"""A queue or exchange with thousands of bindings is deleted: for its client at once, and in steps for the event
loop."""

import pytest

from core.amqp091 import methods
from core.clock import Now
from core.config.settings import Settings
from core.engine.broker import REMOVAL_RETRY_S, Broker
from core.engine.routing.topology import RECORD_WORK, REMOVED_AT_ONCE
from core.errors import NotFound, PreconditionFailed, StillGoing
from core.interface import ExchangeTarget, Outcome
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, exchange, make_broker, queue
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.link_pair import LinkPair
from tests.kit.storage import KeptDefinitions, open_storage
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import connect

STEPS = 3
COUNT = STEPS * REMOVED_AT_ONCE
ME = "me"


def bound(broker: Broker) -> Broker:
    """A broker with an exchange e from which thousands of bindings lead to q."""
    broker.declare_exchange(exchange("e"))
    for number in range(COUNT):
        broker.bind(binding("e", "q", f"{number}"), ME)
    return broker


def test_the_bindings_follow_turn_by_turn():
    broker = bound(make_broker("q"))
    before = broker.work.spent
    broker.delete_queue("q", ME)
    assert RECORD_WORK < broker.work.spent - before < RECORD_WORK + 10 * REMOVED_AT_ONCE
    with pytest.raises(StillGoing):
        broker.declare_queue(queue("q"), ME)
    assert broker.snapshot("bindings") == []
    assert broker.snapshot("totals")[0]["bindings"] == 0
    turns = 1
    while broker.turn(NOW):
        turns += 1
    assert turns >= STEPS - 1
    assert broker.declare_queue(queue("q"), ME)[1]


def test_a_message_for_a_queue_that_is_going_has_no_queue():
    broker = bound(make_broker("q"))
    broker.delete_queue("q", ME)
    peer = Peer(broker)
    peer.publish(ExchangeTarget("e", f"{COUNT - 1}"), bodies(1))
    assert [outcome for _, _, outcome in confirms(peer.turn())] == [Outcome.RELEASED]


def test_an_exchange_that_is_being_deleted_takes_no_messages():
    broker = bound(make_broker("q"))
    broker.delete_exchange("e")
    with pytest.raises(NotFound):
        Peer(broker).publisher(ExchangeTarget("e", "1"))


class FullDisk(KeptDefinitions):
    """A recorder that takes no removals while it is full."""

    full = False

    def remove(self, **what: object) -> None:
        """See :class:`core.engine.routing.topology.DefinitionsRecorder`."""
        if self.full:
            raise PreconditionFailed("no space")
        super().remove(**what)  # type: ignore[arg-type]


def test_a_removal_that_the_disk_does_not_take_is_tried_again_later():
    kept = FullDisk()
    broker = Broker(Settings(), storage=open_storage(MemoryDisk(), kept))
    broker.declare_queue(queue("q"), ME)
    bound(broker)
    broker.delete_queue("q", ME)
    kept.full = True
    broker.turn(NOW)
    assert broker.deadline() == NOW.monotonic + REMOVAL_RETRY_S
    with pytest.raises(PreconditionFailed, match="no space"):
        broker.declare_queue(queue("q"), ME)
    kept.full = False
    later = Now(NOW.monotonic + REMOVAL_RETRY_S, NOW.wall + REMOVAL_RETRY_S)
    while broker.turn(later):
        pass
    assert broker.declare_queue(queue("q"), ME)[1]


@pytest.fixture
def wired() -> InProcessBroker:
    """A broker with clients, and the same exchange and queue."""
    broker = InProcessBroker()
    broker.queue("q")
    bound(broker.engine)
    return broker


def test_a_declaration_over_0_9_1_waits_and_what_follows_it_too(wired: InProcessBroker):
    peer = connect(wired)
    wired.rounds_max = 1
    peer.send(
        1,
        methods.QueueDelete(queue="q", no_wait=True),
        methods.QueueDeclare(queue="q", durable=True),
        methods.QueueBind(queue="q", exchange="e", routing_key="new"),
    )
    assert peer.methods(methods.QueueDeclareOk) == []
    wired.rounds_max = None
    wired.run()
    assert [type(method) for _, method, _ in peer.take()] == [methods.QueueDeclareOk, methods.QueueBindOk]
    assert [row["binding_key"] for row in wired.engine.snapshot("bindings")] == ["new"]


def test_the_end_of_a_channel_does_not_wait_for_a_declaration(wired: InProcessBroker):
    peer = connect(wired)
    wired.rounds_max = 1
    peer.send(1, methods.ExchangeDelete(exchange="e"), methods.ExchangeDeclare(exchange="e", type="direct"))
    peer.disconnect()
    wired.rounds_max = None
    wired.run()
    assert not wired.engine.snapshot("exchanges", "e")


@pytest.mark.parametrize(("path", "body"), [("/queues/q", {}), ("/exchanges/e", {"type": "fanout"})])
def test_a_declaration_over_1_0_waits(wired: InProcessBroker, path: str, body: dict[str, object]):
    peer = wired.connect()
    peer.begin()
    pair = LinkPair(peer).attach()
    pair.grant(2)
    pair.send("DELETE", path)
    pair.send("PUT", path, body)
    assert [answer.status // 100 for answer in pair.take_answers()] == [2, 2]
    assert wired.engine.snapshot("bindings") == []
