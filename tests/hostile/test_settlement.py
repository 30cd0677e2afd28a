"""Dispositions: over every possible id, over ids that do not exist, twice, backwards, and with very long outcomes."""

import time

import pytest

from amqp10.protocol.receiver_link import RANGES_AT_ONCE
from amqp10.wire.messaging import ACCEPTED, RELEASED, DeliveryState, Modified, Received, Rejected
from amqp10.wire.performatives import Disposition, Transfer, encode_performative
from core.config.amqp10 import Amqp10Settings
from core.slices import run_at_once
from core.work import AMPLE
from tests.kit.hostile import VICTIMS, Arena, composite, frame, held, map_of_pairs
from tests.kit.wire import WirePeer, data_message, numbered

UINT_MAX = 2**32 - 1
HALF = 2**31 - 1
"""The longest range that has an order [RFC 1982]."""


def holding(arena: Arena, n: int = VICTIMS) -> WirePeer:
    """An attacker with this many unsettled deliveries, numbered from 0."""
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    peer.grant(n)
    assert peer.bodies() == numbered(n)
    return peer


def test_a_range_over_every_possible_id_settles_those_that_exist(arena: Arena):
    peer = holding(arena, 5)
    began = time.process_time()
    peer.dispose(0, HALF, state=ACCEPTED)
    assert time.process_time() - began < 0.5
    assert arena.broker.unacknowledged() == 0
    arena.expected = arena.expected[5:]
    peer.grant(1)
    assert peer.bodies() == [b"5"]


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, UINT_MAX), (0, 2**31), (5, 3), (1, 0), (UINT_MAX, UINT_MAX - 1), (HALF + 1, 0), (0, HALF + 1)],
)
@pytest.mark.parametrize("role", [True, False])
@pytest.mark.parametrize("state", [ACCEPTED, Rejected()], ids=["fast", "slow"])
def test_a_range_that_runs_backwards_ends_the_session(arena: Arena, first: int, last: int, role: bool, state: object):
    """The range covers 2^32 ids, or half of them. No such range has an order [RFC 1982]."""
    peer = holding(arena)
    peer.dispose(first, last, role=role, state=state)
    assert peer.ended_with("amqp:invalid-field")
    assert arena.broker.unacknowledged() == 0


@pytest.mark.parametrize("role", [True, False])
def test_a_thousand_dispositions_over_half_the_circle(arena: Arena, role: bool):
    peer = holding(arena)
    peer.attach_sender(arena.address)
    peer.frames.clear()
    began = time.process_time()
    for state in (Received(section_number=0, section_offset=0), Rejected(), None):
        disposition = Disposition(role=role, first=2**31, last=UINT_MAX, settled=state is None, state=state)
        peer.send_all([(disposition, b"")] * 1000)
    assert time.process_time() - began < 2.0
    assert peer.nothing_came()
    assert arena.broker.unacknowledged() == VICTIMS


def test_unknown_ids_are_passed_over(arena: Arena):
    peer = holding(arena, 2)
    for role in (True, False):
        for first in (2, 1000, HALF, 2**31, UINT_MAX):
            peer.dispose(first, role=role, state=ACCEPTED)
            peer.dispose(first, role=role, state=Modified(delivery_failed=True))
    assert peer.nothing_came()
    assert arena.broker.unacknowledged() == 2


def test_settling_twice_is_settling_once(arena: Arena):
    peer = holding(arena)
    for state in (ACCEPTED, RELEASED, Rejected(), ACCEPTED):
        peer.dispose(0, 9, state=state)
    arena.expected = arena.expected[10:]
    assert arena.broker.unacknowledged() == 10
    assert peer.nothing_came()


def test_a_session_settles_only_what_is_its_own(arena: Arena):
    peer = holding(arena, 5)
    peer.begin(channel=1)
    peer.dispose(0, HALF, channel=1, state=ACCEPTED)
    stranger = arena.attacker()
    stranger.dispose(0, HALF, state=ACCEPTED)
    assert arena.broker.unacknowledged() == 5


@pytest.mark.slow
def test_every_second_delivery_is_settled_first(arena: Arena):
    """The worst order for a map that keeps ranges."""
    arena.broker.fill(numbered(20_000 - VICTIMS, VICTIMS))
    arena.expected = []
    peer = holding(arena, 20_000)
    evens = [(Disposition(role=True, first=n, settled=True, state=ACCEPTED), b"") for n in range(0, 20_000, 2)]
    peer.send_all(reversed(evens))
    assert held(peer)["unsettled"] == 10_000
    arena.bystander.round()
    began = time.process_time()
    for _ in range(100):
        peer.attach_receiver(arena.address, handle=2)
        peer.detach(2)
    assert time.process_time() - began < 0.5, "a link that holds nothing goes without a look at what others hold"
    began = time.process_time()
    peer.dispose(0, HALF, state=ACCEPTED)
    assert time.process_time() - began < 0.5, "one verb for 10,000 pieces; one verb for each took 70 us and more"
    assert arena.broker.unacknowledged() == 0


