"""Settlement between two engines, however the bytes come: both modes, both roles, ranges, wraps [2.6.12, 2.7.6]."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED, Error, Modified, Outcome, Rejected
from tests.kit.peers import FIRST, SECOND, SETTLED, UNSETTLED, Cutting, Delivery, Line, Pair, cut_anywhere
from tests.kit.wire import numbered

OUTCOMES: tuple[Outcome, ...] = (
    ACCEPTED,
    RELEASED,
    Rejected(error=Error(condition="amqp:not-allowed", description="not this")),
    Modified(delivery_failed=True, undeliverable_here=True),
)


def published(cutting: Cutting, n: int, *, rcv: int = FIRST) -> Pair:
    """A client that has sent ``n`` unsettled messages on its link "out"."""
    pair = Pair(cutting)
    pair.attach_sender(pair.begin(), snd=UNSETTLED, rcv=rcv)
    pair.server.receiver("out").grant(n)
    pair.client.put("out", numbered(n))
    pair.pump()
    assert pair.server.bodies("out") == numbered(n)
    return pair


def settled(*rows: tuple[int, Outcome]) -> list[Line]:
    """The settlements that the sender got."""
    return [("out", "settled", number, state) for number, state in rows]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("rcv", [FIRST, SECOND])
@cut_anywhere
def test_every_outcome_arrives_once(cutting: Cutting, outcome: Outcome, rcv: int):
    pair = published(cutting, 5, rcv=rcv)
    pair.server.settle("out", 1, 3, outcome)
    pair.pump()
    assert pair.client.happened("settled") == settled(*((number, outcome) for number in (1, 2, 3)))
    pair.server.settle("out", 0, 9, outcome)
    pair.pump()
    assert [line[2] for line in pair.client.happened("settled")] == [1, 2, 3, 0, 4]
    by_sender = [line[2] for line in pair.server.happened("settled by sender")]
    assert by_sender == ([] if rcv == FIRST else [1, 2, 3, 0, 4])
    assert pair.client.sessions[0].outgoing.count == pair.server.sessions[0].incoming.count == 0
    return pair


@cut_anywhere
def test_second_keeps_a_delivery_until_its_sender_has_settled(cutting: Cutting):
    pair = published(cutting, 3, rcv=SECOND)
    pair.server.settle("out", 0, 1, ACCEPTED)
    assert pair.server.sessions[0].incoming.count == 3
    pair.pump()
    assert pair.server.sessions[0].incoming.count == 1
    return pair


@cut_anywhere
def test_ranges_in_any_order_and_twice(cutting: Cutting):
    pair = published(cutting, 30)
    for first, last in ((20, 24), (3, 3), (18, 26), (0, 4), (28, 2**40), (5, 17), (27, 27), (0, 29)):
        pair.server.settle("out", first, last, ACCEPTED)
    pair.pump()
    numbers = [line[2] for line in pair.client.happened("settled")]
    assert sorted(numbers) == list(range(30))
    assert numbers[:6] == [20, 21, 22, 23, 24, 3]
    return pair


@cut_anywhere
def test_neighbours_of_different_outcome(cutting: Cutting):
    pair = published(cutting, 12)
    for number in range(12):
        pair.server.settle("out", number, number, OUTCOMES[number // 2 % 4])
    pair.pump()
    assert pair.client.happened("settled") == settled(*((number, OUTCOMES[number // 2 % 4]) for number in range(12)))
    return pair


@cut_anywhere
def test_one_disposition_for_deliveries_of_several_links(cutting: Cutting):
    """Delivery-ids belong to the session: adjoining ids are sent as one range, which is taken apart by link."""
    pair = Pair(cutting)
    session = pair.begin()
    names = ["a", "b", "c"]
    for name in names:
        pair.attach_sender(session, name)
        pair.server.receiver(name).grant(10)
    pair.pump()
    for n in range(4):
        for name in names:
            pair.client.put(name, [b"%d" % n])
            pair.pump()
    for delivery_id in range(12):
        pair.server.settle(names[delivery_id % 3], delivery_id, delivery_id, ACCEPTED)
    pair.pump()
    for name in names:
        assert [line[2] for line in pair.client.happened("settled", name)] == [0, 1, 2, 3]
    return pair


@cut_anywhere
def test_both_roles_number_their_deliveries_independently(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.begin()
    pair.attach_sender(session)
    pair.attach_receiver(session).grant(6)
    pair.server.receiver("out").grant(6)
    pair.pump()
    pair.client.put("out", numbered(6))
    pair.server.put("in", numbered(6, first=100))
    pair.cross()
    pair.client.settle("in", 0, 2, RELEASED)
    pair.server.settle("out", 3, 5, ACCEPTED)
    pair.cross()
    assert pair.client.happened("settled") == settled((3, ACCEPTED), (4, ACCEPTED), (5, ACCEPTED))
    assert [line[2:] for line in pair.server.happened("settled")] == [(number, RELEASED) for number in range(3)]
    assert session.outgoing.count == session.incoming.count == 3
    return pair


@cut_anywhere
def test_what_comes_settled_is_never_unsettled(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.begin()
    pair.attach_sender(session, snd=SETTLED)
    pair.server.receiver("out").grant(5)
    pair.client.put("out", [*numbered(3), b"x" * 2000])
    pair.pump()
    assert pair.server.inboxes["out"][0] == Delivery(0, b"0", True)
    assert session.outgoing.count == pair.server.sessions[0].incoming.count == 0
    pair.server.settle("out", 0, 3, ACCEPTED)
    pair.pump()
    assert pair.client.happened("settled") == []
    return pair


@cut_anywhere
def test_settling_while_more_arrives(cutting: Cutting):
    """Dispositions and transfers cross on one link."""
    pair = published(cutting, 10)
    receiver = pair.server.receiver("out")
    receiver.grant(50)
    pair.pump()
    for n in range(1, 5):
        pair.server.settle("out", 10 * (n - 1), 10 * n - 1, OUTCOMES[n % 4])
        pair.client.put("out", numbered(10, first=10 * n))
        pair.cross()
    assert pair.server.bodies("out") == numbered(50)
    assert [line[2] for line in pair.client.happened("settled")] == list(range(40))
    return pair


@pytest.mark.parametrize("skipped", [2**31 - 3, 2**32 - 3])
@pytest.mark.parametrize("rcv", [FIRST, SECOND])
@cut_anywhere
def test_delivery_ids_wrap(cutting: Cutting, skipped: int, rcv: int):
    """A range may lie across 2^31 or 2^32. The engines' own numbers do not wrap."""
    pair = Pair(cutting)
    session = pair.begin()
    session.next_delivery_id += skipped
    pair.server.sessions[0].next_delivery_id += skipped
    pair.attach_sender(session, rcv=rcv)
    pair.attach_receiver(session, rcv=rcv).grant(9)
    pair.server.receiver("out").grant(9)
    pair.pump()
    pair.client.put("out", numbered(9))
    pair.server.put("in", numbered(9))
    pair.pump()
    assert pair.server.bodies("out") == pair.client.bodies("in") == numbered(9)
    for side, name in ((pair.server, "out"), (pair.client, "in")):
        ids = [delivery.delivery_id for delivery in side.inboxes[name]]
        assert ids == list(range(ids[0], ids[0] + 9))
        side.settle(name, ids[1], ids[7], ACCEPTED)
    pair.pump()
    for side in (pair.client, pair.server):
        assert [line[2] for line in side.happened("settled")] == list(range(1, 8))
    assert session.outgoing.count == session.incoming.count == 2
    return pair


@cut_anywhere
def test_a_detach_forgets_what_is_unsettled(cutting: Cutting):
    pair = published(cutting, 4)
    session = pair.client.sessions[0]
    session.detach(pair.client.links["out"])
    pair.server.settle("out", 0, 1, ACCEPTED)
    pair.cross()
    assert session.outgoing.count == pair.server.sessions[0].incoming.count == 0
    assert pair.client.happened("settled") == []
    pair.server.settle("out", 2, 3, ACCEPTED)
    pair.pump()
    assert pair.client.connection.opened
    return pair
