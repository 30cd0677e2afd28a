"""Link credit between two engines, however the bytes come: what may be sent, draining, echo, wraps [2.6.7]."""

import pytest

from amqp10.protocol.settings import SessionLimits
from tests.kit.peers import SETTLED, Cutting, Pair, cut_anywhere
from tests.kit.wire import numbered

UINT_MAX = 2**32 - 1
EDGES = (2**31 - 2, 2**31 - 1, 2**31, UINT_MAX - 1, UINT_MAX)
"""Initial counts a step or two before the signed and the unsigned wrap, and on them."""


@cut_anywhere
def test_a_flow_sets_the_link_credit_and_does_not_add_to_it(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    pair.server.put("in", numbered(8))
    pair.pump()
    assert pair.client.bodies("in") == []
    link.grant(3)
    link.grant(5)
    pair.pump()
    assert pair.client.bodies("in") == numbered(5)
    link.grant(5)
    pair.pump()
    assert pair.client.bodies("in") == numbered(8)
    assert link.credit.link_credit == 2
    return pair


@cut_anywhere
def test_link_credit_lasts_until_there_is_something_to_send(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin(), snd=SETTLED)
    link.grant(10)
    pair.pump()
    for n in range(4):
        pair.server.put("in", numbered(3, first=3 * n))
        pair.pump()
    assert pair.client.bodies("in") == numbered(10)
    assert list(pair.server.outboxes["in"].bodies) == numbered(2, first=10)
    return pair


@cut_anywhere
def test_largest_link_credit(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin(), snd=SETTLED)
    link.grant(UINT_MAX)
    pair.server.put("in", numbered(20))
    pair.pump()
    assert pair.client.bodies("in") == numbered(20)
    assert pair.server.sender("in").credit.link_credit == UINT_MAX - 20
    link.grant(2**31 - 1, drain=True)
    pair.pump()
    assert link.credit.link_credit == 0
    return pair


@cut_anywhere
def test_draining_what_is_not_there(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    link.grant(10, drain=True)
    pair.pump()
    assert pair.client.happened("flow") == [("in", "flow", 0, 10, False)]
    assert (link.credit.link_credit, link.credit.delivery_count) == (0, 10)
    pair.server.put("in", numbered(1))
    pair.pump()
    assert pair.client.bodies("in") == []
    return pair


@cut_anywhere
def test_draining_nothing(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    pair.server.put("in", numbered(2))
    link.grant(0, drain=True)
    pair.pump()
    assert pair.client.bodies("in") == []
    assert pair.client.happened("flow") == [("in", "flow", 2, 0, False)]
    return pair


@cut_anywhere
def test_a_drain_takes_what_there_is_and_ends_behind_it(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    pair.server.put("in", numbered(3))
    link.grant(10, drain=True)
    pair.pump()
    lines = [line[1] for line in pair.client.log if line[0] == "in"]
    assert lines == ["attached", "received", "received", "received", "flow"]
    assert pair.client.happened("flow") == [("in", "flow", 0, 7, False)]
    assert (link.credit.link_credit, link.credit.delivery_count) == (0, 10)
    return pair


@cut_anywhere
def test_a_drain_that_leaves_something(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    pair.server.put("in", numbered(10))
    link.grant(4, drain=True)
    pair.pump()
    assert pair.client.bodies("in") == numbered(4)
    assert pair.client.happened("flow") == [("in", "flow", 6, 0, False)]
    link.grant(6)
    pair.pump()
    assert pair.client.bodies("in") == numbered(10)
    assert not pair.server.sender("in").credit.drain
    return pair


@cut_anywhere
def test_several_drains_one_after_the_other(cutting: Cutting):
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    for n in range(4):
        pair.server.put("in", numbered(n, first=10 * n))
        link.grant(5, drain=True)
        pair.pump()
    assert pair.client.bodies("in") == [b"10", b"20", b"21", b"30", b"31", b"32"]
    assert [line[3] for line in pair.client.happened("flow")] == [5, 4, 3, 2]
    assert link.credit.delivery_count == 20
    return pair


@cut_anywhere
def test_a_drain_waits_for_the_window_and_for_the_last_frame(cutting: Cutting):
    """The answer comes behind the deliveries that it counts, also when the window or a large delivery holds them up."""
    pair = Pair(cutting)
    session = pair.begin()
    link = pair.attach_receiver(session)
    session.close_incoming_window()
    pair.pump()
    pair.server.put("in", [b"a" * 3000, b"b" * 10, b"c" * 2000])
    link.grant(7, drain=True)
    pair.pump()
    assert pair.client.happened("flow") == pair.client.bodies("in") == []
    session.open_incoming_window()
    pair.pump()
    assert [len(body) for body in pair.client.bodies("in")] == [3000, 10, 2000]
    assert pair.client.happened("flow") == [("in", "flow", 0, 4, False)]
    assert pair.client.log[-1][1] == "flow"
    return pair


@cut_anywhere
def test_a_drain_that_is_called_off_before_its_answer(cutting: Cutting):
    """The answer waits behind deliveries that wait for the window. A flow without drain comes before it is sent."""
    pair = Pair(cutting)
    session = pair.begin()
    link = pair.attach_receiver(session)
    session.close_incoming_window()
    pair.pump()
    pair.server.put("in", numbered(2))
    link.grant(7, drain=True)
    pair.pump()
    link.grant(7)
    session.open_incoming_window()
    pair.pump()
    assert pair.client.bodies("in") == numbered(2)
    assert link.credit.link_credit == 5
    pair.server.put("in", numbered(5, first=2))
    pair.pump()
    assert pair.client.bodies("in") == numbered(7)
    return pair


@cut_anywhere
def test_link_credit_lowered_while_deliveries_wait(cutting: Cutting):
    """Deliveries beyond the new link credit are taken back, the newest first, and sent later, in order."""
    pair = Pair(cutting)
    session = pair.begin()
    link = pair.attach_receiver(session)
    session.close_incoming_window()
    pair.pump()
    for n in range(3):
        pair.server.put("in", numbered(3, first=3 * n))
    link.grant(9)
    pair.pump()
    assert pair.server.sender("in").waiting == 9
    link.grant(2)
    session.open_incoming_window()
    pair.pump()
    assert pair.client.bodies("in") == numbered(2)
    link.grant(0)
    pair.pump()
    link.grant(100)
    pair.pump()
    assert pair.client.bodies("in") == numbered(9)
    return pair


@cut_anywhere
def test_link_credit_lowered_while_deliveries_are_under_way(cutting: Cutting):
    """A flow and transfers cross: deliveries that were granted before may still come [2.6.7]."""
    pair = Pair(cutting)
    link = pair.attach_receiver(pair.begin())
    link.grant(5)
    pair.pump()
    pair.server.put("in", numbered(4))
    link.grant(0)
    pair.cross()
    assert pair.client.bodies("in") == numbered(4)
    link.grant(10)
    pair.pump()
    assert pair.client.bodies("in") == numbered(4)
    return pair


@cut_anywhere
def test_echo_on_a_link(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.begin()
    receiver, sender = pair.attach_receiver(session), pair.attach_sender(session)
    receiver.grant(3, echo=True)
    pair.pump()
    assert pair.client.happened("flow") == [("in", "flow", 0, 0, False)]
    pair.server.receiver("out").grant(3, echo=True)
    pair.pump()
    assert pair.server.happened("flow") == [("out", "flow", 0, 0, False)]
    assert sender.credit.link_credit == 3
    return pair


@cut_anywhere
def test_both_sides_may_ask_for_echo_and_come_to_rest(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.begin()
    pair.attach_receiver(session)
    session.send_flow(echo=True)
    pair.server.sessions[0].send_flow(echo=True)
    pair.pump()
    pair.client.receiver("in").write_flow(echo=True)
    pair.server.sessions[0].send_flow(echo=True)
    pair.pump()
    return pair


@pytest.mark.parametrize("start", EDGES)
@cut_anywhere
def test_delivery_count_wraps(cutting: Cutting, start: int):
    pair = Pair(cutting)
    pair.client.initial_delivery_count = pair.server.initial_delivery_count = start
    session = pair.begin()
    link, sender = pair.attach_receiver(session), pair.attach_sender(session)
    other = pair.server.receiver("out")
    pair.client.put("out", numbered(9))
    pair.server.put("in", numbered(9))
    for n in range(1, 4):
        link.grant(n)
        other.grant(n)
        pair.pump()
    assert pair.client.bodies("in") == pair.server.bodies("out") == numbered(6)
    link.grant(2, drain=True)
    other.grant(5, drain=True)
    pair.pump()
    assert pair.client.bodies("in") == numbered(8)
    assert pair.server.bodies("out") == numbered(9)
    assert (link.credit.delivery_count, link.credit.link_credit) == ((start + 8) % 2**32, 0)
    assert (sender.credit.delivery_count, sender.credit.link_credit) == ((start + 11) % 2**32, 0)
    return pair


@cut_anywhere
def test_a_drain_across_the_whole_circle(cutting: Cutting):
    """A drain advances delivery-count by the link credit that is left. Two drains of half the circle go around
    it once."""
    pair = Pair(cutting)
    pair.server.initial_delivery_count = UINT_MAX
    link = pair.attach_receiver(pair.begin())
    for _ in range(2):
        link.grant(2**31 - 1, drain=True)
        pair.pump()
        assert link.credit.link_credit == 0
    pair.server.put("in", numbered(4))
    link.grant(4)
    pair.pump()
    assert pair.client.bodies("in") == numbered(4)
    assert link.credit.delivery_count == 1
    return pair


@cut_anywhere
def test_the_rule_tops_up_a_publisher(cutting: Cutting):
    """A publisher gets more link credit at half, and none while too many messages are not answered."""
    pair = Pair(cutting)
    pair.server.credit_rule = {"maximum": 10, "top_up_at": 5, "unconfirmed_limit": 8}
    sender = pair.attach_sender(pair.begin())
    receiver = pair.server.receiver("out")
    pair.client.put("out", numbered(40))
    answered = 0
    pair.pump()
    while (came := len(pair.server.bodies("out"))) > answered:
        assert came - answered < 8 + 10
        receiver.confirmed(came - answered)
        answered = came
        pair.pump()
    assert pair.server.bodies("out") == numbered(40)
    assert 5 < sender.credit.link_credit <= 10
    return pair


@cut_anywhere
def test_many_links_each_with_its_own_link_credit(cutting: Cutting):
    pair = Pair(cutting, client=SessionLimits(max_incoming_window=7, window_top_up=3))
    sessions = [pair.begin(), pair.begin()]
    names = [f"in-{n}" for n in range(6)]
    for n, name in enumerate(names):
        pair.attach_receiver(sessions[n % 2], name)
        pair.server.put(name, numbered(12))
    for n, name in enumerate(names):
        pair.client.receiver(name).grant(2 * n)
    pair.pump()
    assert [pair.client.bodies(name) for name in names] == [numbered(2 * n) for n in range(6)]
    for name in names:
        pair.client.receiver(name).grant(20, drain=True)
    pair.pump()
    assert all(pair.client.bodies(name) == numbered(12) for name in names)
    return pair
