"""A queue whose home is another node: what its links are told, and what its clients learn of the home's answers."""

import pytest

from core.config.settings import Settings
from core.engine.broker import Broker
from core.engine.forwarding.nodes import FarChange, Homes
from core.engine.options.in_force import QueueOptions, QueueType
from core.errors import HomeLost, NotFound, PreconditionFailed
from core.interface import Confirmed, Outcome, PublisherBlocked, PublisherClosed, PublisherCredit, QueueTarget
from core.message import Attributes
from tests.kit.engine import Peer, bodies, confirms, entries_for, queue
from tests.kit.home_node import RecordedNode, RecordedReceiver, RecordedSender


class Entry:
    """A broker in front of the home node of the queue ``q``, with a client."""

    def __init__(self) -> None:
        self.home = RecordedNode("b")
        homes = Homes("a", lambda virtual_host, name: "b" if name == "q" else None, nodes={"b": self.home})
        self.broker = Broker(Settings(), homes=homes)
        self.broker.declare_queue(queue("q"), owner="setup")
        self.peer = Peer(self.broker)

    def publisher(self) -> RecordedSender:
        """Attach the client's publisher, which has a link of its own."""
        self.peer.publisher(QueueTarget("q"))
        self.peer.turn()
        return self.home.senders[-1]

    def consumer(self) -> RecordedReceiver:
        return self.home.receivers[-1][1]


def test_messages_wait_for_the_link_credit_of_the_home():
    entry = Entry()
    link = entry.publisher()
    entry.peer.publish("q", bodies(5))
    entry.peer.turn()
    assert link.sent == []
    link.give(2)
    entry.peer.turn()
    link.give(10)
    entry.peer.turn()
    assert link.sent == [(0, bodies(2)), (2, bodies(3, start=2))]


def test_the_publisher_gets_the_link_credit_and_the_reason_of_the_home():
    entry = Entry()
    link = entry.publisher()
    link.give(3)
    (credit,) = entry.peer.turn()
    assert isinstance(credit, PublisherCredit)
    assert credit.limit == 3
    link.give(3, "alarm")
    (blocked,) = entry.peer.turn()
    assert isinstance(blocked, PublisherBlocked)
    assert blocked.reason == "alarm"


def test_the_publisher_gets_the_answers_of_the_home():
    entry = Entry()
    link = entry.publisher()
    entry.peer.publish("q", bodies(3))
    link.give(3)
    entry.peer.turn()
    full = PreconditionFailed("full")
    link.outlet.answered(2, 2, Outcome.REJECTED, full)
    link.outlet.answered(0, 1, Outcome.ACCEPTED, None)
    actions = entry.peer.turn()
    assert confirms(actions) == [(2, 2, Outcome.REJECTED), (0, 1, Outcome.ACCEPTED)]
    assert [one.error for one in actions if isinstance(one, Confirmed)] == [full, None]


def test_what_a_lost_link_has_sent_is_uncertain_and_what_waited_is_released():
    entry = Entry()
    link = entry.publisher()
    entry.peer.publish("q", bodies(4))
    link.give(1)
    entry.peer.turn()
    lost = HomeLost("the connection is lost")
    link.outlet.link_ended(lost)
    actions = entry.peer.turn()
    assert confirms(actions) == [(0, 0, Outcome.UNCERTAIN), (1, 3, Outcome.RELEASED)]
    assert [one.error for one in actions if isinstance(one, PublisherClosed)] == [lost]


def test_publishers_without_a_fixed_target_share_a_link():
    entry = Entry()
    for _ in range(2):
        entry.peer.publish("q", bodies(1), anonymous=True)
        entry.peer.turn()
    (link,) = entry.home.senders
    link.give(5)
    entry.peer.turn()
    assert link.sent == [(0, bodies(1)), (1, bodies(1))]


def test_a_grant_is_link_credit_and_deliveries_come_from_the_home():
    entry = Entry()
    consumer = entry.peer.consume("q", 5)
    entry.peer.turn()
    assert entry.consumer().grants == [(5, False, True)]
    inlet = entry.home.receivers[0][0]
    inlet.delivered(consumer.next_number, bodies(2), Attributes(), delivery_count=0, first_acquirer=True)
    assert entries_for(entry.peer.turn(), consumer) == bodies(2)
    entry.broker.cancel(consumer)
    assert entry.consumer().closed


def test_a_consumer_of_a_home_that_is_down_is_told_why():
    entry = Entry()
    entry.home.trouble = "Connection refused"
    with pytest.raises(NotFound, match="its home node b is down: Connection refused"):
        entry.peer.consume("q")


@pytest.mark.parametrize("kind", [QueueType.QUORUM, QueueType.STREAM])
def test_a_queue_with_copies_whose_leader_is_down_can_be_attached_to_again(kind):
    entry = Entry()
    entry.broker.shown.queues["q"].apply(QueueOptions(type=kind), entry.broker.machinery.now)
    entry.home.trouble = "Connection refused"
    with pytest.raises(HomeLost, match="its home node b is down: Connection refused"):
        entry.peer.consume("q")


def test_a_deletion_waits_for_the_home():
    entry = Entry()
    deleting = entry.broker.begin_deleting("q", "setup")
    ((what, recording),) = entry.home.changes
    assert what is FarChange.DELETE
    assert not deleting.done
    recording.finish(7)
    assert deleting.result() == 7
