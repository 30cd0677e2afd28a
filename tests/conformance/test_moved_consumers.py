"""A consumer of AMQP 0.9.1 outlives the leader of its queue: it waits, and goes on at the next leader."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from core.access.rights import Permission, all_rights
from core.amqp091.frontend.moved_consumers import REACHED_WITHIN_S
from core.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
)
from core.amqp091.table import FieldValue
from core.engine.storage import Storage
from core.errors import HomeLost
from core.interface import QueueDeclaration
from tests.kit.apart import Apart
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, drain, open_storage, open_storage_of_member
from tests.kit.wire import numbered
from tests.kit.wire091 import Wire091Peer

MOVED = HomeLost("another node leads the queue from now on; attach again")
FAILOVER = "x-cancel-on-ha-failover"
Got = list[tuple[int, bytes, bool]]


class Reading:
    """Two nodes, of which the home leads the queue ``far`` with five messages, and a client of the entry."""

    def __init__(
        self,
        kind: str = "quorum",
        *,
        prefetch: int = 3,
        whole_channel: bool = False,
        no_ack: bool = False,
        arguments: Mapping[str, FieldValue] | None = None,
        capabilities: dict[str, bool] | None = None,
        storage: Storage | None = None,
    ) -> None:
        """``storage``: the entry's."""
        self.storage = storage or open_storage(MemoryDisk(), KeptDefinitions())
        self.apart = a = Apart(of_entry=self.storage, x_queue_type=kind)
        declared = QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": kind})
        a.entry.engine.declare_queue(declared, a)
        a.home.fill(numbered(5), "far")
        self.rights = a.entry.rights = all_rights("guest")
        self.client = Wire091Peer(a.entry)
        self.client.open(1, capabilities=capabilities)
        self.client.call(1, BasicQos(prefetch_count=prefetch, global_=whole_channel), BasicQosOk)
        begin = {"x-stream-offset": "first"} if kind == "stream" else {}
        self.client.consume("far", consumer_tag="mine", no_ack=no_ack, arguments={**begin, **(arguments or {})})

    def moves(self) -> None:
        """The entry learns that another node leads the queue."""
        entry = self.apart.entry
        assert entry.engine.make_anew("far", MOVED, entry.now.monotonic)
        entry.run()
        entry.advance(0.1)

    def comes_here(self) -> None:
        """The entry leads the queue from now on, which is empty there."""
        self.apart.entry.engine.machinery.homes.home_of = lambda virtual_host, queue: None
        self.moves()

    def fill_here(self, bodies: list[bytes]) -> None:
        """Messages come into the queue of the entry, and are written."""
        if bodies:
            self.apart.entry.fill(bodies, "far")
        for _ in range(3):
            drain(self.storage, self.apart.entry.now.monotonic)
            self.apart.entry.run()

    def loses(self) -> None:
        """The leader cannot be reached, and no other node leads."""
        self.apart.nodes.reachable = False
        self.apart.lose()
        self.apart.nodes.call()

    def reaches(self) -> None:
        """The leader can be reached again."""
        self.apart.nodes.reachable = True
        self.apart.nodes.call()
        self.apart.entry.advance(1.0)

    def got(self) -> Got:
        """Tag, body and flag of what the client has got, all under the tag of its consumer."""
        deliveries = self.client.deliveries()
        assert {method.consumer_tag for method, _, _ in deliveries} <= {"mine"}
        return [(method.delivery_tag, body, method.redelivered) for method, _, body in deliveries]

    def cancels(self) -> list[str]:
        """The consumers that the broker has cancelled."""
        return [method.consumer_tag for method in self.client.methods(BasicCancel)]

    def stays(self) -> bool:
        """Whether neither the consumer nor the channel was ended."""
        return not (self.cancels() or self.client.methods(ChannelClose))


@pytest.mark.parametrize("whole_channel", [True, False])
def test_a_consumer_stays_and_gets_what_it_has_not_acknowledged_again(whole_channel: bool):
    c = Reading(whole_channel=whole_channel)
    assert c.got() == [(1, b"0", False), (2, b"1", False), (3, b"2", False)]
    c.client.ack(1)
    assert [body for _, body, _ in c.got()] == [b"3"]
    c.moves()
    assert c.got() == [(5, b"1", True), (6, b"2", True), (7, b"3", True)]
    c.client.ack(4, multiple=True)
    assert c.got() == [], "acknowledging former tags has no effect, and is no error"
    c.client.ack(7, multiple=True)
    assert [body for _, body, _ in c.got()] == [b"4"]
    c.client.ack(8)
    assert (c.apart.home.ready("far"), c.apart.home.unacknowledged("far")) == (0, 0)
    assert c.stays()


