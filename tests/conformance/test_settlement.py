"""Settling and outcomes, in both directions, as RabbitMQ's client suite shows them [2.6.12, 3.4]."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED, Accepted, Modified, Rejected
from amqp10.wire.performatives import Attach, Detach, Disposition
from amqp10.wire.sections import Header, decode_header, decode_map_section, encode_header, scan
from amqp10.wire.types import Described, Symbol, UInt, ULong
from core.interface import Binding
from core.store.definitions import PolicyDeclaration
from tests.kit.cases import case
from tests.kit.queue_types import for_each_queue_type, for_each_type, from_first
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered


def both_ways(broker: InProcessBroker, kind: str = "classic", **attach_fields: object) -> WirePeer:
    """A client with a sender at handle 0 and a receiver at handle 1 on the queue q."""
    address = broker.queue(x_queue_type=kind)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver(address, source=from_first(address), **attach_fields)
    peer.frames.clear()
    return peer


def delivered(peer: WirePeer) -> list[tuple[Header, bytes]]:
    """The header and body of each message that came."""
    found = []
    for _, payload in peer.deliveries():
        bounds = scan(payload)
        assert bounds.header is not None
        found.append((decode_header(payload, *bounds.header), body_of(payload)))
    return found


def settled_ids(dispositions: list[Disposition]) -> list[int]:
    """The delivery-ids that the dispositions cover."""
    return [
        number for each in dispositions for number in range(each.first, (each.last or each.first) + 1) if each.settled
    ]


@pytest.mark.parametrize(
    ("outcome", "returns", "failures"),
    [
        (ACCEPTED, False, 0),
        (Modified(), True, 0),
        (Modified(delivery_failed=True), True, 1),
        (Modified(delivery_failed=True, undeliverable_here=False), True, 1),
        (Rejected(), False, 0),
        (RELEASED, True, 0),
    ],
)
@for_each_queue_type
@case("amqp_client_SUITE", "reliable_send_receive_with_outcomes_classic")
@case("amqp_client_SUITE", "reliable_send_receive_with_outcomes_quorum")
@case("amqp_client_SUITE", "delivery_count_classic")
@case("amqp_client_SUITE", "delivery_count_quorum")
@case("amqp_dotnet_SUITE", "outcomes")
@case("amqp_dotnet_SUITE", "reject")
@case("amqp_dotnet_SUITE", "released")
@case("amqp_client_SUITE", "modified_classic_queue")
@case("amqp_client_SUITE", "modified_quorum_queue")
def test_every_outcome(outcome: object, returns: bool, failures: int, kind: str):
    """reliable_send_receive_with_outcomes_classic (amqp_client_SUITE)
    reliable_send_receive_with_outcomes_quorum (amqp_client_SUITE)
    delivery_count_classic (amqp_client_SUITE)
    delivery_count_quorum (amqp_client_SUITE)
    outcomes (amqp_dotnet_SUITE)
    reject (amqp_dotnet_SUITE)
    released (amqp_dotnet_SUITE)
    modified_classic_queue (amqp_client_SUITE): undeliverable-here is in test_deviations, annotations are merged.
    modified_quorum_queue (amqp_client_SUITE): the same."""
    broker = InProcessBroker(durable=True)
    peer = both_ways(broker, kind)
    message = encode_header(Header(durable=True)) + data_message(b"m")
    peer.transfer(payload=message)
    assert peer.expect(Disposition) == Disposition(role=True, first=0, settled=True, state=ACCEPTED)
    peer.grant(1)
    ((header, body),) = delivered(peer)
    assert (header.durable, header.first_acquirer, header.delivery_count, body) == (True, True, 0, b"m")
    peer.dispose(0, state=outcome)
    assert broker.unacknowledged() == 0
    assert broker.ready() == int(returns)
    peer.grant(1)
    again = [(header.first_acquirer, header.delivery_count) for header, _ in delivered(peer)]
    assert again == ([(False, failures)] if returns else [])


@for_each_queue_type
@case("amqp_client_SUITE", "modified_classic_queue")
@case("amqp_client_SUITE", "modified_quorum_queue")
def test_annotations_of_a_modified_outcome_are_merged(kind: str):
    """modified_classic_queue (amqp_client_SUITE): message-annotations, which RabbitMQ's classic queues ignore.
    modified_quorum_queue (amqp_client_SUITE): annotations stay across requeues, and the newer value of a key replaces
    the older one."""
    broker = InProcessBroker(durable=True)
    peer = both_ways(broker, kind)
    peer.transfer(b"m")
    for key, value in (("x-one", "older"), ("x-two", "value"), ("x-one", "value")):
        peer.grant(1)
        delivery_id = peer.deliveries()[-1][0].delivery_id
        peer.dispose(delivery_id, state=Modified(message_annotations={key: value}))
    peer.grant(1)
    payload = peer.deliveries()[-1][1]
    bounds = scan(payload)
    assert bounds.message_annotations is not None
    assert decode_map_section(payload, *bounds.message_annotations) == {
        Symbol("x-one"): "value",
        Symbol("x-two"): "value",
    }
    assert body_of(payload) == b"m"


@case("amqp_client_SUITE", "sender_settle_mode_unsettled")
def test_pipelined_unsettled_messages_are_all_accepted():
    """sender_settle_mode_unsettled (amqp_client_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker)
    peer.publish(numbered(30))
    dispositions = peer.take(Disposition)
    assert settled_ids(dispositions) == list(range(30))
    assert {type(each.state) for each in dispositions} == {Accepted}


