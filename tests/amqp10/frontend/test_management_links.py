"""The link pair of the management node: its two links, requests that cannot be answered, and what is kept for a
client."""

import pytest

from amqp10.errors import LinkFault
from amqp10.frontend.management_links import LINK_CREDIT_WHILE_RECORDED
from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Detach, Disposition, Flow
from amqp10.wire.types import ULong
from core.config.settings import Settings
from core.engine.routing.staged import RECORDED_AT_ONCE
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.link_pair import NODE, PAIRED, LinkPair
from tests.kit.management import encode_request
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage
from tests.kit.wire import InProcessBroker, WirePeer


def session(settings: Settings | None = None) -> WirePeer:
    """A client with a session."""
    peer = InProcessBroker(settings).connect()
    peer.begin()
    return peer


def detached(peer: WirePeer, condition: str, text: str) -> bool:
    """Check that the broker detached one link with this condition."""
    (detach,) = peer.take(Detach)
    assert detach.error is not None
    return detach.error.condition == condition and text in (detach.error.description or "")


def link_credit_for_requests(pair: LinkPair) -> int:
    return pair.peer.link(pair.requests).credit.link_credit


@pytest.mark.parametrize("properties", [None, {}, {"paired": False}, {"pair": True}])
def test_a_link_that_is_no_half_of_a_pair_is_refused(properties):
    peer = session()
    assert peer.attach_sender(NODE, properties=properties).target is None
    assert detached(peer, "amqp:invalid-field", "paired")
    assert peer.attach_receiver(NODE, properties=properties).source is None
    assert detached(peer, "amqp:invalid-field", "paired")


def test_a_pair_moves_to_another_session():
    """The names are stolen one link at a time. Then the whole pair is on the new session."""
    peer = session()
    LinkPair(peer).attach()
    peer.begin(channel=1)
    peer.frames.clear()
    pair = LinkPair(peer, channel=1).attach()
    assert [detach.error.condition for detach in peer.take(Detach) if detach.error] == ["amqp:link:stolen"] * 2
    assert pair.ask("GET", "/queues/none").status == 404


def test_the_same_link_of_a_pair_twice_on_one_session():
    """The name is stolen first, so the pair never has two links of one direction. Asked directly, it refuses."""
    peer = session()
    pair = LinkPair(peer).attach()
    links = peer.session().reference
    for handle, take in ((pair.requests, links.receiver_attached), (pair.answers, links.sender_attached)):
        link = peer.link(handle)
        with pytest.raises(LinkFault, match="attached already"):
            take(link, link.end.remote)


def test_a_request_without_a_half_for_the_answer():
    peer = session()
    pair = LinkPair(peer)
    pair.attach_requests()
    pair.send("GET", "/queues/none")
    assert detached(peer, "amqp:precondition-failed", "half of the pair for answers")


def test_a_request_without_link_credit_for_the_answer():
    peer = session()
    pair = LinkPair(peer).attach()
    pair.grant(1)
    pair.send("GET", "/queues/none")
    pair.send("GET", "/queues/none")
    assert detached(peer, "amqp:precondition-failed", "insufficient credit (0)")
    assert len(pair.take_answers()) == 1


def test_a_request_that_cannot_be_answered_costs_the_half_for_requests():
    peer = session()
    pair = LinkPair(peer).attach()
    pair.grant(10)
    peer.transfer(handle=pair.requests, settled=True, payload=b"\x00\x53\x77\xa1\x01x")
    (detach,) = peer.take(Detach)
    assert detach.handle == 10
    assert detach.error is not None
    peer.detach(pair.requests)
    pair.attach_requests()
    assert pair.ask("GET", "/queues/none").status == 404


