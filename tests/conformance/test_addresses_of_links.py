"""Addresses on links, as RabbitMQ's address suite shows them: queues, exchanges with and without key, and none."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED, Rejected, Source
from amqp10.wire.performatives import Detach, Disposition, End
from amqp10.wire.sections import Properties, encode_properties
from core.interface import Binding, ExchangeDeclaration
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, data_message


def session(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


def bound(broker: InProcessBroker, key: str, *, source: str = "amq.direct", queue: str = "q") -> None:
    """A queue bound to an exchange."""
    broker.queue(queue)
    binding = Binding(source=source, destination=queue, destination_is_queue=True, binding_key=key, arguments={})
    broker.engine.bind(binding, broker)


def to(address: str | None, **properties: object) -> bytes:
    """A message with this address in ``to``."""
    return encode_properties(Properties(to=address, **properties)) + data_message(b"x")  # type: ignore[arg-type]


def condition(disposition: Disposition) -> str:
    """The condition with which a message was rejected."""
    assert isinstance(disposition.state, Rejected)
    assert disposition.state.error is not None
    return disposition.state.error.condition


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("/exchanges/amq.direct/key", "key"),
        ("/exchanges/amq.direct/a%2Fb%20%C3%A4", "a/b ä"),
        ("/exchanges/amq.direct/", ""),
        ("/exchanges/amq.direct", ""),
    ],
)
@case("amqp_address_SUITE", "target_exchange_routing_key")
@case("amqp_address_SUITE", "target_exchange_routing_key_with_slash")
@case("amqp_address_SUITE", "target_exchange_routing_key_empty")
@case("amqp_address_SUITE", "target_exchange")
@case("amqp_dotnet_SUITE", "routing")
def test_an_exchange_as_the_target(address: str, key: str):
    """target_exchange_routing_key (amqp_address_SUITE)
    target_exchange_routing_key_with_slash (amqp_address_SUITE)
    target_exchange_routing_key_empty (amqp_address_SUITE)
    target_exchange (amqp_address_SUITE)
    routing (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    bound(broker, key)
    peer = session(broker)
    assert peer.attach_sender(address).target.address == address
    peer.transfer()
    assert peer.pick(Disposition).state == ACCEPTED
    assert broker.ready() == 1


@pytest.mark.parametrize(("address", "name"), [("/queues/plain", "plain"), ("/queues/a%2Fb%25%20%E2%82%AC", "a/b% €")])
@case("amqp_address_SUITE", "queue")
@case("amqp_address_SUITE", "queue_with_slash")
def test_a_queue_as_target_and_source(address: str, name: str):
    """queue (amqp_address_SUITE)
    queue_with_slash (amqp_address_SUITE)"""
    broker = InProcessBroker()
    broker.queue(name)
    peer = session(broker)
    peer.attach_sender(address)
    peer.attach_receiver(address)
    peer.grant(1)
    peer.transfer(b"there and back")
    assert peer.bodies() == [b"there and back"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/exchanges/missing", "amqp:not-found"),
        ("/queues/missing", "amqp:not-found"),
        ("/queues/", "amqp:invalid-field"),
        ("/queues", "amqp:invalid-field"),
        ("/queues/a/b", "amqp:invalid-field"),
        ("/queues/a b", "amqp:invalid-field"),
        ("/queues/%zz", "amqp:invalid-field"),
        ("/exchanges", "amqp:invalid-field"),
        ("/exchanges//key", "amqp:invalid-field"),
        ("/exchanges/amq.default/key", "amqp:invalid-field"),
        ("/exchange/amq.direct/key", "amqp:invalid-field"),
        ("/queue/q", "amqp:invalid-field"),
        ("/topic/x", "amqp:invalid-field"),
        ("q", "amqp:invalid-field"),
        ("", "amqp:invalid-field"),
    ],
)
@case("amqp_address_SUITE", "target_exchange_absent")
@case("amqp_address_SUITE", "target_queue_absent")
@case("amqp_address_SUITE", "target_bad_address")
@case("amqp_address_SUITE", "target_bad_v2_address")
def test_a_target_that_names_nothing(address: str, expected: str):
    """target_exchange_absent (amqp_address_SUITE)
    target_queue_absent (amqp_address_SUITE)
    target_bad_address (amqp_address_SUITE)
    target_bad_v2_address (amqp_address_SUITE)"""
    peer = session(InProcessBroker())
    assert peer.attach_sender(address).target is None
    assert peer.detached_with(expected)
    assert not peer.take(End)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/queues/missing", "amqp:not-found"),
        (None, "amqp:invalid-field"),
        ("/exchanges/amq.direct", "amqp:invalid-field"),
        ("/exchanges/amq.direct/key", "amqp:invalid-field"),
        ("/queues/", "amqp:invalid-field"),
        ("/queue/q", "amqp:invalid-field"),
        ("nonsense", "amqp:invalid-field"),
    ],
)
@case("amqp_address_SUITE", "source_queue_absent")
@case("amqp_address_SUITE", "source_undefined_address")
@case("amqp_address_SUITE", "source_bad_address")
@case("amqp_address_SUITE", "source_bad_v2_address")
def test_a_source_that_names_nothing(address: str | None, expected: str):
    """source_queue_absent (amqp_address_SUITE)
    source_undefined_address (amqp_address_SUITE)
    source_bad_address (amqp_address_SUITE)
    source_bad_v2_address (amqp_address_SUITE)"""
    peer = session(InProcessBroker())
    assert peer.attach_receiver(address).source is None
    assert peer.detached_with(expected)
    assert not peer.take(End)


