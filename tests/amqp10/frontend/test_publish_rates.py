"""Rate limits in the whole front end: a publisher that uses all of its link credit at once gets what the limit says."""

import pytest

from amqp10.wire.sections import Properties, encode_properties
from amqp10.wire.types import Symbol
from core.engine.virtual_hosts import HostLimits, VirtualHosts
from core.errors import Invalid
from core.publish_limit import PublishRates
from core.store.definitions import PolicyDeclaration
from tests.amqp10.test_stalls import told
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered

AT_ONCE_MAX = 170
"""Messages that one link sends in a millisecond; without a limit an adaptive window would grow without end."""
FLOWS = pytest.mark.parametrize("flow", ["fixed", "adaptive"])


def broker_with(flow: str, **amqp10: object) -> InProcessBroker:
    return InProcessBroker(make_settings(amqp10={"flow": flow, "idle_time_out": 86_400.0, **amqp10}))


def limit(broker: InProcessBroker, pattern: str, apply_to: str, **rates: int) -> None:
    definition = {key.replace("_", "-"): rate for key, rate in rates.items()}
    broker.engine.policies.set(
        PolicyDeclaration(name="slow", pattern=pattern, priority=0, apply_to=apply_to, definition=definition)
    )
    broker.run()


def publisher(broker: InProcessBroker, address: str | None = "/queues/q", links: int = 1) -> WirePeer:
    peer = broker.connect()
    peer.begin()
    for handle in range(links):
        peer.attach_sender(address, handle=handle)
    return peer


def published(
    broker: InProcessBroker, peers: list[WirePeer], seconds: float, body: bytes = b"x", to: str | None = None
) -> int:
    """How many messages are published if every link sends all that it may, looking each millisecond."""
    sent = 0
    fields = {} if to is None else {"payload": encode_properties(Properties(to=to)) + data_message(body)}
    for _ in range(round(seconds * 1000)):
        broker.advance(0.001)
        for peer in peers:
            for link in peer.session().links:
                left = min(link.credit.link_credit, AT_ONCE_MAX)
                if left:
                    peer.publish([body] * left, handle=link.end.incoming_handle, **fields)
                    sent += left
    return sent


@FLOWS
def test_the_links_to_a_queue_keep_to_its_policy_together(flow: str):
    broker = broker_with(flow)
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate=200)
    peers = [publisher(broker, links=2), publisher(broker)]
    assert published(broker, peers, 3.0) == pytest.approx(600, rel=0.1)
    assert broker.ready() == pytest.approx(600, rel=0.1), "no message is lost"


@FLOWS
def test_the_links_to_an_exchange_keep_to_its_policy(flow: str):
    broker = broker_with(flow)
    peer = publisher(broker, "/exchanges/amq.fanout")
    limit(broker, "fanout", "exchanges", publish_rate=100)
    assert published(broker, [peer], 2.0) == pytest.approx(200, rel=0.2, abs=170)
    assert published(broker, [peer], 2.0) == pytest.approx(200, rel=0.1)


@FLOWS
def test_a_limit_of_bytes(flow: str):
    broker = broker_with(flow)
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate_bytes=100_000)
    peer = publisher(broker)
    assert published(broker, [peer], 3.0, b"x" * 1000) * 1000 == pytest.approx(300_000, rel=0.12)


@FLOWS
def test_a_limit_of_the_connection_holds_for_all_its_links_and_for_no_other(flow: str):
    broker = broker_with(flow, connection_publish_rate=100)
    broker.queue()
    one, other = publisher(broker, links=2), publisher(broker)
    assert published(broker, [one, other], 2.0) == pytest.approx(400, rel=0.2)


@FLOWS
def test_a_limit_of_the_virtual_host_and_one_of_the_user_hold_for_the_anonymous_terminus_too(flow: str):
    broker = broker_with(flow)
    broker.queue()
    peer = publisher(broker, None)
    broker.engine.limits.of_host.set(PublishRates(messages=100))
    broker.run()
    published(broker, [peer], 2.0, to="/queues/q")
    assert published(broker, [peer], 2.0, to="/queues/q") == pytest.approx(200, rel=0.1)
    user = peer.front_end._engine.rights.limits
    user.set({"publish-rate": 50})
    broker.run()
    published(broker, [peer], 1.0, to="/queues/q")
    assert published(broker, [peer], 2.0, to="/queues/q") == pytest.approx(100, rel=0.1)