def test_unsettled_requests_are_accepted():
    peer = session()
    pair = LinkPair(peer)
    peer.attach_sender(NODE, handle=pair.requests, name=pair.name, properties=PAIRED)
    pair.attach_answers()
    pair.grant(10)
    request = encode_request("GET", "/queues/none", message_id=ULong(1))
    number = peer.transfer(handle=pair.requests, payload=request)
    assert [answer.status for answer in pair.take_answers()] == [404]
    assert peer.take(Disposition) == [Disposition(role=True, first=number, settled=True, state=ACCEPTED)]


def test_answers_that_wait_hold_back_link_credit_for_requests():
    """A client that sends requests and does not read soon gets no link credit for more."""
    settings = make_settings(amqp10={"management_link_credit": 4})
    peer = session(settings)
    pair = LinkPair(peer).attach()
    pair.grant(100, incoming_window=0)
    for _ in range(6):
        pair.send("GET", "/queues/none")
    assert link_credit_for_requests(pair) == 0
    assert pair.take_answers() == []
    peer.flow(incoming_window=6)
    assert len(pair.take_answers()) == 6
    assert link_credit_for_requests(pair) == 4


def test_answers_that_are_taken_back_free_their_requests():
    """The client lowers the link credit while answers wait for its window. These answers are dropped."""
    peer = session()
    pair = LinkPair(peer).attach()
    pair.grant(5, incoming_window=0)
    for _ in range(5):
        pair.send("GET", "/queues/none")
    assert peer.link(pair.requests).credit.unconfirmed == 5
    pair.grant(2, incoming_window=0)
    assert peer.link(pair.requests).credit.unconfirmed == 2
    peer.flow(incoming_window=100)
    assert len(pair.take_answers()) == 2
    assert peer.link(pair.requests).credit.unconfirmed == 0


@pytest.mark.parametrize(("drain", "echo", "flows"), [(True, False, 1), (False, True, 1), (False, False, 0)])
def test_drain_and_echo_on_the_half_for_answers(drain, echo, flows):
    peer = session()
    pair = LinkPair(peer).attach()
    peer.frames.clear()
    pair.grant(5, drain=drain, echo=echo)
    answered = peer.take(Flow, lambda flow: flow.handle == pair.answers)
    assert len(answered) == flows
    assert all(flow.link_credit == (0 if drain else 5) for flow in answered)


def test_without_the_half_for_answers_what_waited_is_free():
    peer = session()
    pair = LinkPair(peer).attach()
    pair.grant(5, incoming_window=0)
    for _ in range(3):
        pair.send("GET", "/queues/none")
    peer.detach(pair.answers)
    assert peer.link(pair.requests).credit.unconfirmed == 0
    peer.flow(incoming_window=100)
    pair.attach_answers()
    assert pair.ask("GET", "/queues/none").status == 404


def test_outcomes_of_answers_mean_nothing():
    """Answers are sent settled. A client may settle them all the same."""
    peer = session()
    pair = LinkPair(peer).attach()
    pair.ask("GET", "/queues/none")
    peer.dispose(0, 10)
    assert pair.ask("GET", "/queues/none").status == 404


def test_queues_of_a_connection_are_its_own():
    broker = InProcessBroker()
    pairs = []
    for _ in range(2):
        peer = broker.connect()
        peer.begin()
        pairs.append(LinkPair(peer).attach())
    first, second = pairs
    assert first.ask("PUT", "/queues/mine", {"exclusive": True}).status == 201
    assert first.ask("GET", "/queues/mine").status == 200
    assert second.ask("GET", "/queues/mine").status == 400
    first.peer.disconnect()
    assert second.ask("GET", "/queues/mine").status == 404