@case("amqp_address_SUITE", "target_per_message_exchange_routing_key")
@case("amqp_address_SUITE", "target_per_message_exchange")
@case("amqp_address_SUITE", "target_per_message_queue")
@case("extensions.anonymousterminus.AnonymousTerminusTest", "transferPreSettledToKnownDestination")
def test_every_message_says_where_it_goes():
    """target_per_message_exchange_routing_key (amqp_address_SUITE)
    target_per_message_exchange (amqp_address_SUITE)
    target_per_message_queue (amqp_address_SUITE): the third message names a queue that does not exist.
    transferPreSettledToKnownDestination (extensions.anonymousterminus.AnonymousTerminusTest)"""
    broker = InProcessBroker()
    bound(broker, "key", queue="q1")
    bound(broker, "", queue="q2")
    peer = session(broker)
    assert peer.attach_sender(None).target.address is None
    for address in ("/exchanges/amq.direct/key", "/exchanges/amq.direct", "/queues/q1"):
        peer.transfer(payload=to(address))
        assert peer.pick(Disposition).state == ACCEPTED
    peer.transfer(payload=to("/exchanges/amq.direct/nobody"))
    assert peer.pick(Disposition).state == RELEASED
    peer.transfer(payload=to("/queues/q1"), settled=True)
    assert (broker.ready("q1"), broker.ready("q2")) == (3, 1)


@case("amqp_address_SUITE", "target_per_message_unset_to_address")
@case("amqp_address_SUITE", "target_per_message_bad_to_address")
@case(
    "extensions.anonymousterminus.AnonymousTerminusTest",
    "transferUnsettledToUnknownDestinationWhenRejectedOutcomeSupportedBySource",
)
def test_messages_that_do_not_say_where_they_go():
    """target_per_message_unset_to_address (amqp_address_SUITE)
    target_per_message_bad_to_address (amqp_address_SUITE)
    transferUnsettledToUnknownDestinationWhenRejectedOutcomeSupportedBySource
    (extensions.anonymousterminus.AnonymousTerminusTest)"""
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(None)
    bad = (None, "", "q", "/queues", "/queues/", "/exchanges/", "/exchanges/amq.default/q", "/queues/a b", "/queue/q")
    for address in bad:
        peer.transfer(payload=to(address))
        assert condition(peer.pick(Disposition)) == "amqp:precondition-failed"
    peer.transfer(b"no properties at all")
    assert condition(peer.pick(Disposition)) == "amqp:precondition-failed"
    for address in ("/queues/missing", "/exchanges/missing/key"):
        peer.transfer(payload=to(address))
        assert condition(peer.pick(Disposition)) == "amqp:not-found"
    assert not peer.take(Detach)


@case("amqp_address_SUITE", "target_per_message_exchange_absent_settled")
@case("extensions.anonymousterminus.AnonymousTerminusTest", "transferPreSettledToUnknownDestination")
def test_a_settled_message_that_goes_nowhere():
    """target_per_message_exchange_absent_settled (amqp_address_SUITE)
    transferPreSettledToUnknownDestination (extensions.anonymousterminus.AnonymousTerminusTest): it cannot be rejected,
    so the link is detached, and the error names the delivery."""
    peer = session(InProcessBroker())
    peer.attach_sender(None)
    peer.transfer(payload=to("/exchanges/missing"), settled=True, delivery_tag=b"my tag")
    (detach,) = peer.take(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-found"
    assert detach.error.info == {"delivery-tag": b"my tag"}


@case(
    "extensions.anonymousterminus.AnonymousTerminusTest",
    "transferUnsettledToUnknownDestinationWhenRejectedOutcomeNotSupportedBySource",
)
def test_a_sender_that_does_not_know_rejected():
    """transferUnsettledToUnknownDestinationWhenRejectedOutcomeNotSupportedBySource
    (extensions.anonymousterminus.AnonymousTerminusTest)"""
    peer = session(InProcessBroker())
    peer.attach_sender(None, source=Source(outcomes=("amqp:accepted:list",)))
    peer.transfer(payload=to("/queues/missing"))
    assert peer.detached_with("amqp:not-found")


def test_an_internal_exchange_takes_no_messages_of_publishers():
    """An exchange that is internal is refused at the attach."""
    broker = InProcessBroker()
    broker.engine.declare_exchange(ExchangeDeclaration(name="inside", internal=True, arguments={}))
    peer = session(broker)
    assert peer.attach_sender("/exchanges/inside").target is None
    assert peer.detached_with("amqp:unauthorized-access")