@pytest.mark.slow
def test_a_sender_that_never_settles_runs_out_of_link_credit(arena: Arena):
    """Its rcv-settle-mode leaves settling to it. Two links by turns make a range of each delivery."""
    limit = Amqp10Settings().unsettled_limit
    peer = arena.attacker()
    links = []
    for handle in (0, 1):
        peer.attach_sender(arena.address, handle=handle, rcv_settle_mode=1)
        links.append(peer.link(handle))
    sent = 0
    while share := min(link.credit.link_credit for link in links):
        peer.send_bytes(b"".join(unsettled_transfer(n, handle=n % 2) for n in range(sent, sent + 2 * share)))
        sent += 2 * share
        assert sent < 2 * limit, "the link credit goes on and on"
    session = peer.session()
    assert session.incoming.count == len(session.incoming.ranges()) == sent >= limit
    assert [link.credit.unconfirmed for link in links] == [0, 0]
    assert any(link.credit.unsettled_full for link in links)
    peer.detach(1)
    peer.attach_sender(arena.address, handle=1, name="another", rcv_settle_mode=1)
    assert peer.link(1).credit.link_credit > 0, "what was unsettled on the first link is gone with it"
    peer.detach(1)

    began = time.process_time()
    peer.dispose(0, HALF, role=False, settled=True, state=ACCEPTED)
    assert time.process_time() - began < 0.5
    assert session.incoming.count == session.unsettled_limit.count == 0
    assert peer.link(0).credit.link_credit > 0
    arena.expected += [b"x"] * sent


@pytest.mark.parametrize("state", [ACCEPTED, Rejected()], ids=["fast", "slow"])
def test_a_sender_that_settles_all_at_once_is_taken_in_slices(arena: Arena, state: DeliveryState):
    """A range of each delivery; what is settled in one turn is bounded. The frames behind wait for all of it."""
    peer = arena.attacker()
    n, links = 3 * RANGES_AT_ONCE, 20
    for handle in range(links):
        peer.attach_sender(arena.address, handle=handle, rcv_settle_mode=1)
    for sent in range(0, n, links):
        peer.send_bytes(b"".join(unsettled_transfer(sent + handle, handle=handle) for handle in range(links)))
    session = peer.session()
    sent = session.incoming.count
    assert len(session.incoming.ranges()) == sent >= n
    seen = peer.front_end.connection.frames_received
    disposition = Disposition(role=False, first=0, last=HALF, settled=True, state=state)
    data = frame(encode_performative(disposition)) + unsettled_transfer(sent, handle=0)
    peer.front_end._work.allowance = 100
    peer.front_end.receive_data(data, arena.broker.now)
    left = [session.incoming.count]
    while left[-1] > 1:
        peer.front_end.take_actions(arena.broker.now)
        left.append(session.incoming.count)
        assert left[-2] - left[-1] <= RANGES_AT_ONCE
    peer.front_end._work.allowance = AMPLE
    peer.send_bytes(b"")
    assert session.incoming.ranges()[0].first == sent, "the transfer behind it came after it"
    assert peer.front_end.connection.frames_received == seen + 2
    arena.expected += [b"x"] * (sent + 1)


def unsettled_transfer(number: int, *, handle: int) -> bytes:
    """A whole delivery in one frame."""
    transfer = Transfer(handle=handle, delivery_id=number, delivery_tag=b"t", message_format=0, settled=False)
    return frame(encode_performative(transfer) + data_message(b"x"))


def test_other_links_of_the_session_are_not_held(arena: Arena):
    peer = arena.attacker()
    peer.attach_sender(arena.address, handle=0, rcv_settle_mode=1)
    peer.attach_sender(arena.address, handle=1)
    sent = 0
    while share := peer.link(0).credit.link_credit:
        peer.send_bytes(b"".join(unsettled_transfer(n, handle=0) for n in range(sent, sent + share)))
        sent += share
    assert len(peer.session().incoming.ranges()) == 1
    for _ in range(3):
        share = peer.link(1).credit.link_credit
        assert share
        peer.send_bytes(b"".join(unsettled_transfer(n, handle=1) for n in range(sent, sent + share)))
        sent += share
    arena.attacker().attach_sender(arena.address, rcv_settle_mode=1)
    assert arena.broker.peers[-1].link(0).credit.link_credit > 0
    arena.expected += [b"x"] * sent


