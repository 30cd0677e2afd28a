"""A link of a client outlives the leader of its queue: it waits, and goes on at the next leader."""

import pytest

from amqp10.protocol.leader import FOLLOWS_LEADERS, leader_is_lost
from amqp10.wire.messaging import Accepted, Modified, Released, Source
from amqp10.wire.performatives import Detach, Disposition, Flow
from amqp10.wire.types import Described, Symbol, ULong
from core.engine.queue.admissions import lose_track
from core.errors import HomeLost
from core.interface import QueueDeclaration
from tests.kit.apart import Apart
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.queue_types import OFFSET
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, drain, open_storage, open_storage_of_member
from tests.kit.wire import InProcessBroker, numbered

MOVED = HomeLost("another node leads the queue from now on; attach again")


def apart(kind: str = "quorum") -> Apart:
    """Two nodes, and a client at the entry with a link to the queue ``far``, which the home node leads."""
    a = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()))
    quorum = QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": kind})
    a.entry.engine.declare_queue(quorum, a)
    a.peer.attach_sender(a.address)
    a.peer.frames.clear()
    return a


def moves(node: InProcessBroker) -> None:
    """The node learns that another node leads the queue."""
    assert node.engine.make_anew("far", MOVED, node.now.monotonic)
    node.run()
    node.advance(0.1)


def link_credit(a: Apart) -> int:
    """The last link credit that the client has got."""
    return a.peer.take(Flow)[-1].link_credit or 0


def states(a: Apart) -> list[type]:
    """The outcomes that the client has got, one for each message."""
    return [
        type(one.state)
        for one in a.peer.take(Disposition)
        for _ in range(one.first, (one.first if one.last is None else one.last) + 1)
    ]


@pytest.mark.parametrize("moved", [True, False])
def test_the_link_stays_and_messages_that_the_leader_may_have_are_modified(moved: bool):
    """Released would say that they are not there [3.4.4], and a repeat would not be marked as one."""
    a = apart()
    a.home.stall("far")
    a.peer.publish([b"1", b"2"])
    assert states(a) == []
    if moved:
        moves(a.entry)
    else:
        a.lose()
    (answer,) = a.peer.take(Disposition)
    assert (answer.first, answer.last, answer.state) == (0, 1, Modified(delivery_failed=True))
    assert a.peer.take(Detach) == []


@pytest.mark.parametrize(
    ("outcomes", "answer"),
    [
        (("amqp:accepted:list", "amqp:released:list", "amqp:modified:list"), Modified),
        (("amqp:accepted:list", "amqp:released:list"), Released),
    ],
)
def test_a_source_that_lists_its_outcomes_without_modified_gets_released(outcomes: tuple[str, ...], answer: type):
    a = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()))
    a.entry.engine.declare_queue(QueueDeclaration(name="far", arguments={"x-queue-type": "quorum"}), a)
    a.peer.attach_sender(a.address, source=Source(outcomes=outcomes))
    a.peer.frames.clear()
    a.home.stall("far")
    a.peer.publish([b"1"])
    moves(a.entry)
    assert states(a) == [answer]


def test_what_waits_for_the_leader_to_take_it_is_released():
    a = apart()
    a.entry.stall("far")
    a.peer.publish([b"1", b"2"])
    moves(a.entry)
    assert states(a) == [Released, Released]


def test_a_leader_that_cannot_know_says_so_over_the_hop():
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    a = Apart(storage, x_queue_type="quorum")
    a.peer.attach_sender(a.address)
    a.peer.frames.clear()
    a.peer.publish([b"1"])
    assert states(a) == []
    machinery = a.home.engine.machinery
    assert machinery.lanes is not None
    for waiting in machinery.lanes.quorum_synced.take(0, 1_000):
        lose_track(waiting, machinery.confirms)
    a.home.run()
    a.entry.run()
    assert states(a) == [Modified]


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_link_publishes_to_the_next_leader_with_its_link_credit(kind: str):
    a = apart(kind)
    a.peer.publish([b"1", b"2", b"3"])
    assert states(a) == [Accepted] * 3
    before = a.peer.link(0).credit.link_credit
    moves(a.entry)
    assert [one.link_credit for one in a.peer.take(Flow)] == [0, before + 3]
    a.peer.publish([b"%d" % number for number in range(10)])
    assert states(a) == [Accepted] * 10
    assert a.home.ready("far") == 13
    assert a.peer.take(Detach) == []