@pytest.mark.parametrize("whole_channel", [True, False])
def test_what_comes_later_is_delivered_however_often_the_leader_moves(whole_channel: bool):
    c = Reading(prefetch=100, whole_channel=whole_channel)
    assert len(c.got()) == 5
    c.client.ack(5, multiple=True)
    tag = 5
    for _ in range(5):
        c.moves()
        c.apart.home.fill(numbered(60), "far")
        c.apart.entry.run()
        got = c.got()
        assert [(body, again) for _, body, again in got] == [(body, False) for body in numbered(60)]
        assert [each for each, _, _ in got] == list(range(tag + 1, tag + 61))
        tag += 60
        c.client.ack(tag, multiple=True)
    assert c.apart.home.unacknowledged("far") == 0
    assert c.stays()


def test_a_consumer_that_acknowledges_nothing_stays():
    c = Reading(no_ack=True)
    assert len(c.got()) == 5
    c.moves()
    c.apart.home.fill([b"later"], "far")
    c.apart.entry.run()
    assert c.got() == [(6, b"later", False)]
    assert c.stays()


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_node_of_the_client_is_the_next_leader(kind: str):
    c = Reading(kind, prefetch=10)
    assert len(c.got()) == 5
    c.comes_here()
    bodies = numbered(8)
    c.fill_here(bodies)
    assert [body for _, body, _ in c.got()] == (bodies if kind == "quorum" else bodies[5:])
    assert c.stays()


def test_the_node_of_the_client_leads_no_more():
    c = Reading(prefetch=3)
    c.got()
    homes = c.apart.entry.engine.machinery.homes
    elsewhere = homes.home_of
    c.comes_here()
    c.fill_here([b"x", b"y"])
    assert [body for _, body, _ in c.got()] == [b"x", b"y"]
    homes.home_of = elsewhere
    c.storage.quorum.demote()
    c.fill_here([])
    c.moves()
    assert [body for _, body, _ in c.got()] == numbered(3)
    c.client.ack(5, multiple=True)
    assert c.got() == []
    c.client.ack(8, multiple=True)
    assert [body for _, body, _ in c.got()] == [b"3", b"4"]
    assert c.stays()


def test_a_consumer_without_a_leader_waits_and_goes_on():
    c = Reading()
    assert len(c.got()) == 3
    c.loses()
    c.apart.entry.advance(2.0)
    c.client.ack(3, multiple=True)
    assert c.stays()
    c.reaches()
    assert c.got() == [(4, b"0", True), (5, b"1", True), (6, b"2", True)]
    assert c.stays()


def test_a_consumer_whose_leader_is_not_reached_in_time_is_cancelled():
    c = Reading()
    c.loses()
    c.apart.entry.advance(REACHED_WITHIN_S - 1)
    assert c.stays()
    c.apart.entry.advance(2.0)
    assert c.cancels() == ["mine"]
    c.reaches()
    c.got()
    c.client.consume("far", consumer_tag="mine")
    assert [body for _, body, _ in c.got()] == numbered(3), "its tag is free"


def test_attempts_are_made_at_intervals():
    c = Reading()
    c.loses()
    entry = c.apart.entry
    deadlines = []
    for _ in range(5):
        deadline = c.client.front_end.deadline()
        assert deadline is not None
        deadlines.append(deadline)
        entry.advance(max(0.0, deadline - entry.now.monotonic))
    assert [round(later - before, 3) for before, later in pairwise(deadlines)] == [0.05] * 4


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_client_may_ask_for_the_cancel(kind: str):
    c = Reading(kind, arguments={FAILOVER: True})
    assert len(c.got()) == 3
    c.moves()
    assert c.cancels() == ["mine"]
    assert c.got() == []
    c.client.ack(3, multiple=True)
    assert c.client.methods(ChannelClose) == [], "what it had can be acknowledged"
    assert c.client.snapshots("channels")[0]["consumers"] == 0


