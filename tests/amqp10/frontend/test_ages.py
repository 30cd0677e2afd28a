"""How long consumers hold unsettled deliveries, known from notes that are made at intervals."""

import pytest

from amqp10.frontend.session_watches import Ages, SessionWatches
from amqp10.wire.messaging import ACCEPTED
from core.waiting.blocked_time import BlockedTimes
from core.waiting.times import AGE_SHARE, THINNED_FROM
from tests.kit.wire import InProcessBroker, WirePeer, numbered


@pytest.fixture
def peer() -> WirePeer:
    """A client with two consumers that have enough link credit."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    for handle, name in enumerate(("a", "b")):
        peer.attach_receiver(broker.queue(name), handle=handle)
        peer.grant(1000, handle=handle)
    return peer


def ages(peer: WirePeer, notes: Ages, now: float) -> dict[str, float]:
    return {link.end.name: age for link, age in notes.oldest(peer.session(), now).items()}


def test_what_is_sent_is_as_old_as_the_note_behind_it(peer: WirePeer):
    notes = Ages()
    notes.note(peer.session(), 0.0)
    peer.broker.fill(numbered(1), "a")
    assert ages(peer, notes, 0.4) == {"receiver-0.0": 0.0}
    notes.note(peer.session(), 0.5)
    peer.broker.fill(numbered(1), "b")
    notes.note(peer.session(), 1.0)
    notes.note(peer.session(), 1.5)
    assert ages(peer, notes, 2.0) == {"receiver-0.0": 1.5, "receiver-0.1": 1.0}
    peer.dispose(0, state=ACCEPTED)
    assert ages(peer, notes, 2.0) == {"receiver-0.1": 1.0}


def test_when_all_is_settled_it_begins_anew(peer: WirePeer):
    watches, broker = SessionWatches(BlockedTimes()), peer.broker
    broker.fill(numbered(1), "a")
    watches.look(peer.session(), broker.now)
    peer.dispose(0, state=ACCEPTED)
    broker.advance(5.0)
    watches.look(peer.session(), broker.now)
    broker.fill(numbered(1), "a")
    broker.advance(1.0)
    watches.look(peer.session(), broker.now)
    broker.advance(2.0)
    assert list(watches.oldest(peer.session(), broker.now).values()) == [2.0]
    watches.forget(peer.session(), broker.now)
    assert watches.oldest(peer.session(), broker.now) == {}


def test_notes_are_bounded_and_what_is_old_stays_about_right(peer: WirePeer):
    notes = Ages()
    peer.broker.fill(numbered(1), "a")
    rounds = 10 * THINNED_FROM
    for number in range(rounds):
        notes.note(peer.session(), float(number))
        peer.broker.fill(numbered(1), "b")
        if number:
            peer.dispose(number, state=ACCEPTED)
    assert len(notes.times) <= 2 * THINNED_FROM
    assert ages(peer, notes, float(rounds))["receiver-0.0"] == pytest.approx(rounds, rel=AGE_SHARE)
