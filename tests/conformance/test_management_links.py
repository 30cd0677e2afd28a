"""The link pair of the management node under flow control, as RabbitMQ's management suite shows it.

The effect of requests is tested in tests/amqp10/management/test_node.py; these tests are about how requests travel.
"""

from amqp10.wire.performatives import Begin, Detach, End, Flow
from amqp10.wire.types import ULong
from tests.kit.cases import case
from tests.kit.link_pair import LinkPair
from tests.kit.wire import InProcessBroker, WirePeer


def session(broker: InProcessBroker, **begin_fields: int) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin(**begin_fields)
    return peer


@case("management_SUITE", "pipeline")
def test_eight_requests_at_once():
    """[FC] pipeline (management_SUITE)"""
    peer = session(InProcessBroker())
    pair = LinkPair(peer).attach()
    (flow,) = peer.take(Flow, lambda flow: flow.handle is not None)
    assert flow.link_credit == 8
    pair.grant(8)
    asked = [ULong(pair.send("PUT", f"/queues/q{number}", {})) for number in range(8)]
    answers = pair.take_answers()
    assert [answer.correlation_id for answer in answers] == asked
    assert {answer.status for answer in answers} == {201}


@case("management_SUITE", "multiple_link_pairs")
def test_several_pairs_on_one_session():
    """multiple_link_pairs (management_SUITE)"""
    peer = session(InProcessBroker())
    first = LinkPair(peer, handle=10, name="first").attach()
    second = LinkPair(peer, handle=20, name="second").attach()
    assert first.ask("PUT", "/queues/q", {}).status == 201
    assert second.ask("PUT", "/queues/q", {}).status == 200
    peer.detach(first.requests)
    peer.detach(first.answers)
    assert second.ask("GET", "/queues/q").status == 200


@case("management_SUITE", "link_attach_order")
def test_either_half_may_attach_first():
    """link_attach_order (management_SUITE)"""
    peer = session(InProcessBroker())
    pair = LinkPair(peer)
    for attach in (pair.attach_answers, pair.attach_requests):
        assert attach().properties == {"paired": True}
    assert pair.ask("GET", "/queues/none").status == 404
    for handle in (pair.requests, pair.answers):
        peer.detach(handle)
    assert LinkPair(peer, handle=30).attach().ask("GET", "/queues/none").status == 404


@case("management_SUITE", "drain")
def test_a_request_after_the_link_for_answers_was_drained():
    """[FC] drain (management_SUITE): the client drains the link credit for answers and sends a request all the same.
    The link is detached with the reason; RabbitMQ ends the session for it."""
    peer = session(InProcessBroker())
    pair = LinkPair(peer).attach()
    peer.frames.clear()
    pair.grant(5, drain=True)
    flow = peer.expect(Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count, flow.drain) == (pair.answers, 0, 5, True)
    pair.send("GET", "/queues/none")
    (detach,) = peer.take(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:precondition-failed"
    assert "insufficient credit (0)" in (detach.error.description or "")
    assert not peer.take(End)


@case("management_SUITE", "session_flow_control")
def test_an_answer_waits_for_the_clients_window():
    """[FC] session_flow_control (management_SUITE)"""
    peer = session(InProcessBroker())
    pair = LinkPair(peer).attach()
    pair.grant(1, incoming_window=0)
    pair.send("GET", "/queues/none")
    assert pair.take_answers() == []
    peer.flow(incoming_window=1)
    (answer,) = pair.take_answers()
    assert answer.status == 404


def test_link_credit_for_requests_is_topped_up_at_four():
    """The management link has 8 link credits and gets them again when 4 are left."""
    peer = session(InProcessBroker())
    pair = LinkPair(peer).attach()
    peer.frames.clear()
    granted = []
    for number in range(1, 13):
        pair.ask("GET", "/queues/none")
        granted += [(number, flow.link_credit) for flow in peer.take(Flow, lambda flow: flow.handle == pair.requests)]
    assert granted == [(4, 8), (8, 8), (12, 8)]


def test_requests_beyond_the_link_credit_cost_the_link():
    """The ninth request without link credit is one too many [2.6.7]."""
    peer = session(InProcessBroker())
    pair = LinkPair(peer).attach()
    pair.grant(100)
    frames = [peer.transfer_frame(handle=pair.requests, settled=True) for _ in range(9)]
    peer.send_all(frames)
    assert any(each.error for each in peer.take(Detach))
    assert not peer.take(End)
    assert isinstance(peer.begin(channel=1), Begin)


@case("management_SUITE", "purge_stream")
def test_a_stream_cannot_be_purged():
    """purge_stream (management_SUITE)"""
    broker = InProcessBroker(durable=True)
    broker.queue("s", x_queue_type="stream")
    broker.fill([b"m"], "s")
    pair = LinkPair(session(broker)).attach()
    answer = pair.ask("DELETE", "/queues/s/messages")
    assert answer.status == 400
    assert "'s' is a stream" in str(answer.body)
    assert broker.ready("s") == 1