def test_the_link_credit_stays_what_the_leader_gives_however_often_it_moves():
    a = apart()
    for number in range(5):
        a.peer.publish([b"x"] * 100)
        assert states(a) == [Accepted] * 100
        moves(a.entry)
        assert 0 < link_credit(a) <= 170
        assert a.home.ready("far") == 100 * (number + 1)
        credit = a.peer.link(0).credit
        assert credit.balance.left == credit.room


@pytest.mark.parametrize("flow", ["fixed", "adaptive"])
def test_the_node_of_the_client_is_the_next_leader(flow: str):
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    a = Apart(of_entry=storage, settings=make_settings(amqp10={"flow": flow}))
    a.entry.engine.declare_queue(QueueDeclaration(name="far", arguments={"x-queue-type": "quorum"}), a)
    a.peer.attach_sender(a.address)
    a.peer.frames.clear()
    a.peer.publish([b"x"] * 100)
    assert states(a) == [Accepted] * 100
    a.entry.engine.machinery.homes.home_of = lambda virtual_host, queue: None
    moves(a.entry)
    credit = a.peer.link(0).credit
    for _ in range(20):
        count = min(20, credit.link_credit)
        assert count > 0
        a.peer.publish([b"y"] * count)
        drain(storage, a.entry.now.monotonic)
        a.entry.run()
        assert states(a) == [Accepted] * count
        assert credit.balance.left == credit.room
    assert a.peer.take(Detach) == []


def test_while_no_node_can_be_reached_there_is_no_link_credit_and_a_reason():
    a = apart()
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    assert link_credit(a) == 0
    a.entry.advance(2.0)
    reasons = [one.properties["headgate:reason"].value for one in a.peer.take(Flow) if one.properties]
    assert set(reasons) == {"no-quorum"}
    assert a.peer.take(Detach) == []
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    assert link_credit(a) > 0
    a.peer.publish([b"again"])
    assert states(a) == [Accepted]
    assert a.home.ready("far") == 1


def test_what_was_sent_before_the_client_knew_is_released():
    a = apart()
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    a.peer.publish([b"1", b"2"])
    assert states(a) == [Released, Released]
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    assert a.home.ready("far") == 0


def test_a_classic_queue_has_no_other_leader_and_its_links_are_detached():
    a = apart("classic")
    a.lose()
    assert a.peer.detached_with("amqp:link:detach-forced")


def test_a_queue_that_is_deleted_meanwhile_ends_the_link():
    a = apart()
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    a.peer.frames.clear()
    a.entry.engine.begin_deleting_here("far", a)
    a.entry.advance(1.0)
    (detach,) = a.peer.take(Detach)
    assert detach.error is not None
    assert detach.error.condition in ("amqp:resource-deleted", "amqp:not-found")


def consuming(link_credit: int = 10) -> Apart:
    """A client at the entry with a consuming link of the queue ``far``, which has five messages."""
    a = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()))
    quorum = QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": "quorum"})
    a.entry.engine.declare_queue(quorum, a)
    a.home.fill(numbered(5), "far")
    a.peer.attach_receiver(a.address, handle=1)
    if link_credit:
        a.peer.grant(link_credit)
    return a


def test_a_consumer_stays_and_gets_what_it_has_not_settled_again():
    a = consuming(3)
    first = a.peer.deliveries()
    assert len(first) == 3
    a.peer.dispose(first[0][0].delivery_id, state=Accepted())
    moves(a.entry)
    assert a.peer.take(Detach) == []
    (released,) = a.peer.take(Disposition)
    assert (released.first, released.last, type(released.state), bool(released.settled)) == (1, 2, Released, False)
    a.peer.dispose(1, 2, state=Accepted())
    a.peer.grant(10)
    again = a.peer.deliveries()
    assert [payload[-1:] for _, payload in again] == [payload[-1:] for _, payload in first[1:]] + [b"3", b"4"]
    assert [transfer.delivery_id for transfer, _ in again] == [3, 4, 5, 6], "numbers go on"
    a.peer.dispose(3, 6, state=Accepted())
    assert (a.home.ready("far"), a.home.unacknowledged("far")) == (0, 0)