def test_queues_that_are_declared_in_a_row_are_recorded_together_and_answered_in_order():
    broker = InProcessBroker(durable=True)
    peer = broker.connect()
    peer.begin()
    pair = LinkPair(peer).attach()
    pair.grant(10)
    broker.rounds_max = 0  # all requests come before the first is served
    asked = [
        pair.send("PUT", "/queues/a", {}),
        pair.send("PUT", "/queues/b", {}),
        pair.send("GET", "/queues/b"),
        pair.send("PUT", "/queues/a", {}),
        pair.send("DELETE", "/queues/a"),
        pair.send("PUT", "/queues/a", {"durable": False}),
        pair.send("PUT", "/queues/a", {"durable": True}),
    ]
    assert pair.take_answers() == []
    broker.rounds_max = None
    broker.run()
    answers = pair.take_answers()
    assert [answer.correlation_id for answer in answers] == [ULong(one) for one in asked]
    assert [answer.status for answer in answers] == [201, 201, 200, 200, 200, 201, 409]


# --- requests that wait for the disk


def slow_pair(settings: Settings | None = None) -> tuple[LinkPair, KeptDefinitions]:
    """A pair of links at a broker whose definitions are recorded when the test says so."""
    definitions = KeptDefinitions()
    definitions.slow = True
    peer = InProcessBroker(settings, storage=open_storage(MemoryDisk(), definitions)).connect()
    peer.begin()
    pair = LinkPair(peer).attach()
    pair.grant(200)
    return pair, definitions


def recorded(pair: LinkPair, definitions: KeptDefinitions) -> list[str]:
    """Let what is under way be recorded. Returns the statuses of the answers."""
    definitions.under_way.pop().finish()
    pair.peer.broker.run()
    return [str(answer.status) for answer in pair.take_answers()]


def test_the_broker_rests_while_requests_are_recorded_and_wakes_for_the_first():
    """:meth:`tests.kit.wire.InProcessBroker.run` fails if the broker does not come to rest."""
    pair, definitions = slow_pair()
    for name in "abc":
        pair.send("PUT", f"/queues/{name}", {})
    pair.send("GET", "/queues/c")
    assert pair.take_answers() == []
    assert recorded(pair, definitions) == ["201"]
    assert recorded(pair, definitions) == ["201", "201", "200"]
    pair.send("DELETE", "/queues/a")
    assert pair.take_answers() == []
    assert recorded(pair, definitions) == ["200"]


def test_a_client_whose_requests_all_wait_for_the_disk_may_send_as_many_as_two_records_have():
    assert LINK_CREDIT_WHILE_RECORDED == 2 * RECORDED_AT_ONCE
    pair, definitions = slow_pair()
    assert link_credit_for_requests(pair) == 8
    pair.send("GET", "/queues/none")
    assert link_credit_for_requests(pair) == 7
    for number in range(2 * RECORDED_AT_ONCE):
        pair.send("PUT", f"/queues/q{number}", {})
    assert recorded(pair, definitions) == ["404", "201"]
    assert len(recorded(pair, definitions)) == RECORDED_AT_ONCE
    assert len(recorded(pair, definitions)) == RECORDED_AT_ONCE - 1
    assert link_credit_for_requests(pair) >= RECORDED_AT_ONCE


def test_large_requests_get_no_more_link_credit_than_their_bytes_allow():
    pair, definitions = slow_pair(make_settings(amqp10={"max_frame_size": 512}))
    for number in range(8):
        assert pair.peer.link(pair.requests).credit.maximum == 8
        pair.send("PUT", f"/queues/q{number}", {"arguments": {"x-dead-letter-exchange": "e" * 200}})
    assert 8 < pair.peer.link(pair.requests).credit.maximum < 20
    assert recorded(pair, definitions) == ["201"]


def test_link_credit_comes_with_the_answer_and_is_not_kept_back_when_requests_are_dropped():
    pair, definitions = slow_pair()
    for number in range(5):
        pair.send("PUT", f"/queues/q{number}", {})
    assert link_credit_for_requests(pair) == 3
    assert recorded(pair, definitions) == ["201"]
    recorded(pair, definitions)
    assert link_credit_for_requests(pair) == 8
    for number in range(5, 9):
        pair.send("PUT", f"/queues/q{number}", {})
    pair.peer.detach(pair.answers)
    pair.peer.broker.run()
    assert link_credit_for_requests(pair) == 8