@FLOWS
def test_a_limit_that_is_set_changed_and_cleared_applies_at_once(flow: str):
    broker = broker_with(flow)
    broker.queue()
    peer = publisher(broker)
    free = published(broker, [peer], 0.2)
    limit(broker, "^q$", "queues", publish_rate=10)
    published(broker, [peer], 0.5)
    assert published(broker, [peer], 1.0) <= 11
    limit(broker, "^q$", "queues", publish_rate=1000)
    assert published(broker, [peer], 1.0) >= 900
    broker.engine.policies.clear("slow")
    broker.run()
    assert published(broker, [peer], 0.2) >= free / 2
    assert peer.link(0).credit.rate is None


def test_the_peer_is_told_and_the_row_of_the_link_shows_what_limits_it():
    broker = broker_with("fixed")
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate=1)
    peer = publisher(broker)
    peer.publish(numbered(1))
    broker.advance(0.2)
    row = peer.front_end.snapshot("links", broker.now)[0]
    assert (row["link_credit"], row["rate_limit"], row["limited_by"]) == (0, "queue q", "rate")
    assert told(peer) == [Symbol("rate-limit")]
    broker.advance(1.0)
    assert peer.link(0).credit.link_credit == 1
    row = peer.front_end.snapshot("links", broker.now)[0]
    assert (row["rate_limit"], row["limited_by"]) == (None, None)
    assert told(peer) == [None]


def test_a_connection_that_does_not_read_lets_the_others_go_first():
    broker = broker_with("fixed")
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate=10)
    stuck, other = publisher(broker), publisher(broker)
    stuck.attach_receiver("/queues/q", handle=9)
    stuck.stop_reading()
    stuck.grant(100, handle=9)
    stuck.publish(numbered(1))
    assert published(broker, [other], 3.0) >= 20


def test_a_link_that_is_paused_waits_for_no_tokens():
    broker = broker_with("fixed")
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate=10)
    one, other = publisher(broker), publisher(broker)
    one.publish(numbered(1))
    one.link(0).reference.pause(paused=True)
    broker.touch(one)
    assert published(broker, [other], 2.0) == pytest.approx(20, abs=3)


def test_links_that_are_gone_leave_nothing_behind():
    broker = broker_with("fixed")
    broker.queue()
    limit(broker, "^q$", "queues", publish_rate=10)
    peer = publisher(broker, links=2)
    (limited, *_) = peer.link(0).reference.limits
    assert limited.watching == 1
    peer.detach(0)
    assert limited.watching == 1
    peer.disconnect()
    broker.run()
    assert limited.watching == 0


def test_a_publish_rate_of_0_is_refused():
    hosts = VirtualHosts(InProcessBroker().engine)
    with pytest.raises(Invalid, match="publish-rate must be 1 or more"):
        hosts.set_limits("/", HostLimits(publish_rate=0))


def test_the_weight_of_a_user_holds_for_its_links_at_once():
    broker = broker_with("adaptive")
    broker.queue()
    peer = publisher(broker, links=2)

    def weights() -> set[object]:
        return {row["weight"] for row in peer.front_end.snapshot("links", broker.now)}

    assert weights() == {1}
    peer.front_end._engine.rights.limits.set({"publisher-weight": 3})
    broker.run()
    assert weights() == {3}
    peer.attach_sender("/queues/q", handle=7)
    assert weights() == {3}
    peer.front_end._engine.rights.limits.set({})
    broker.run()
    assert weights() == {1}


def test_a_weight_means_nothing_for_fixed_link_credit():
    broker = broker_with("fixed")
    broker.queue()
    peer = publisher(broker)
    peer.front_end._engine.rights.limits.set({"publisher-weight": 3})
    broker.run()
    (row,) = peer.front_end.snapshot("links", broker.now)
    assert (row["weight"], row["link_credit"]) == (None, 170)
