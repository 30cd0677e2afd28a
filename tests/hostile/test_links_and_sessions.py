"""Storms of sessions and links, and breaches of their rules.

Each breach ends no more than it should, and ten thousand sessions or links leave nothing behind.
"""

import pytest

from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import Attach, Begin, Detach, End, Flow, Performative, Transfer
from core.config.settings import Settings
from tests.kit.hostile import VICTIMS, Arena, held
from tests.kit.settings import make_settings
from tests.kit.wire import WirePeer, numbered

UINT_MAX = 2**32 - 1
STORM = 3000
ANSWERS_MAX = STORM // Settings().amqp10.frames_per_turn_max + 2
"""At most one answer for each turn that a storm takes."""


def attach(handle: int, address: str | None, *, role: bool, name: str | None = None) -> Attach:
    """The attach of a sender or a receiver."""
    return Attach(
        name=name or f"{role}-{handle}",
        handle=handle,
        role=role,
        source=Source(address=address if role else None),
        target=Target(address=None if role else address),
        initial_delivery_count=None if role else 0,
    )


def send_each(peer: WirePeer, performatives: list[Performative], channel: int = 0) -> None:
    """Send all frames in one piece."""
    peer.send_all([(performative, b"") for performative in performatives], channel=channel)


def session_flow(**fields: object) -> Flow:
    """A flow of a session in which nothing has been sent in either direction."""
    given = {"next_incoming_id": 0, "incoming_window": 400, "next_outgoing_id": 0, "outgoing_window": 400}
    return Flow(**(given | fields))  # type: ignore[arg-type]


# --- breaches of the session -----------------------------------------------------------------------------------------

BREACHES: dict[str, tuple[Performative, str]] = {
    "a transfer on a handle that is not attached": (Transfer(handle=7), "amqp:session:unattached-handle"),
    "a flow on a handle that is not attached": (session_flow(handle=7), "amqp:session:unattached-handle"),
    "a detach of a handle that is not attached": (Detach(handle=7), "amqp:session:unattached-handle"),
    "a handle that is attached": (attach(1, "/queues/q", role=True), "amqp:session:handle-in-use"),
    "a transfer on a link of which it is the receiver": (
        Transfer(handle=1, delivery_id=0, delivery_tag=b"t"),
        "amqp:not-allowed",
    ),
    "a flow that has seen more than was sent": (session_flow(next_incoming_id=1), "amqp:session:window-violation"),
    "a flow that is half the circle ahead": (session_flow(next_incoming_id=2**31), "amqp:session:window-violation"),
}


@pytest.mark.parametrize(("performative", "condition"), BREACHES.values(), ids=BREACHES)
def test_a_breach_ends_the_session_and_no_other(arena: Arena, performative: Performative, condition: str):
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    peer.begin(channel=1)
    peer.attach_receiver(arena.address, channel=1)
    peer.grant(2, channel=1)
    assert peer.bodies() == numbered(2)
    send_each(peer, [performative, session_flow(echo=True), Transfer(handle=99)])
    assert peer.ended_with(condition)
    assert peer.nothing_came(), "what follows in an ended session is passed over"
    peer.grant(1, channel=1)
    assert peer.bodies() == [b"2"]
    peer.send(End())
    peer.begin()
    assert held(peer)["sessions"] == 2


def test_a_first_frame_that_is_wrong_ends_a_session_that_is_begun_with_it(arena: Arena):
    peer = arena.broker.connect()
    begin = Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0)
    send_each(peer, [begin, Transfer(handle=0), attach(0, arena.address, role=True), End(), begin])
    peer.expect(Begin)
    assert peer.ended_with("amqp:session:unattached-handle")
    peer.expect(Begin)
    assert peer.nothing_came()


