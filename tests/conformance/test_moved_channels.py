"""A channel of AMQP 0.9.1 that consumes from a quorum queue outlives the leader of the queue."""

import pytest

from core.amqp091.methods import BasicQos, BasicQosOk, ChannelClose
from tests.kit.apart import Apart
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, drain, open_storage
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


class Led:
    """Two nodes, of which the home leads the quorum queue ``far`` with five messages; a client holds three of them."""

    def __init__(self, *, at_home: bool, whole_channel: bool = False) -> None:
        self.storage = open_storage(MemoryDisk(), KeptDefinitions())
        self.apart = Apart(self.storage, x_queue_type="quorum")
        self.apart.home.fill(numbered(5), "far")
        self.written()
        node: InProcessBroker = self.apart.home if at_home else self.apart.entry
        self.client: Wire091Peer = connect(node)
        self.client.call(1, BasicQos(prefetch_count=3, global_=whole_channel), BasicQosOk)
        self.client.consume("far")
        self.written()
        assert self.client.bodies() == numbered(3)

    def written(self) -> None:
        """The home node writes its log, and both nodes have turns."""
        for _ in range(3):
            drain(self.storage, self.apart.home.now.monotonic)
            self.apart.home.run()
            self.apart.entry.run()

    def leads_no_more(self) -> None:
        """The home ceases to lead the queue's group."""
        self.storage.quorum.demote()
        self.written()

    def leads_again(self) -> None:
        """The home leads the queue's group in the next term."""
        self.storage.quorum.lead_again()
        self.written()

    def redelivered(self) -> list[tuple[int, bytes, bool]]:
        """Tag, body and flag of what the client has got."""
        return [(method.delivery_tag, body, method.redelivered) for method, _, body in self.client.deliveries()]


@pytest.mark.parametrize("at_home", [True, False])
@pytest.mark.parametrize("whole_channel", [True, False])
def test_deliveries_that_are_taken_back_come_again_and_count_no_more(at_home: bool, whole_channel: bool):
    led = Led(at_home=at_home, whole_channel=whole_channel)
    led.leads_no_more()
    assert led.client.methods(ChannelClose) == [], "nothing was acknowledged too late"
    led.leads_again()
    assert led.redelivered() == [(4, b"0", True), (5, b"1", True), (6, b"2", True)]
    led.client.ack(4)
    led.written()
    assert [(tag, body) for tag, body, _ in led.redelivered()] == [(7, b"3")]


@pytest.mark.parametrize("at_home", [True, False])
@pytest.mark.parametrize("multiple", [True, False])
def test_an_acknowledgement_of_what_was_taken_back_has_no_effect(at_home: bool, multiple: bool):
    led = Led(at_home=at_home)
    led.leads_no_more()
    for tag in [3] if multiple else [1, 2, 3]:
        led.client.ack(tag, multiple=multiple)
    led.leads_again()
    assert [body for _, body, _ in led.redelivered()] == numbered(3)
    assert led.client.methods(ChannelClose) == []
    led.client.ack(6, multiple=True)
    led.written()
    assert [body for _, body, _ in led.redelivered()] == [b"3", b"4"]
    led.client.ack(8, multiple=True)
    led.written()
    assert (led.apart.home.ready("far"), led.apart.home.unacknowledged("far")) == (0, 0)


def test_a_tag_that_was_taken_back_can_be_acknowledged_once():
    led = Led(at_home=True)
    led.leads_no_more()
    led.client.ack(2)
    led.client.ack(2)
    assert led.client.reopened(1) == (406, "PRECONDITION_FAILED - unknown delivery tag 2")


@pytest.mark.parametrize("at_home", [True, False])
def test_a_channel_is_closed_for_what_was_held_too_long(at_home: bool):
    a = Apart()
    a.home.fill(numbered(1), "far")
    client = connect(a.home if at_home else a.entry)
    client.consume("far", arguments={"x-consumer-timeout": 1_000})
    assert client.bodies() == [b"0"]
    a.home.advance(2.0)
    a.entry.run()
    assert client.reopened(1) == (406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out")
