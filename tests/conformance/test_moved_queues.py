"""A queue whose leader changes: a publisher of AMQP 0.9.1 learns of each message that was not taken on.

AMQP 0.9.1 confirms a message without a route, so such a message must not count as one: it would be lost. Each test puts
messages where a change of the leader can meet them.
"""

import pytest

from core.amqp091.methods import BasicAck, BasicNack
from core.errors import HomeLost
from core.interface import ExchangeTarget, Outcome
from tests.kit.apart import Apart
from tests.kit.engine import Peer, binding, bodies, confirms
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, drain, open_storage
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect

MOVED = HomeLost("another node leads the queue from now on; attach again")


def publishes(node: InProcessBroker, queue: str) -> Wire091Peer:
    """A client of this node that has published three messages, and waits for their confirms."""
    client = connect(node)
    client.select_confirms()
    client.publish(1, numbered(3), routing_key=queue, mandatory=True)
    assert client.methods(BasicAck) == []
    return client


def moves(node: InProcessBroker, queue: str) -> None:
    """The node learns that the queue has another home."""
    assert node.engine.make_anew(queue, MOVED, node.now.monotonic)
    node.run()


def is_refused(client: Wire091Peer) -> None:
    """All three messages are refused, and none is returned as unroutable."""
    refused = [(one.delivery_tag, one.multiple) for one in client.methods(BasicNack)]
    assert refused in ([(3, True)], [(1, False), (2, False), (3, False)]), "answered as if no queue was to have them"
    assert client.methods(BasicAck) == []
    assert client.returned() == []


def test_messages_that_wait_at_the_entry():
    a = Apart()
    a.peer.attach_sender(a.address)
    a.entry.stall("far")
    client = publishes(a.entry, "far")
    moves(a.entry, "far")
    is_refused(client)


def test_messages_that_are_on_their_way_to_the_home():
    a = Apart()
    a.home.stall("far")
    client = publishes(a.entry, "far")
    moves(a.entry, "far")
    is_refused(client)


def test_messages_that_the_home_releases_when_it_leads_no_more():
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    a = Apart(storage, x_queue_type="quorum")
    a.home.stall("far")
    client = publishes(a.entry, "far")
    storage.quorum.demote()
    a.home.run()
    moves(a.home, "far")
    a.entry.run()
    is_refused(client)


@pytest.mark.parametrize("taken_on", [False, True])
def test_messages_at_the_leader_itself_when_it_leads_no_more(taken_on: bool):
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    node = InProcessBroker(storage=storage)
    node.queue("q", x_queue_type="quorum")
    if not taken_on:
        node.stall("q")
    client = publishes(node, "q")
    storage.quorum.demote()
    node.run()
    if not taken_on:
        moves(node, "q")
        is_refused(client)
        return
    assert not node.engine.make_anew("q", MOVED, node.now.monotonic), "they may be committed"
    drain(storage, node.now.monotonic)
    node.run()
    assert [(one.delivery_tag, one.multiple) for one in client.methods(BasicAck)] == [(3, True)]
    moves(node, "q")
    assert client.methods(BasicNack) == []


def test_a_run_of_which_some_is_on_its_way_is_answered_in_order():
    a = Apart()
    a.peer.attach_sender(a.address)
    for name in ("far", "near"):
        a.entry.engine.bind(binding("amq.fanout", name), a)
    a.entry.engine.set_stage_budget("far", 1)
    publisher = Peer(a.entry.engine)
    publisher.publish(ExchangeTarget("amq.fanout", ""), bodies(3))
    assert confirms(publisher.turn()) == []
    a.entry.stall("far")
    moves(a.entry, "far")
    answers = [(first, last) for first, last, outcome in confirms(publisher.turn()) if outcome is Outcome.UNCERTAIN]
    assert answers == [(0, 0), (1, 2)], "the other queue has them, so that they are not released"