UNKNOWN_STATES = {
    "a described nothing": b"\x00\x53\x7f\x45",
    "a state by a name that nobody knows": b"\x00\xa3\x04nope\x45",
    "declared, without a transaction": composite(0x33, b"\xa0\x01t"),
    "a source": composite(0x28),
}


@pytest.mark.parametrize("state", UNKNOWN_STATES.values(), ids=UNKNOWN_STATES)
def test_an_unknown_state_ends_the_session(arena: Arena, state: bytes):
    peer = holding(arena)
    peer.send_bytes(frame(composite(0x15, b"\x41", b"\x43", b"\x40", b"\x41", state)))
    assert peer.ended_with("amqp:not-implemented")


def test_a_state_that_is_no_described_value_closes_the_connection(arena: Arena):
    peer = holding(arena)
    peer.send_bytes(frame(composite(0x15, b"\x41", b"\x43", b"\x40", b"\x41", b"\x45")))
    assert peer.closed_with("amqp:invalid-field")


def test_a_transfer_with_a_state_costs_its_link(arena: Arena):
    peer = arena.attacker()
    peer.attach_sender(arena.address)
    peer.transfer(b"mine", state=Rejected())
    assert peer.detached_with("amqp:not-implemented")


@pytest.mark.slow
def test_annotations_added_to_everything_are_kept_once(arena: Arena):
    """One dictionary for each message would use 2,000 times as much memory."""
    arena.broker.fill(numbered(2000, VICTIMS))
    arena.expected += numbered(2000, VICTIMS)
    peer = holding(arena, 2000 + VICTIMS)
    annotations = {f"x-{n:03}": "v" for n in range(200)}
    for _ in range(2):
        peer.dispose(0, HALF, state=Modified(delivery_failed=True, message_annotations=annotations))
    batches = {id(batch) for heap in queue_of(arena)._sub_queues[0].returned._heaps.values() for _, batch in heap}
    assert len(batches) <= 20


def queue_of(arena: Arena):
    """The attacked queue inside the engine."""
    return arena.broker.engine._queues["q"]


def test_annotations_that_are_too_large_end_the_link(arena: Arena):
    peer = holding(arena)
    peer.dispose(0, 3, state=Modified(message_annotations={"x-large": "v" * 5000}))
    assert peer.detached_with("amqp:resource-limit-exceeded")
    assert arena.broker.unacknowledged() == 0


def test_annotations_added_for_ever_do_not_grow_for_ever(arena: Arena):
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    for n in range(300):
        peer.grant(1)
        ((transfer, payload),) = peer.deliveries()
        assert isinstance(transfer, Transfer)
        peer.dispose(transfer.delivery_id or 0, state=Modified(message_annotations={f"x-{n}": "v"}))
    assert len(payload) < 256 * 16


@pytest.mark.parametrize(
    "annotations",
    [map_of_pairs(b"\xa1\x01s", b"\x40"), map_of_pairs(b"\xa3\x01s", b"\x40", b"\xa3\x01s", b"\x40"), b"\x45"],
    ids=["a string as a key", "a key twice", "a list"],
)
def test_invalid_annotations_close_the_connection(arena: Arena, annotations: bytes):
    peer = holding(arena)
    modified = composite(0x27, b"\x41", b"\x42", annotations)
    peer.send_bytes(frame(composite(0x15, b"\x41", b"\x43", b"\x40", b"\x41", modified)))
    assert peer.lost
    assert arena.broker.unacknowledged() == 0


def test_a_disposition_of_a_fast_run_means_the_same_in_pieces(arena: Arena):
    """Cut anywhere, the frames settle the same deliveries."""
    frames = b"".join(
        frame(encode_performative(Disposition(role=True, first=n, settled=True, state=ACCEPTED))) for n in range(5)
    )
    for cut in range(1, len(frames), 7):
        peer = holding(arena, 5)
        peer.send_bytes(frames[:cut])
        peer.send_bytes(frames[cut:])
        assert arena.broker.unacknowledged() == 0
        peer.disconnect()
        arena.broker.fill(numbered(5))
        run_at_once(arena.broker.engine.purge_queue("q", arena.broker))
        arena.broker.fill(numbered(VICTIMS))