@case("amqp_client_SUITE", "sender_settle_mode_unsettled_fanout")
def test_one_answer_for_a_message_that_goes_to_three_queues():
    """sender_settle_mode_unsettled_fanout (amqp_client_SUITE)"""
    broker = InProcessBroker()
    for name in ("a", "b", "c"):
        broker.queue(name)
        binding = Binding(
            source="amq.fanout", destination=name, destination_is_queue=True, binding_key="", arguments={}
        )
        broker.engine.bind(binding, broker)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/exchanges/amq.fanout")
    peer.publish(numbered(20))
    assert settled_ids(peer.take(Disposition)) == list(range(20))
    assert [broker.ready(name) for name in ("a", "b", "c")] == [20, 20, 20]


@case("amqp_client_SUITE", "sender_settle_mode_mixed")
def test_mixed_settlement():
    """sender_settle_mode_mixed (amqp_client_SUITE): of 31 messages every third is settled; 20 wait for an answer."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    for number in range(31):
        peer.transfer(settled=number % 3 == 0)
    unsettled = [number for number in range(31) if number % 3]
    assert settled_ids(peer.take(Disposition)) == unsettled
    assert broker.ready() == 31


@for_each_type
@case("amqp_client_SUITE", "durable_field_classic")
@case("amqp_client_SUITE", "durable_field_quorum")
@case("amqp_client_SUITE", "durable_field_stream")
def test_durable_is_false_unless_it_is_said(kind: str):
    """durable_field_classic (amqp_client_SUITE)
    durable_field_quorum (amqp_client_SUITE)
    durable_field_stream (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    peer = both_ways(broker, kind)
    for header in (
        encode_header(Header(durable=True)),
        encode_header(Header(durable=False)),
        encode_header(Header()),
        b"",
    ):
        peer.transfer(payload=header + data_message(b"m"))
    peer.grant(4)
    assert [bool(header.durable) for header, _ in delivered(peer)] == [True, False, False, False]


@pytest.mark.parametrize(("mode", "settled"), [(0, True), (1, False)])
@case("amqp_client_SUITE", "invalid_transfer_settled_flag")
def test_a_settled_flag_against_the_mode_of_the_link(mode: int, settled: bool):
    """invalid_transfer_settled_flag (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address, snd_settle_mode=mode)
    peer.transfer(settled=settled)
    assert peer.detached_with("amqp:invalid-field")
    assert broker.ready() == 0


@case("amqp_client_SUITE", "receiver_settle_mode_first")
@case("engine", "3.11")
def test_ranges_of_dispositions_and_settling_moves_no_message():
    """receiver_settle_mode_first (amqp_client_SUITE): six ranges, over gaps and edges, and beyond the unsettled
    deliveries.
    row 3.11: a disposition gives no link credit, so none of them causes a delivery."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.fill(numbered(20))
    peer.grant(10)
    peer.deliveries()
    left = []
    for first, last in ((4, 5), (3, 5), (6, 6), (2, 8), (0, 2**31 - 2), (0, 9)):
        peer.dispose(first, last, state=ACCEPTED)
        left.append((broker.ready(), broker.unacknowledged()))
        assert not peer.deliveries()
    assert left == [(10, 8), (10, 7), (10, 6), (10, 3), (10, 0), (10, 0)]


@pytest.mark.parametrize("asked_by", ["policy", "consumer"])
@case("amqp_client_SUITE", "consumer_timeout_quorum_queue_policy")
@case("amqp_client_SUITE", "consumer_timeout_quorum_queue_consumer_arg")
def test_deliveries_that_are_held_too_long_are_released(asked_by: str):
    """consumer_timeout_quorum_queue_policy (amqp_client_SUITE)
    consumer_timeout_quorum_queue_consumer_arg (amqp_client_SUITE): the broker releases both deliveries, and they come
    again when the client gives link credit. Later dispositions for them only settle them."""
    broker = InProcessBroker(durable=True)
    if asked_by == "policy":
        policy = PolicyDeclaration(name="impatient", pattern=".*", definition={"consumer-timeout": 1000})
        broker.engine.policies.set(policy)
        peer = both_ways(broker, "quorum")
    else:
        peer = both_ways(broker, "quorum", properties={"rabbitmq:consumer-timeout": UInt(1000)})
    broker.fill(numbered(2))
    peer.grant(2)
    assert peer.bodies() == numbered(2)
    broker.advance(0.9)
    assert peer.nothing_came()
    broker.advance(0.2)
    assert peer.expect(Disposition) == Disposition(role=False, first=0, last=1, settled=False, state=RELEASED)
    assert peer.nothing_came()
    peer.dispose(0, 1, state=ACCEPTED)
    assert (broker.ready(), broker.unacknowledged()) == (2, 0)
    peer.grant(2)
    assert [(header.delivery_count, body) for header, body in delivered(peer)] == [(0, b"0"), (0, b"1")]
    peer.dispose(2, 3, state=ACCEPTED)
    assert (broker.ready(), broker.unacknowledged()) == (0, 0)


def test_an_invalid_time_out_for_deliveries():
    """The link property for how long deliveries may be held must be a number of milliseconds."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    for handle, wrong in enumerate((UInt(0), True, "1 s")):
        attached = peer.attach_receiver(address, handle=handle, properties={"rabbitmq:consumer-timeout": wrong})
        assert attached.source is None
        assert peer.detached_with("amqp:invalid-field")


@case("amqp_client_SUITE", "attach_link_to_non_existing_destination")
def test_attaching_to_what_does_not_exist():
    """attach_link_to_non_existing_destination (amqp_client_SUITE)"""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    for handle, address in enumerate(("/exchanges/missing", "/exchanges/missing/key", "/queues/missing")):
        attach = peer.attach_sender(address, handle=handle)
        assert isinstance(attach, Attach)
        assert attach.target is None
        assert peer.detached_with("amqp:not-found")
    assert peer.attach_receiver("/queues/missing", handle=9).source is None
    assert peer.detached_with("amqp:not-found")
    assert not peer.take(Detach)


def test_a_state_of_an_unknown_kind_ends_the_session():
    """An outcome other than those that the source named is refused [3.4]."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.fill([b"m"])
    peer.grant(1)
    peer.dispose(0, state=Described(ULong(0x99), []))
    assert peer.ended_with("amqp:not-implemented")
    assert broker.ready() == 1
