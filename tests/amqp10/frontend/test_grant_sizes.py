"""Batches of consumers with adaptive flow control: what a slow one takes from the others, and what stays as it is."""

import pytest

from amqp10.wire.messaging import ACCEPTED
from core.config.amqp10 import Amqp10Settings
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered


class Two:
    """A consumer that settles nothing and one that settles at once, with much link credit each."""

    def __init__(self, flow: str) -> None:
        self.broker = InProcessBroker(make_settings(amqp10={"flow": flow}))
        self.broker.queue()
        self.slow, self.quick = self._consumer(), self._consumer()
        self.settled = 0

    def _consumer(self) -> WirePeer:
        peer = self.broker.connect()
        peer.begin()
        peer.attach_receiver("/queues/q")
        peer.grant(100_000)
        return peer

    def burst(self, n: int) -> tuple[int, int]:
        """Publish messages at once; returns how many each got."""
        self.broker.fill(numbered(n))
        slow, quick = len(self.slow.bodies()), len(self.quick.bodies())
        self.broker.advance(0.01)
        if quick:
            self.quick.dispose(self.settled, self.settled + quick - 1, state=ACCEPTED)
            self.settled += quick
        return slow, quick


def test_with_fixed_flow_control_a_slow_consumer_takes_half_of_a_burst():
    two = Two("fixed")
    two.burst(100)
    slow, quick = two.burst(2000)
    assert slow == pytest.approx(1000, abs=256)
    assert slow + quick == 2000


def test_with_adaptive_flow_control_a_slow_consumer_hoards_no_burst():
    two = Two("adaptive")
    two.burst(100)
    two.broker.advance(1.0)
    slow, quick = two.burst(2000)
    assert slow <= 100, "16 for each batch of the other"
    assert slow + quick == 2000


def test_a_consumer_alone_gets_what_its_link_credit_allows_although_it_settles_nothing():
    broker = InProcessBroker(make_settings(amqp10={"flow": "adaptive"}))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue())
    peer.grant(1000)
    broker.fill(numbered(1500))
    assert peer.bodies() == numbered(1000)
    assert peer.link(1).grant.batch == 16


def test_a_link_that_sends_settled_keeps_its_batch():
    broker = InProcessBroker(make_settings(amqp10={"flow": "adaptive"}))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue(), snd_settle_mode=1)
    peer.grant(1000)
    broker.fill(numbered(600))
    assert peer.bodies() == numbered(600)
    assert peer.link(1).grant.batch == 256


def test_a_policy_bounds_the_batch():
    broker = InProcessBroker(make_settings(amqp10={"flow": "adaptive"}))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue())
    peer.link(1).reference.consumer.link_credit_max = 2
    peer.grant(7)
    broker.fill(numbered(10))
    assert peer.bodies() == numbered(7)
    assert peer.link(1).grant.batch == 2


@pytest.mark.parametrize(("least", "most", "right"), [(16, 16, True), (17, 16, False), (1, 65536, True)])
def test_the_bounds_have_an_order(least: int, most: int, right: bool):
    amqp10 = {"queue_grant_min": least, "queue_grant_max": most}
    if right:
        assert Amqp10Settings.model_validate(amqp10).queue_grant_max == most
        return
    with pytest.raises(ValueError, match="must not be less than queue_grant_min, which is 17"):
        Amqp10Settings.model_validate(amqp10)
