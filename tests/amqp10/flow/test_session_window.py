"""The session's flow state, situation by situation; ``tests/machines`` compares it with an unbounded model."""

import pytest

from amqp10.errors import ErrorCondition, SessionFault
from amqp10.flow.session_window import OUTGOING_WINDOW, SessionWindow

LARGEST = 2**32 - 1


def window(*, maximum=400, top_up_at=200, initial_outgoing_id=0, closed=False, **begin) -> SessionWindow:
    """A session whose begins have been exchanged; keywords override what the peer's begin said."""
    session = SessionWindow(
        maximum=maximum, top_up_at=top_up_at, initial_outgoing_id=initial_outgoing_id, closed=closed
    )
    fields = {"next_outgoing_id": 0, "incoming_window": 2048, "outgoing_window": 2048} | begin
    session.begin_received(**fields)
    return session


def flow(session: SessionWindow, **changed) -> None:
    """A flow that agrees with everything that the session knows, but for the fields given."""
    fields = {
        "next_incoming_id": session.next_outgoing_id,
        "incoming_window": 100,
        "next_outgoing_id": session.next_incoming_id,
        "outgoing_window": 7,
    }
    session.flow_received(**fields | changed)


def test_a_session_starts_with_what_the_begins_said():
    session = window(initial_outgoing_id=LARGEST, next_outgoing_id=2**31, incoming_window=3, outgoing_window=4)
    assert session.announced == session.incoming_window == 400
    assert session.next_outgoing_id == session.initial_outgoing_id == LARGEST
    assert session.next_incoming_id == 2**31
    assert session.remote_incoming_window == 3
    assert session.remote_outgoing_window == 4
    assert OUTGOING_WINDOW == LARGEST


# --- the peer sends -------------------------------------------------------------------------------------------------


def test_transfers_received_use_up_both_windows_and_advance_the_id():
    session = window(next_outgoing_id=LARGEST - 1, outgoing_window=10)
    session.received(3)
    assert session.next_incoming_id == 1
    assert session.announced == 397
    assert session.remote_outgoing_window == 7


def test_a_peer_that_sends_beyond_its_outgoing_window_is_counted_down_to_zero():
    session = window(outgoing_window=2)
    session.received(3)
    assert session.remote_outgoing_window == 0


def test_the_whole_window_may_be_used_and_no_more():
    session = window()
    session.received(400)
    assert session.announced == 0
    with pytest.raises(SessionFault, match=r"exceeded by 1 transfer frame") as raised:
        session.received(1)
    assert raised.value.condition == ErrorCondition.WINDOW_VIOLATION
    assert session.announced == 0


def test_the_fault_tells_by_how_much():
    with pytest.raises(SessionFault, match=r"exceeded by 5 transfer frame.*announced window: 0.*excess: 0"):
        window().received(405)


@pytest.mark.parametrize(("left", "due"), [(201, False), (200, True), (199, True), (0, True)])
def test_the_window_is_restored_at_half(left, due):
    session = window()
    session.received(400 - left)
    assert session.top_up() is due
    assert session.announced == (400 if due else left)
    assert session.top_up() is False


# --- alarms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 1, 150, 400])
def test_an_alarm_tolerates_what_may_be_in_flight(before):
    session = window()
    session.received(before)
    assert session.close(400) is True
    assert session.announced == 0
    session.received(400)
    assert session.announced == 0
    with pytest.raises(SessionFault, match="tolerated excess: 400"):
        session.received(1)


def test_transfers_in_flight_are_tolerated_in_one_run_too():
    session = window()
    session.close(400)
    with pytest.raises(SessionFault, match="exceeded by 1 "):
        session.received(401)


def test_an_alarm_that_ends_soon_leaves_room_for_what_is_still_in_flight():
    """The peer was told a large window, of which the links have given up most. All of it may be in flight."""
    session = window()
    session.cover(5000)
    session.cover(-5000)
    session.received(100)
    session.close(400)
    session.received(1000)
    session.open()
    assert session.announced == 4300
    session.received(4300)
    with pytest.raises(SessionFault, match="exceeded by 1 transfer"):
        session.received(1)