# --- flows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery_count", [0, 1, 100, 2**31 - 1, 2**31, UINT_MAX])
@pytest.mark.parametrize("link_credit", [0, 1, 2**31, UINT_MAX])
@pytest.mark.parametrize("drain", [False, True])
def test_absurd_link_flows_are_computed_as_told(arena: Arena, link_credit: int, delivery_count: int, drain: bool):
    peer = arena.attacker(max_frame_size=512)
    peer.attach_receiver(arena.address)
    fields = {"available": UINT_MAX, "incoming_window": UINT_MAX, "outgoing_window": UINT_MAX}
    peer.flow(handle=1, delivery_count=delivery_count, link_credit=link_credit, drain=drain, echo=True, **fields)
    peer.flow(handle=1, delivery_count=None, link_credit=None, echo=True, **fields)
    ahead = delivery_count if delivery_count < 2**31 else delivery_count - 2**32
    assert len(peer.bodies()) == max(0, min(VICTIMS, link_credit + ahead))
    for flow in peer.take(Flow):
        assert 0 <= (flow.link_credit or 0) <= UINT_MAX
    assert peer.nothing_came()


def test_a_storm_of_echoes_has_few_answers(arena: Arena):
    peer = arena.attacker()
    peer.attach_sender(arena.address)
    peer.attach_receiver(arena.address)
    peer.take(Flow)
    for link in ({}, {"handle": 0}, {"handle": 1, "delivery_count": 0, "link_credit": 0}):
        send_each(peer, [session_flow(echo=True, **link)] * STORM)
        assert 1 <= len(peer.take(Flow)) <= ANSWERS_MAX
        arena.bystander.round()
    assert peer.nothing_came()


def test_a_storm_of_drains_has_few_answers(arena: Arena):
    peer = arena.attacker()
    peer.attach_receiver("/queues/bystander")
    drain = session_flow(handle=1, delivery_count=0, link_credit=UINT_MAX, drain=True)
    stop = session_flow(handle=1, delivery_count=0, link_credit=0, drain=False)
    send_each(peer, [drain, stop] * (STORM // 2) + [drain])
    flows = peer.take(Flow)
    assert 1 <= len(flows) <= ANSWERS_MAX
    assert (flows[-1].delivery_count, flows[-1].link_credit) == (UINT_MAX, 0)
    assert peer.nothing_came()


def test_a_storm_of_link_credit_delivers_everything_once(arena: Arena):
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    flows = [session_flow(handle=1, delivery_count=0, link_credit=n % 7, drain=n % 3 == 0) for n in range(2000)]
    send_each(peer, flows)
    arena.bystander.round()
    peer.grant(UINT_MAX)
    assert peer.bodies() == numbered(VICTIMS)


def test_link_credit_with_a_window_of_0(arena: Arena):
    """Link credit without a window delivers no messages. They are out of their queue, and come back."""
    peer = arena.broker.connect()
    peer.begin(incoming_window=0)
    for handle in range(1, 6):
        peer.attach_receiver(arena.address, handle=handle)
    for n in range(300):
        peer.grant(n % 5, handle=1 + n % 5, incoming_window=0)
    assert peer.deliveries() == []
    arena.bystander.round()
    for n in range(100):
        peer.flow(incoming_window=n % 2)
        peer.flow(incoming_window=0)
    assert len(peer.deliveries()) <= VICTIMS
    assert len(peer.take(End)) == 0


# --- storms ----------------------------------------------------------------------------------------------------------


def test_a_storm_of_attaches_and_detaches_leaves_nothing(arena: Arena):
    peer = arena.attacker()
    before = held(peer)
    for round_ in range(10):
        storm: list[Performative] = []
        for n in range(100):
            address = (arena.address, "/queues/missing", None, "nonsense")[n % 4]
            storm += [attach(0, address, role=n % 8 < 4, name=f"{round_}.{n}"), Detach(handle=0, closed=True)]
        send_each(peer, storm)
        assert len(peer.take(Attach)) == len(peer.take(Detach)) == 100
        assert held(peer) == before
        arena.bystander.round()


def test_links_up_to_the_limit_and_one_beyond(arena: Arena):
    peer = arena.attacker()
    for start in range(0, 256, 32):
        send_each(peer, [attach(handle, arena.address, role=bool(handle % 2)) for handle in range(start, start + 32)])
        arena.bystander.round()
    assert len(peer.take(Attach)) == 256
    assert held(peer)["links"] == 256
    peer.send(attach(256, arena.address, role=True))
    assert peer.closed_with("amqp:connection:framing-error")


def test_a_name_stolen_a_thousand_times(arena: Arena):
    peer = arena.attacker()
    peer.begin(channel=1)
    for n in range(500):
        peer.send(attach(n % 250, arena.address, role=True, name="mine"), channel=n % 2)
        if n:
            peer.send(Detach(handle=(n - 1) % 250, closed=True), channel=(n - 1) % 2)
    assert len(peer.take(Attach)) == 500
    assert sum(each.error is not None for each in peer.take(Detach)) == 499
    assert held(peer)["links"] == held(peer)["names"] == 1
    assert held(peer)["consumers"] == 2


def test_a_peer_that_never_answers_a_detach_uses_up_its_own_handles(arena: Arena):
    peer = arena.attacker()
    for handle in range(256):
        peer.send(attach(handle, "/queues/missing", role=True))
    assert len(peer.take(Detach)) == 256
    assert held(peer)["names"] == 0
    assert held(peer)["consumers"] == 1
    peer.send(attach(0, arena.address, role=True))
    assert peer.ended_with("amqp:session:handle-in-use")


def test_a_storm_of_begins_and_ends_leaves_nothing(arena: Arena):
    peer = arena.broker.connect()
    before = held(peer)
    begin = Begin(next_outgoing_id=0, incoming_window=UINT_MAX, outgoing_window=UINT_MAX)
    for _ in range(5):
        send_each(peer, [begin, attach(0, arena.address, role=True), attach(1, arena.address, role=False), End()] * 60)
        assert len(peer.take(Begin)) == len(peer.take(End)) == 60
        peer.take(Attach)
        peer.take(Flow)
        assert held(peer) == before
        arena.bystander.round()


def test_sessions_up_to_the_limit_and_one_beyond(arena: Arena):
    peer = arena.broker.connect()
    for channel in range(64):
        peer.begin(channel=channel)
    assert held(peer)["sessions"] == 64
    arena.bystander.round()
    peer.send(Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0), channel=64)
    assert peer.closed_with("amqp:connection:framing-error")


def test_a_storm_of_broken_sessions_leaves_nothing(arena: Arena):
    peer = arena.broker.connect()
    before = held(peer)
    begin = Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0)
    send_each(peer, [begin, attach(0, arena.address, role=True), Transfer(handle=5), End()] * 200)
    assert len(peer.take(End)) == 200
    assert held(peer) == before