def test_the_argument_is_a_boolean_and_false_is_as_none():
    c = Reading(arguments={FAILOVER: False})
    c.moves()
    assert c.stays()
    wrong = BasicConsume(queue="far", arguments={FAILOVER: "yes"})
    assert c.client.refusal(1, wrong) == (
        406,
        "PRECONDITION_FAILED - x-cancel-on-ha-failover is 'yes'; it must be a boolean",
    )


def test_a_client_that_knows_no_cancel_of_the_broker_gets_none():
    c = Reading(arguments={FAILOVER: True}, capabilities={})
    c.moves()
    assert c.stays()
    assert c.client.snapshots("channels")[0]["consumers"] == 0


def test_a_classic_queue_has_no_other_leader_and_its_consumer_is_cancelled():
    c = Reading("classic")
    c.apart.lose()
    assert c.cancels() == ["mine"]


def test_a_queue_that_is_deleted_meanwhile_ends_the_consumer():
    c = Reading()
    c.loses()
    c.apart.entry.engine.begin_deleting_here("far", c.apart)
    c.apart.entry.advance(1.0)
    assert c.cancels() == ["mine"]


def test_a_consumer_whose_right_is_gone_meanwhile_ends_with_its_channel():
    c = Reading()
    c.loses()
    c.rights.change(Permission(read="^near$"), {}, frozenset())
    c.reaches()
    assert c.client.reopened(1)[0] == 403


def test_a_waiting_consumer_can_be_cancelled_by_its_client():
    c = Reading()
    assert len(c.got()) == 3
    c.loses()
    assert c.client.call(1, BasicCancel(consumer_tag="mine"), BasicCancelOk).consumer_tag == "mine"
    c.client.ack(3, multiple=True)
    c.reaches()
    assert c.got() == []
    assert c.apart.links_at_home() == []
    assert (c.client.snapshots("channels")[0]["consumers"], c.apart.entry.traffic["amqp091"].consumers) == (0, 0)
    c.client.consume("far", consumer_tag="mine")
    assert [body for _, body, _ in c.got()] == numbered(3)


@pytest.mark.parametrize("whole_connection", [True, False])
def test_a_channel_may_end_while_its_consumer_waits(whole_connection: bool):
    c = Reading()
    c.loses()
    if whole_connection:
        c.client.disconnect()
    else:
        c.client.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    c.reaches()
    assert c.apart.links_at_home() == []
    assert c.apart.entry.traffic["amqp091"].consumers == 0


def test_a_get_that_waits_for_the_leader_is_answered():
    c = Reading()
    c.client.ack(3, multiple=True)
    c.apart.home.stall("far")
    c.client.send(1, BasicGet(queue="far"))
    c.moves()
    assert c.client.methods(BasicGetEmpty) != []
    assert c.stays()


# --- streams -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ["first", "next", 0])
def test_a_consumer_of_a_stream_goes_on_behind_what_it_was_sent(begin: FieldValue):
    c = Reading("stream", arguments={"x-stream-offset": begin})
    if begin == "next":
        c.apart.home.fill(numbered(5), "far")
        c.apart.entry.run()
    assert [body for _, body, _ in c.got()] == numbered(3)
    c.client.ack(1)
    assert [body for _, body, _ in c.got()] == [b"3"]
    c.moves()
    assert c.got() == [], "it holds three, as many as its prefetch-count"
    c.client.ack(4, multiple=True)
    assert c.got() == [(5, b"4", False)]
    c.apart.home.fill([b"5"], "far")
    c.apart.entry.run()
    assert [body for _, body, _ in c.got()] == [b"5"]
    assert c.stays()


def test_a_consumer_of_a_stream_that_was_sent_nothing_begins_where_it_said():
    c = Reading("stream", arguments={"x-stream-offset": 7})
    for _ in range(2):
        c.moves()
    c.apart.home.fill(numbered(5, first=5), "far")
    c.apart.entry.run()
    assert [body for _, body, _ in c.got()] == numbered(3, first=7)
    assert c.stays()