def test_a_session_begun_under_an_alarm_tolerates_nothing():
    session = window(closed=True)
    assert session.announced == 0
    with pytest.raises(SessionFault, match="tolerated excess: 0"):
        session.received(1)


def test_a_closed_window_is_not_restored():
    session = window()
    session.received(300)
    session.close(400)
    assert session.top_up() is False
    assert session.announced == 0


def test_closing_and_opening_are_announced_once():
    session = window()
    assert session.open() is False
    assert session.close(400) is True
    assert session.close(400) is False
    session.received(10)
    assert session.open() is True
    assert session.open() is False
    assert session.announced == 400
    session.received(400)
    with pytest.raises(SessionFault, match="tolerated excess: 0"):
        session.received(1)


# --- the peer's flows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initial", [0, 10, 2**31 - 3, 2**32 - 3, LARGEST])
@pytest.mark.parametrize(
    ("seen", "incoming_window", "expected"),
    [
        (10, 100, 100),
        (4, 100, 94),
        (0, 100, 90),
        (5, 5, 0),
        (5, 4, 0),  # the peer shrank its window while ten transfers were on their way
        (0, 0, 0),
        (10, LARGEST, LARGEST),
        (0, LARGEST, LARGEST - 10),
    ],
)
def test_what_is_in_flight_is_taken_off_the_peers_window(initial, seen, incoming_window, expected):
    session = window(initial_outgoing_id=initial)
    session.sent(10)
    assert session.next_outgoing_id == (initial + 10) % 2**32
    flow(session, next_incoming_id=(initial + seen) % 2**32, incoming_window=incoming_window)
    assert session.remote_incoming_window == expected
    assert session.remote_outgoing_window == 7


def test_without_next_incoming_id_the_peer_has_seen_nothing():
    session = window(initial_outgoing_id=LARGEST)
    session.sent(10)
    flow(session, next_incoming_id=None, incoming_window=12)
    assert session.remote_incoming_window == 2


@pytest.mark.parametrize("initial", [0, 2**31 - 5, LARGEST])
def test_a_peer_cannot_have_received_what_was_not_sent(initial):
    session = window(initial_outgoing_id=initial)
    session.sent(5)
    with pytest.raises(SessionFault, match=r"next-incoming-id \d+ in flow") as raised:
        flow(session, next_incoming_id=(initial + 6) % 2**32)
    assert raised.value.condition == ErrorCondition.WINDOW_VIOLATION
    assert session.remote_incoming_window == 2048 - 5


@pytest.mark.parametrize("difference", [-1, 1, 400, 2**31, LARGEST])
def test_the_next_incoming_id_is_what_the_peer_says_it_is(difference):
    session = window(next_outgoing_id=LARGEST)
    session.received(2)
    flow(session, next_outgoing_id=(1 + difference) % 2**32)
    assert session.next_incoming_id == (1 + difference) % 2**32
    session.received(1)
    assert session.next_incoming_id == (2 + difference) % 2**32


@pytest.mark.parametrize("jump", [-400, 1, 2**31 - 1, 2**31])
def test_a_jump_of_the_peers_ids_lets_no_more_transfers_in(jump):
    session = window()
    session.received(10)
    for _ in range(3):
        flow(session, next_outgoing_id=(session.next_incoming_id + jump) % 2**32)
    assert session.announced == 390
    session.received(390)
    with pytest.raises(SessionFault, match="exceeded by 1 transfer"):
        session.received(1)


def test_a_refused_flow_changes_nothing():
    session = window()
    with pytest.raises(SessionFault):
        flow(session, next_incoming_id=1, next_outgoing_id=9, incoming_window=1)
    assert (session.next_incoming_id, session.remote_incoming_window, session.remote_outgoing_window) == (0, 2048, 2048)


def test_sending_uses_up_the_peers_window():
    session = window(incoming_window=3)
    session.sent(2)
    session.sent(1)
    assert session.remote_incoming_window == 0
    with pytest.raises(AssertionError):
        session.sent(1)


@pytest.mark.parametrize("top_up_at", [400, 401, -1])
def test_a_window_that_could_not_be_restored_is_our_mistake(top_up_at):
    with pytest.raises(AssertionError):
        SessionWindow(maximum=400, top_up_at=top_up_at)
