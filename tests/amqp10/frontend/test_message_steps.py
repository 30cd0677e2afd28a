"""The steps of one message, from its publishing to its settling, beside many consumers, links and connections."""

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition
from tests.kit.call_trace import traced_steps
from tests.kit.wire import InProcessBroker, WirePeer

FEW = 100
"""Steps by which a message may differ from another one, of some 1,700 with those of the test's client."""


class Competing:
    """A queue with consumers on connections of their own. They are served in turn."""

    def __init__(self, consumers: int) -> None:
        broker = InProcessBroker()
        broker.queue()
        self.publisher = broker.connect()
        self.publisher.begin()
        self.publisher.attach_sender("/queues/q")
        self.consumers = [self._consumer(broker) for _ in range(consumers)]
        self.message_count = 0

    def _consumer(self, broker: InProcessBroker) -> WirePeer:
        peer = broker.connect()
        peer.begin()
        peer.attach_receiver("/queues/q")
        peer.grant(50)
        return peer

    def move_one(self) -> None:
        """Publish a message; the consumer whose turn it is accepts it."""
        consumer = self.consumers[self.message_count % len(self.consumers)]
        delivery_id = self.message_count // len(self.consumers)
        self.message_count += 1
        self.publisher.transfer(b"hello")
        consumer.send(Disposition(role=True, first=delivery_id, settled=True, state=ACCEPTED))

    def steps_of_one(self) -> int:
        """The steps of one message, after each consumer had two."""
        for _ in range(2 * len(self.consumers)):
            self.move_one()
        with traced_steps() as steps:
            self.move_one()
        return steps.total()


def test_a_message_takes_as_many_steps_beside_many_consumers_as_beside_one():
    assert Competing(100).steps_of_one() <= Competing(1).steps_of_one() + FEW


def test_a_link_encodes_the_fixed_bytes_of_its_frames_once():
    competing = Competing(1)
    competing.move_one()
    with traced_steps() as steps:
        competing.move_one()
    assert "encode_run" in {code.co_name for code in steps}
    assert "_fixed_bytes" not in {code.co_name for code in steps}


def steps_beside(*, links: int = 1, connections: int = 1) -> int:
    """The steps of a message on one of so many pairs of links, each with a queue, after each pair has had two."""
    broker = InProcessBroker()
    pairs = []
    for connection in range(connections):
        publisher, consumer = broker.connect(), broker.connect()
        pairs.append((publisher, consumer))
        publisher.begin()
        consumer.begin()
        for handle in range(links):
            address = broker.queue(f"{connection}-{handle}")
            publisher.attach_sender(address, handle=handle)
            consumer.attach_receiver(address, handle=handle)
            consumer.grant(50, handle=handle)

    def move_one(number: int, connection: int, handle: int) -> None:
        publisher, consumer = pairs[connection]
        publisher.transfer(b"hello", handle=handle)
        consumer.send(Disposition(role=True, first=number, settled=True, state=ACCEPTED))

    for number in range(2 * links):
        for connection in range(connections):
            move_one(number, connection, number % links)
    with traced_steps() as steps:
        move_one(2 * links, 0, 0)
    return steps.total()


def test_a_message_takes_as_many_steps_beside_many_links_and_connections_as_beside_one():
    alone = steps_beside()
    assert steps_beside(links=100) <= alone + FEW
    assert steps_beside(connections=100) <= alone + FEW
