"""The session window between two engines, however the bytes come: edges, wraps, closing, both ways [2.5.6]."""

from dataclasses import replace

import pytest

from amqp10.protocol.settings import SessionLimits
from tests.kit.peers import SETTLED, Cutting, Pair, cut_anywhere
from tests.kit.wire import numbered

EDGES = (2**31 - 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
WINDOWS = ((1, 0), (2, 0), (2, 1), (5, 4), (10, 5))
"""The maximum of a window, and the level at which it is topped up."""


def linked(cutting: Cutting, client: SessionLimits, server: SessionLimits) -> Pair:
    """A session with a link each way, and link credit for 100 messages."""
    pair = Pair(cutting, client=client, server=server)
    session = pair.begin()
    pair.attach_sender(session, snd=SETTLED)
    pair.attach_receiver(session, snd=SETTLED).grant(100)
    pair.server.receiver("out").grant(100)
    pair.pump()
    return pair


@pytest.mark.parametrize(("maximum", "top_up"), WINDOWS)
@cut_anywhere
def test_any_window_lets_everything_through(cutting: Cutting, maximum: int, top_up: int):
    limits = SessionLimits(max_incoming_window=maximum, window_top_up=top_up)
    pair = linked(cutting, limits, limits)
    for n in (1, 9, 20):
        pair.client.put("out", numbered(n))
        pair.server.put("in", numbered(n))
        pair.cross()
    assert pair.server.bodies("out") == pair.client.bodies("in") == numbered(1) + numbered(9) + numbered(20)
    return pair


@pytest.mark.parametrize("start", EDGES)
@cut_anywhere
def test_transfer_ids_wrap(cutting: Cutting, start: int):
    """The two directions begin at different ids, and both wrap."""
    client = SessionLimits(max_incoming_window=3, window_top_up=1, initial_outgoing_id=start)
    pair = linked(cutting, client, replace(client, initial_outgoing_id=(start + 2) % 2**32))
    for _ in range(3):
        pair.client.put("out", numbered(4))
        pair.server.put("in", numbered(5))
        pair.cross()
        pair.client.sessions[0].send_flow(echo=True)
        pair.server.sessions[0].send_flow(echo=True)
        pair.cross()
    assert pair.server.bodies("out") == numbered(4) * 3
    assert pair.client.bodies("in") == numbered(5) * 3
    assert pair.client.sessions[0].window.next_outgoing_id == (start + 12) % 2**32
    assert pair.server.sessions[0].window.next_outgoing_id == (start + 2 + 15) % 2**32
    return pair


@cut_anywhere
def test_largest_window(cutting: Cutting):
    limits = SessionLimits(max_incoming_window=2**32 - 1, window_top_up=2**32 - 10)
    pair = linked(cutting, limits, limits)
    pair.client.put("out", numbered(30))
    pair.server.put("in", numbered(30))
    pair.cross()
    assert pair.server.bodies("out") == pair.client.bodies("in") == numbered(30)
    return pair


@cut_anywhere
def test_closed_while_transfers_are_under_way(cutting: Cutting):
    """Transfers under way are tolerated. No more follow until the window opens; then the rest comes, in order."""
    pair = linked(cutting, SessionLimits(), SessionLimits(max_incoming_window=20, window_top_up=10))
    session = pair.server.sessions[0]
    pair.client.put("out", numbered(15))
    session.close_incoming_window()
    session.close_incoming_window()
    pair.cross()
    assert pair.server.bodies("out") == numbered(15)
    assert session.window.incoming_window == -15
    pair.client.put("out", numbered(15, first=15))
    pair.server.put("in", numbered(3))
    pair.pump()
    assert pair.server.bodies("out") == numbered(15)
    assert pair.client.bodies("in") == numbered(3)
    session.open_incoming_window()
    session.open_incoming_window()
    pair.pump()
    assert pair.server.bodies("out") == numbered(30)
    return pair


@cut_anywhere
def test_more_than_the_margin_behind_a_closed_window(cutting: Cutting):
    """The peer may use the window that it was told. A margin smaller than that, set here, breaks the promise and ends
    the session."""
    limits = SessionLimits(max_incoming_window=20, window_top_up=10, incoming_window_margin=4)
    pair = linked(cutting, SessionLimits(), limits)
    pair.client.put("out", numbered(6))
    pair.server.sessions[0].close_incoming_window()
    pair.cross()
    assert pair.server.bodies("out") == numbered(4)
    assert pair.client.happened("ended") == [(0, "ended", "amqp:session:window-violation")]
    assert pair.client.connection.opened
    return pair


@cut_anywhere
def test_one_session_waits_and_the_other_goes_on(cutting: Cutting):
    pair = Pair(cutting)
    for session, name in ((pair.begin(), "first"), (pair.begin(), "second")):
        pair.attach_sender(session, name)
        pair.server.receiver(name).grant(10)
    pair.server.sessions[0].close_incoming_window()
    pair.pump()
    for name in ("first", "second"):
        pair.client.put(name, numbered(10))
    pair.pump()
    assert pair.server.bodies("first") == []
    assert pair.server.bodies("second") == numbered(10)
    pair.server.sessions[0].open_incoming_window()
    pair.pump()
    assert pair.server.bodies("first") == numbered(10)
    return pair


@cut_anywhere
def test_a_window_that_is_closed_before_the_answer_to_begin(cutting: Cutting):
    """No transfer is tolerated, because none was ever allowed."""
    pair = Pair(cutting)
    session = pair.client.connection.new_session()
    session.window.close(0)
    session.begin()
    pair.pump()
    pair.attach_receiver(session).grant(3)
    pair.server.put("in", numbered(3))
    pair.pump()
    assert pair.client.bodies("in") == []
    session.open_incoming_window()
    pair.pump()
    assert pair.client.bodies("in") == numbered(3)
    return pair
