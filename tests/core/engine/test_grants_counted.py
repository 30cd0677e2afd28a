"""How many consumers of a queue have a grant: a count, kept as grants come and go."""

import pytest

from tests.kit.engine import Peer, bodies, make_broker, queue


@pytest.mark.parametrize("single", [False, True])
def test_consumers_with_a_grant_are_counted_as_grants_come_and_go(single: bool):
    broker = make_broker()
    broker.declare_queue(queue("q", x_single_active_consumer=single), "x")
    peer = Peer(broker)
    consumers = [peer.consume("q"), peer.consume("q", 2), peer.consume("q", 1)]
    counted = []

    def count() -> None:
        (row,) = broker.rows("consumers_with_grant", "q")
        assert row["count"] == sum(one["grant"] != 0 for one in broker.rows("consumers"))
        counted.append(row["count"])

    count()
    broker.grant(consumers[0], 1, False)
    broker.grant(consumers[2], 0, False)
    count()
    peer.turn()
    count()
    peer.publish("q", bodies(1))
    peer.turn()
    count()
    broker.cancel(consumers[1])
    count()
    broker.cancel(consumers[0])
    count()
    assert counted == ([2, 2, 2, 1, 0, 0] if single else [2, 2, 2, 2, 1, 0])