def test_the_link_credit_of_a_consumer_brings_messages_of_the_next_leader():
    a = consuming(10)
    got = a.peer.deliveries()
    a.peer.dispose(0, 4, state=Accepted())
    assert len(got) == 5
    moves(a.entry)
    a.home.fill(numbered(2), "far")
    a.entry.run()
    assert len(a.peer.deliveries()) == 2
    assert a.peer.take(Detach) == []


def consuming_without_leader(link_credit: int) -> Apart:
    """A client at the entry with a consuming link whose queue has lost its leader; no other leader can be reached."""
    a = consuming(link_credit)
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    a.peer.frames.clear()
    return a


def test_a_drain_without_a_leader_is_answered_by_the_next_one():
    a = consuming_without_leader(0)
    a.peer.grant(10, drain=True)
    a.entry.advance(1.0)
    assert [one.link_credit for one in a.peer.take(Flow) if one.drain] == [10], "a reason only"
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    assert len(a.peer.deliveries()) == 5
    assert [one.link_credit for one in a.peer.take(Flow) if one.drain][-1] == 0


def test_a_consumer_that_waits_is_told_why():
    a = consuming_without_leader(10)
    a.entry.advance(2.0)
    (told,) = [one.properties for one in a.peer.take(Flow) if one.properties]
    assert (told["headgate:reason"].value, told["headgate:culprit"]) == ("no-quorum", "queue far")
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(2.0)
    assert len(a.peer.deliveries()) == 5
    assert [one.properties for one in a.peer.take(Flow) if one.properties] == [{"headgate:reason": None}]


def test_a_consumer_gets_again_what_was_delivered_over_a_lost_connection_to_the_leader():
    a = consuming(3)
    assert len(a.peer.deliveries()) == 3
    a.lose()
    a.nodes.call()
    a.entry.advance(1.0)
    (released,) = a.peer.take(Disposition)
    assert (released.first, released.last, type(released.state)) == (0, 2, Released)
    a.peer.dispose(0, 2, state=Released())
    a.peer.grant(10)
    assert [payload[-1:] for _, payload in a.peer.deliveries()] == [b"0", b"1", b"2", b"3", b"4"]
    assert a.peer.take(Detach) == []


def test_a_client_may_try_again_to_attach_while_no_leader_can_be_reached():
    a = consuming_without_leader(0)
    a.peer.attach_receiver(a.address, handle=2)
    a.entry.advance(2.0)
    assert a.peer.detached_with("amqp:link:detach-forced")
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    a.peer.attach_receiver(a.address, handle=3)
    a.peer.grant(10, handle=3)
    assert len(a.peer.deliveries()) == 5


def reading(link_credit: int, begin: object = "first") -> Apart:
    """A client at the entry with a link that reads the stream ``far``, which has five messages."""
    a = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()), x_queue_type="stream")
    stream = QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": "stream"})
    a.entry.engine.declare_queue(stream, a)
    a.home.fill(numbered(5), "far")
    wanted = {OFFSET: Described(Symbol(OFFSET), begin)}
    a.peer.attach_receiver(a.address, handle=1, source=Source(address=a.address, filter=wanted))
    if link_credit:
        a.peer.grant(link_credit)
    return a


@pytest.mark.parametrize("begin", ["first", "next", ULong(0)], ids=str)
def test_a_reader_of_a_stream_goes_on_behind_what_it_was_sent(begin: object):
    a = reading(3, begin)
    if begin == "next":
        a.home.fill(numbered(5), "far")
        a.entry.run()
    first = a.peer.deliveries()
    assert [payload[-1:] for _, payload in first] == numbered(3)
    moves(a.entry)
    assert a.peer.take(Detach) == []
    assert a.peer.take(Disposition) == [], "its client has them"
    a.peer.dispose(0, 2, state=Accepted())
    a.peer.grant(10)
    assert [payload[-1:] for _, payload in a.peer.deliveries()] == [b"3", b"4"]
    a.home.fill([b"5"], "far")
    a.entry.run()
    assert [payload[-1:] for _, payload in a.peer.deliveries()] == [b"5"]


