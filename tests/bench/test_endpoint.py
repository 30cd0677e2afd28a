"""A whole session against a strict broker, without a socket: attach, publish, consume, settle, cut anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.load import wire
from amqp10.load.endpoint import BegunSession, SessionEndpoint
from amqp10.load.ledger import LedgerVerdict, judge
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.wire import WireError
from tests.kit.loopback_broker import (
    SESSION_WINDOW,
    LoopbackBroker,
    doubling,
    dropping,
    garbling,
    swapping,
)

BOTH = Application(publisher=1, publish_to="q", consume_from="q", link_credit=50)


def begun(connection):
    """The connection past its handshake, which is not part of the endpoint."""
    connection.receive(wire.SASL_HEADER + wire.AMQP_HEADER)
    connection.receive(wire.frame(wire.composite(wire.OPEN, wire.string("x"))))
    connection.receive(wire.frame(wire.composite(wire.BEGIN, wire.NULL, wire.uint(0), wire.uint(1), wire.uint(1))))
    connection.take()
    return connection


def converse(broker, application, traffic, *, cut=65536):
    """Run the endpoint until neither side has bytes to send."""
    connection = begun(broker.connection())
    endpoint = SessionEndpoint([application], traffic, BegunSession(broker.max_frame_size, 0, SESSION_WINDOW))
    for started in (False, True):
        if started:
            assert endpoint.attached
            endpoint.start(0)
        while True:
            written = [bytes(piece) for piece in endpoint.output(0)]
            for piece in written:
                connection.receive(piece)
            answer = connection.take()
            for at in range(0, len(answer), cut):
                endpoint.receive_data(answer[at : at + cut], 0)
            if not written and not answer:
                break
    assert broker.violations == []
    return endpoint


def verdict_of(endpoint):
    return judge({1: endpoint.publishers[0].sent}, [endpoint.consumers[0].ledger.ranges()])


@pytest.mark.parametrize("shape", ["bulk", "unbatched"])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("size", "max_frame_size"), [(12, 131072), (2000, 512)])
def test_everything_arrives_and_is_settled(shape, settled, size, max_frame_size):
    broker = LoopbackBroker(max_frame_size=max_frame_size)
    traffic = PlannedTraffic(shape=shape, settled=settled, size=size, messages=700)
    endpoint = converse(broker, BOTH, traffic)
    assert endpoint.publishers[0].sent == endpoint.consumers[0].ledger.total == 700
    assert endpoint.publishers[0].finished
    assert endpoint.publishers[0].unconfirmed == endpoint.consumers[0].corrupted == 0
    assert verdict_of(endpoint).clean


@settings(max_examples=20)
@given(cut=st.integers(1, 200))
def test_frames_may_be_cut_anywhere(cut):
    endpoint = converse(LoopbackBroker(), BOTH, PlannedTraffic(messages=300), cut=cut)
    assert endpoint.consumers[0].ledger.total == 300
    assert verdict_of(endpoint).clean


LARGE = [(50_000, 131_072), (100_000, 40_000), (100_000, 16_384)]


@pytest.mark.parametrize(("size", "max_frame_size"), LARGE)
@pytest.mark.parametrize("cut", [997, 33_000, 180_000])
def test_large_messages_may_be_cut_anywhere(size, max_frame_size, cut):
    broker = LoopbackBroker(max_frame_size=max_frame_size)
    endpoint = converse(broker, BOTH, PlannedTraffic(messages=300, size=size), cut=cut)
    assert endpoint.consumers[0].ledger.total == 300
    assert endpoint.consumers[0].corrupted == 0
    assert verdict_of(endpoint).clean


@pytest.mark.parametrize(("size", "max_frame_size"), LARGE)
@pytest.mark.parametrize("which", [0, 299])
def test_a_changed_byte_of_a_large_message_is_found(which, size, max_frame_size):
    broker = LoopbackBroker(max_frame_size=max_frame_size, fault=garbling(which))
    endpoint = converse(broker, BOTH, PlannedTraffic(messages=300, size=size))
    assert endpoint.consumers[0].corrupted == 1
    assert verdict_of(endpoint) == LedgerVerdict(lost=1)


@pytest.mark.parametrize("which", [0, 1, 299, 599])
@pytest.mark.parametrize(
    ("fault", "verdict"),
    [(dropping, LedgerVerdict(lost=1)), (doubling, LedgerVerdict(duplicated=1)), (garbling, LedgerVerdict(lost=1))],
)
def test_a_broker_that_drops_doubles_or_garbles_is_found_out(which, fault, verdict):
    traffic = PlannedTraffic(messages=600, size=20)
    endpoint = converse(LoopbackBroker(fault=fault(which)), BOTH, traffic)
    assert verdict_of(endpoint) == verdict
    assert endpoint.consumers[0].corrupted == (1 if fault is garbling else 0)


@pytest.mark.parametrize("which", [0, 299, 598])
def test_a_broker_that_swaps_is_found_out(which):
    endpoint = converse(LoopbackBroker(fault=swapping(which)), BOTH, PlannedTraffic(messages=600))
    assert verdict_of(endpoint) == LedgerVerdict(reordered=1)


def test_a_closed_window_stops_the_publisher_until_a_flow_opens_it():
    endpoint = SessionEndpoint([Application(publish_to="q")], PlannedTraffic(), BegunSession(131072, 0, 3))
    endpoint.output(0)
    endpoint.receive_data(
        wire.frame(wire.composite(wire.ATTACH, wire.string("0.0 to /queues/q"), wire.uint(5), wire.boolean(True))), 0
    )
    endpoint.receive_data(flow(0, 3, handle=5, delivery_count=0, link_credit=100), 0)
    endpoint.start(0)
    assert sum(len(piece) for piece in endpoint.output(0)) == 3 * 54
    assert not endpoint.ready_to_publish(0)
    endpoint.receive_data(flow(2, 3), 0)
    assert sum(len(piece) for piece in endpoint.output(0)) == 2 * 54


def test_a_flow_for_another_handle_grants_nothing():
    endpoint = SessionEndpoint([Application(publish_to="q")], PlannedTraffic(), BegunSession(131072, 0, 400))
    endpoint.receive_data(
        wire.frame(wire.composite(wire.ATTACH, wire.string("0.0 to /queues/q"), wire.uint(5), wire.boolean(True))), 0
    )
    endpoint.receive_data(flow(0, 400, handle=4, delivery_count=0, link_credit=100), 0)
    endpoint.start(0)
    assert not endpoint.ready_to_publish(0)


@pytest.mark.parametrize(("handle", "fields"), [(None, 4), (5, 7)])
def test_an_echo_is_answered(handle, fields):
    endpoint = SessionEndpoint([Application(publish_to="q")], PlannedTraffic(), BegunSession(131072, 0, 400))
    endpoint.output(0)
    endpoint.receive_data(
        wire.frame(wire.composite(wire.ATTACH, wire.string("0.0 to /queues/q"), wire.uint(5), wire.boolean(True))), 0
    )
    endpoint.receive_data(flow(0, 400, handle=handle, echo=True), 0)
    [answer] = endpoint.output(0)
    frame = wire.decode_frame(bytes(answer), 0, len(answer))
    assert frame is not None
    assert frame.code == wire.FLOW
    assert len(frame.fields) == fields
    assert frame.field(9) is None


@pytest.mark.parametrize(
    ("code", "error_at"), [(wire.DETACH, 2), (wire.END, 0), (wire.CLOSE, 0)], ids=["detach", "end", "close"]
)
def test_whatever_the_broker_ends_is_an_error_with_its_reason(code, error_at):
    endpoint = SessionEndpoint([Application(consume_from="q")], PlannedTraffic(), BegunSession(131072, 0, 400))
    error = wire.composite(0x1D, wire.symbol("amqp:not-found"), wire.string("no queue"))
    with pytest.raises(WireError, match="amqp:not-found: no queue"):
        endpoint.receive_data(wire.frame(wire.composite(code, *[wire.uint(0)] * error_at, error)), 0)


def flow(next_incoming_id, incoming_window, *, handle=None, delivery_count=None, link_credit=None, echo=False):
    def number(value):
        return wire.NULL if value is None else wire.uint(value)

    return wire.frame(
        wire.composite(
            wire.FLOW, wire.uint(next_incoming_id), wire.uint(incoming_window), wire.uint(0), wire.uint(1),
            number(handle), number(delivery_count), number(link_credit), wire.NULL, wire.NULL,
            wire.boolean(True) if echo else wire.NULL,
        )
    )  # fmt: skip