def test_a_flood_of_dynamic_nodes_meets_the_limit_of_queues():
    arena = Arena(make_settings(engine={"queues_max": 20}))
    peer = arena.attacker()
    for handle in range(100):
        dynamic = Source(dynamic=True)
        peer.send(Attach(name=f"d{handle}" * 50, handle=handle, role=True, source=dynamic, target=Target()))
    refused = peer.take(Detach)
    assert [each.handle for each in refused] == list(range(18, 100))
    assert {each.error.condition for each in refused if each.error} == {"amqp:resource-limit-exceeded"}
    assert held(peer)["queues"] == 20
    arena.bystander.round()
    for handle in range(100):
        peer.detach(handle)
    assert held(peer)["queues"] == 2
    peer.attach_receiver(None, handle=200, source=Source(dynamic=True))
    assert held(peer)["queues"] == 3
    arena.finish()


def test_frames_in_flight_behind_an_error_detach_are_absorbed(arena: Arena):
    """The peer could not know of the detach [2.6.5]. Only after its answer is the handle free, and a frame on it an
    error."""
    peer = arena.attacker()
    peer.attach_sender(arena.address)
    peer.take(Flow)
    peer.send_all([peer.transfer_frame(payload=b"\xff", handle=0) for _ in range(300)])
    assert peer.detached_with("amqp:decode-error")
    peer.flow(handle=0, delivery_count=0, link_credit=5, echo=True)
    peer.dispose(0, 300, state=ACCEPTED)
    assert peer.take(Detach) == peer.take(End) == []
    assert len(peer.take(Flow)) == 1, "the session window is topped up all the same"
    peer.detach(0)
    peer.transfer()
    assert peer.ended_with("amqp:session:unattached-handle")