@pytest.mark.parametrize(("begin", "first"), [("next", 5), ("last", 0)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_consumer_for_the_end_of_a_stream_that_was_sent_nothing_begins_where_the_end_was(
    begin: str, first: int, times: int
):
    c = Reading("stream")
    c.got()
    socket = c.apart.nodes.sockets[-1]
    socket.hold()
    c.client.consume("far", consumer_tag="other", arguments={"x-stream-offset": begin})
    socket.bring(1)  # the answer to the attach; deliveries are held
    for number in range(times):
        c.apart.home.fill([b"%d" % (5 + number)], "far")
        c.moves()
    socket.bring()
    got = [body for method, _, body in c.client.deliveries() if method.consumer_tag == "other"]
    assert got == numbered(5 + times)[first : first + 3]
    assert c.stays()


def test_a_consumer_for_the_end_is_cancelled_if_its_leader_is_lost_before_it_has_said_where_that_is():
    c = Reading("stream")
    c.apart.nodes.sockets[-1].hold()
    c.client.consume("far", consumer_tag="other", arguments={"x-stream-offset": "next"})
    c.moves()
    assert c.cancels() == ["other"]


def test_a_consumer_for_the_end_began_at_the_node_of_the_client():
    c = Reading("stream", prefetch=10)
    homes = c.apart.entry.engine.machinery.homes
    elsewhere = homes.home_of
    c.comes_here()
    c.fill_here(numbered(3))
    c.got()
    c.client.consume("far", consumer_tag="other", arguments={"x-stream-offset": "next"})
    homes.home_of = elsewhere
    c.storage.quorum.demote()
    c.fill_here([])
    c.moves()
    assert c.stays()
    assert [(method.consumer_tag, body) for method, _, body in c.client.deliveries()] == [
        ("other", b"3"),
        ("other", b"4"),
    ]


def test_the_offset_of_each_message_is_told_before_and_after():
    c = Reading("stream", prefetch=10)
    offsets = [(properties.headers or {})["x-stream-offset"] for _, properties, _ in c.client.deliveries()]
    c.moves()
    c.apart.home.fill(numbered(2), "far")
    c.apart.entry.run()
    offsets += [(properties.headers or {})["x-stream-offset"] for _, properties, _ in c.client.deliveries()]
    assert offsets == list(range(7))


def test_consumers_of_one_channel_go_on_each_for_itself():
    c = Reading("stream", prefetch=2)
    assert len(c.got()) == 2
    c.client.consume("near", consumer_tag="other")
    c.moves()
    c.apart.entry.fill([b"n"], "near")
    c.apart.entry.run()
    assert [(method.consumer_tag, body) for method, _, body in c.client.deliveries()] == [("other", b"n")]
    c.client.ack(2, multiple=True)
    assert [body for _, body, _ in c.got()] == numbered(2, first=2)


class Starting:
    """A client of a node that has started, and does not know yet which node leads the stream ``far``."""

    def __init__(self) -> None:
        self.reading = c = Reading("stream", storage=open_storage_of_member())
        c.got()
        self.elsewhere = c.apart.entry.engine.machinery.homes.home_of
        c.comes_here()

    def knows(self) -> None:
        """It knows that the home leads the stream."""
        self.reading.apart.entry.engine.machinery.homes.home_of = self.elsewhere
        self.reading.moves()


@pytest.mark.parametrize("begin", ["next", "last"])
def test_a_consumer_for_the_end_of_a_stream_is_refused_while_no_node_is_known_to_lead_it(begin: str):
    """It would be cancelled as soon as the leader is known, which alone knows where the end was."""
    starting = Starting()
    client = starting.reading.client
    code, text = client.refusal(1, BasicConsume(queue="far", arguments={"x-stream-offset": begin}))
    assert (code, "no node is known to lead" in text) == (404, True)
    client.call(1, BasicQos(prefetch_count=3), BasicQosOk)
    starting.knows()
    client.consume("far", arguments={"x-stream-offset": begin})
    assert client.bodies() == ([] if begin == "next" else numbered(3))


@pytest.mark.parametrize("begin", ["first", 1])
def test_other_consumers_of_a_stream_wait_until_it_is_known_which_node_leads_it(begin: FieldValue):
    starting = Starting()
    c = starting.reading
    c.client.consume("far", consumer_tag="other", arguments={"x-stream-offset": begin})
    starting.knows()
    got = [body for method, _, body in c.client.deliveries() if method.consumer_tag == "other"]
    assert got == numbered(5)[0 if begin == "first" else 1 :][:3]
    assert c.stays()
