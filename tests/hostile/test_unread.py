"""Peers that send requests and do not read: the output that waits for them is bounded, and then the broker does not
read from them either. A peer that reads again gets everything that is due.

Deliveries stop at ``unsent_bytes_max``, reading at twice that. So a consumer that does not read can still settle.
"""

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Attach, Begin, Detach, Disposition, End, Flow, Performative
from tests.hostile.test_links_and_sessions import attach, send_each, session_flow
from tests.kit.hostile import VICTIMS, Arena, frame, held
from tests.kit.link_pair import LinkPair
from tests.kit.settings import make_settings
from tests.kit.wire import WirePeer, body_of, numbered

UNSENT_MAX = 50_000
REQUESTS_MAX = 15
"""The eighth unanswered request comes while up to eight link credits are left."""


@pytest.fixture
def arena():
    """A broker that keeps little output for peers that do not read."""
    arena = Arena(make_settings(amqp10={"unsent_bytes_max": UNSENT_MAX}))
    yield arena
    arena.finish()


def kept(peer: WirePeer) -> int:
    """How many bytes of output wait in the front end."""
    return held(peer)["output"]


BEGIN = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
STORMS: dict[str, list[Performative]] = {
    "attaches": [attach(9, "/queues/q", role=True), Detach(handle=9, closed=True)],
    "refused attaches": [attach(9, "/queues/missing", role=True, name="n" * 200), Detach(handle=9, closed=True)],
    "publishers": [attach(9, "/queues/q", role=False), Detach(handle=9, closed=True)],
    "echoes and attaches": [session_flow(echo=True), attach(9, None, role=False), Detach(handle=9, closed=True)],
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
@pytest.mark.parametrize("writes", [0, 1])
def test_a_storm_whose_answers_are_not_read_is_not_read_either(arena: Arena, storm: list[Performative], writes: int):
    peer = arena.attacker()
    peer.frames.clear()
    peer.stop_reading(writes=writes)
    sent = 0
    while peer.front_end.reading:
        send_each(peer, storm * 10)
        sent += 10
        assert kept(peer) < 2 * UNSENT_MAX + 10_000
        arena.bystander.round()
    peer.go_on_reading()
    assert peer.front_end.reading
    assert kept(peer) == 0
    assert len(peer.take(Attach)) == len(peer.take(Detach)) == sent


def test_a_storm_of_sessions_whose_answers_are_not_read(arena: Arena):
    peer = arena.broker.connect()
    peer.stop_reading()
    sent = 0
    while peer.front_end.reading:
        send_each(peer, [BEGIN, End()] * 50)
        sent += 50
    assert kept(peer) < 2 * UNSENT_MAX + 10_000
    arena.bystander.round()
    peer.go_on_reading()
    assert len(peer.take(Begin)) == len(peer.take(End)) == sent


def test_echoes_and_drains_that_are_not_read_are_answered_once(arena: Arena):
    peer = arena.attacker()
    peer.attach_sender(arena.address)
    peer.attach_receiver("/queues/bystander")
    peer.frames.clear()
    peer.stop_reading()
    for _ in range(20):
        send_each(peer, [session_flow(echo=True), session_flow(handle=0, echo=True)] * 100)
        send_each(peer, [session_flow(handle=1, delivery_count=0, link_credit=7, drain=True, echo=True)] * 100)
    assert peer.front_end.reading
    assert kept(peer) == 0
    peer.go_on_reading()
    assert 3 <= len(peer.take(Flow)) <= 5
    assert peer.nothing_came()


def test_a_consumer_that_does_not_read_can_settle(arena: Arena):
    """Otherwise a client that must settle before it reads on would wait for the broker, and the broker for the
    client."""
    arena.broker.fill([bytes(1000)] * 500)
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    peer.grant(10)
    ids = [transfer.delivery_id for transfer, _ in peer.deliveries()]
    peer.stop_reading(writes=1)
    peer.grant(10_000)
    assert peer.front_end.connection.backlog_bytes >= UNSENT_MAX
    assert peer.front_end.reading
    assert len(peer.deliveries()) < 100, "the others wait in their queue"
    peer.dispose(ids[0], ids[-1], state=ACCEPTED)
    arena.expected = arena.expected[10:] + [bytes(1000)] * 500
    arena.bystander.round()
    assert arena.broker.ready() > 100


def test_a_client_that_reads_again_gets_everything_in_order(arena: Arena):
    arena.broker.fill(numbered(5000, VICTIMS))
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    for _ in range(3):
        peer.stop_reading(writes=1)
        peer.grant(1000)
        arena.bystander.round()
        peer.go_on_reading()
    peer.grant(10_000)
    bodies = [body_of(payload) for _, payload in peer.deliveries()]
    assert bodies == numbered(5000 + VICTIMS)
    arena.expected = bodies


def test_a_publisher_that_does_not_read_its_confirms_runs_out_of_link_credit(arena: Arena):
    peer = arena.attacker()
    peer.attach_sender(arena.address)
    peer.frames.clear()
    peer.stop_reading()
    peer.publish(numbered(170))
    arena.expected += numbered(170)
    assert peer.front_end.reading
    assert kept(peer) == 0
    peer.publish([b"one too many"])
    assert peer.link(0).end.attached is False
    peer.go_on_reading()
    assert peer.detached_with("amqp:link:transfer-limit-exceeded")
    assert {(each.first, each.last) for each in peer.take(Disposition)} == {(0, 169)}


@pytest.mark.parametrize("closed", ["window", "socket"])
def test_a_flood_of_requests_whose_answers_are_not_read(arena: Arena, closed: str):
    """Link credit for requests does not come back until answers have gone. The window holds them back, or the socket
    does."""
    peer = arena.attacker()
    pair = LinkPair(peer).attach()
    pair.grant(2**31)
    peer.frames.clear()
    if closed == "window":
        peer.flow(incoming_window=0)
    else:
        peer.stop_reading()
    for _ in range(REQUESTS_MAX + 5):
        if peer.link(pair.requests).credit.link_credit:
            pair.send("GET", "/queues/q")
    assert peer.link(pair.requests).credit.link_credit == 0
    assert peer.link(pair.answers).waiting <= REQUESTS_MAX
    waiting = peer.link(pair.answers).waiting
    assert waiting >= 8
    arena.bystander.round()
    if closed == "window":
        peer.flow()
    else:
        peer.go_on_reading()
    assert [answer.status for answer in pair.take_answers()] == [200] * waiting
    assert pair.ask("GET", "/queues/q").status == 200


def test_answers_that_are_taken_back_or_lost_give_their_link_credit_back(arena: Arena):
    peer = arena.attacker()
    pair = LinkPair(peer).attach()
    for _ in range(5):
        pair.grant(100, incoming_window=0)
        for _ in range(4):
            pair.send("GET", "/queues/q")
        pair.grant(0, incoming_window=0)
        pair.grant(100, incoming_window=0)
        for _ in range(4):
            pair.send("GET", "/queues/q")
        peer.detach(pair.answers)
        peer.flow()
        pair.attach_answers()
    assert pair.ask("GET", "/queues/q").status == 200
    assert not [each for each in peer.take(Detach) if each.error is not None]


def test_time_passes_for_a_peer_that_does_not_read(arena: Arena):
    """Neither heartbeats nor reasons pile up. No deadline lies in the past, because that would keep the server busy."""
    arena.broker.stall()
    peer = arena.attacker(idle_time_out=200)
    peer.attach_sender(arena.address)
    peer.attach_receiver(arena.address)
    peer.publish(numbered(170))
    peer.stop_reading(writes=1)
    peer.grant(5)
    for _ in range(100):
        deadline = peer.front_end.deadline()
        assert deadline is not None
        assert deadline > arena.broker.now.monotonic
        arena.advance(1)
        peer.send_bytes(frame(b""))
        assert kept(peer) == 0
    peer.go_on_reading()
    assert not peer.lost
    arena.broker.recover()
    arena.expected += numbered(170)


def test_a_peer_that_neither_reads_nor_writes_is_given_up(arena: Arena):
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    peer.stop_reading(writes=1)
    peer.grant(100)
    assert arena.broker.unacknowledged() == VICTIMS
    arena.advance(61)
    assert peer.front_end.finished
    assert arena.broker.unacknowledged() == 0
    assert peer.front_end.deadline() is None, "whoever owns the socket gives it a moment and closes it"