def test_a_reader_that_was_sent_nothing_begins_where_it_said():
    a = reading(0, ULong(2))
    for _ in range(2):
        moves(a.entry)
    a.peer.grant(10)
    assert a.peer.bodies() == numbered(3, first=2)
    assert a.peer.take(Detach) == []


@pytest.mark.parametrize(("begin", "first"), [("next", 5), ("last", 0)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_reader_for_the_end_that_was_sent_nothing_begins_where_the_end_was(begin: str, first: int, times: int):
    a = reading(0, begin)
    for number in range(times):
        a.home.fill([b"%d" % (5 + number)], "far")
        moves(a.entry)
    a.peer.grant(10)
    assert a.peer.bodies() == numbered(5 + times)[first:]
    assert a.peer.take(Detach) == []


def test_a_reader_for_the_end_is_refused_while_no_node_is_known_to_lead_the_stream():
    a = Apart(of_entry=open_storage_of_member(), x_queue_type="stream")
    a.entry.engine.machinery.homes.home_of = lambda virtual_host, queue: None
    stream = QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": "stream"})
    a.entry.engine.declare_queue(stream, a)
    for number, begin in enumerate(("next", "last", "first")):
        wanted = {OFFSET: Described(Symbol(OFFSET), begin)}
        a.peer.attach_receiver(a.address, handle=number, source=Source(address=a.address, filter=wanted))
        assert a.peer.detached_with("amqp:link:detach-forced") is (begin != "first")


def test_a_reader_for_the_end_whose_leader_is_lost_before_it_has_said_where_that_is_attaches_again_itself():
    a = reading(10, "first")
    a.nodes.sockets[-1].hold()
    wanted = {OFFSET: Described(Symbol(OFFSET), "next")}
    a.peer.attach_receiver(a.address, handle=2, source=Source(address=a.address, filter=wanted))
    moves(a.entry)
    assert a.peer.detached_with("amqp:link:detach-forced")


def test_what_went_back_to_the_stream_unsent_is_not_skipped():
    a = reading(0)
    a.peer.stop_reading()
    a.peer.grant(5)
    a.peer.grant(0)
    a.peer.go_on_reading()
    got = len(a.peer.deliveries())
    moves(a.entry)
    a.peer.grant(10)
    assert a.peer.bodies() == numbered(5)[got:]


def test_a_drain_of_a_reader_without_a_leader_is_answered_by_the_next_one():
    a = reading(2)
    assert len(a.peer.deliveries()) == 2
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    a.peer.grant(10, drain=True)
    a.entry.advance(2.0)
    reasons = [one.properties["headgate:reason"].value for one in a.peer.take(Flow) if one.properties]
    assert reasons == ["no-quorum"]
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    assert a.peer.bodies() == numbered(3, first=2)
    assert [one.link_credit for one in a.peer.take(Flow) if one.drain][-1] == 0


@pytest.mark.parametrize("publishes", [True, False])
def test_a_link_that_ends_while_it_waits_is_forgotten(publishes: bool):
    a = apart() if publishes else consuming(10)
    a.nodes.reachable = False
    a.lose()
    a.nodes.call()
    a.peer.detach(0 if publishes else 1)
    a.nodes.reachable = True
    a.nodes.call()
    a.entry.advance(1.0)
    assert a.links_at_home() == []


def test_a_link_of_a_client_that_follows_leaders_ends_because_it_is_attached_elsewhere():
    a = apart()
    follower = a.entry.connect(desired_capabilities=(FOLLOWS_LEADERS,))
    follower.begin()
    follower.attach_sender(a.address, handle=1)
    follower.attach_receiver(a.address, handle=2)
    moves(a.entry)
    detaches = follower.take(Detach)
    assert [one.handle for one in detaches] == [1, 2]
    assert all(leader_is_lost(one.error) for one in detaches)
    assert a.peer.take(Detach) == []
