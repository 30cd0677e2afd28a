"""A client whose links go to the nodes that lead their queues: three brokers that know nothing of each other, of which
the first says which other one leads the queue."""

from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10.client import ConnectionLost, LinkClosed, Message, ReceiverOptions, Uncertain, connect
from amqp10.client.journey import GIVE_UP_S
from amqp10.client.leaders import AVOID_S, CONNECT_S, IDLE_MS
from amqp10.client.session import REFUSED_S
from amqp10.frontend.conditions import link_fault
from amqp10.protocol.failover_servers import FailoverServer
from amqp10.protocol.leader import LEADER_KEY, leader_property
from amqp10.wire.messaging import Accepted
from core.errors import EngineError, HomeLost, Locked, NotFound
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import PATIENT, StreamBroker, stream_broker

URL, QUEUE = "amqp://guest:guest@a", "/queues/q"
BY_HAND = ReceiverOptions(automatic=False)


class Nodes:
    """The brokers a, b and c, each with a queue q of its own."""

    def __init__(self, brokers: list[StreamBroker]) -> None:
        self.by_host = dict(zip("abc", brokers, strict=True))
        self.tried: list[str] = []

    async def open_stream(self, host, port):
        self.tried.append(host)
        if host not in self.by_host:
            await anyio.sleep_forever()  # a load balancer hides it
        return await self.by_host[host].open_stream(host, port)

    def settings(self, **chosen):
        return self["a"].settings(open_stream=self.open_stream, **{"reconnect": PATIENT, **chosen})

    def __getitem__(self, host) -> StreamBroker:
        return self.by_host[host]

    def lead(self, leader, *, told_at="a"):
        """From now on, links that are attached at a node are told that this one leads the queue; None: nothing."""
        told = {} if leader is None else leader_property(FailoverServer(leader, 5672, "amqp"))
        self[told_at].broker.leader = lambda home: told

    def links(self, host) -> list[str]:
        """The names of the links at a node."""
        return [
            link.end.name
            for served in self[host].served
            if not served.peer.lost
            for session in served.peer.front_end.connection.sessions
            for link in session.links
            if link.end.attached
        ]

    async def end_links(self, host, error: EngineError):
        """A node ends its links."""
        for served in self[host].served:
            for session in list(served.peer.front_end.connection.sessions):
                for link in list(session.links):
                    session.fail_link(link, link_fault(error))
            self[host].broker.touch(served.peer)
        self[host].pump()
        await settle()

    async def move(self, before, leader):
        """Another node leads the queue: the one before ends its links, and the new one is told."""
        self.lead(leader)
        await self.end_links(before, HomeLost("it leads no more"))

    def lose(self, *hosts):
        for host in hosts:
            self[host].down = True
            self[host].cut()


@asynccontextmanager
async def three_nodes(leader="b"):
    async with stream_broker() as a, stream_broker() as b, stream_broker() as c:
        nodes = Nodes([a, b, c])
        nodes.lead(leader)
        yield nodes


@asynccontextmanager
async def client(leader="b", **chosen):
    async with three_nodes(leader) as nodes, connect(URL, nodes.settings(**chosen)) as connection:
        yield nodes, connection


async def test_links_are_attached_at_the_leader_and_nowhere_else(library):
    async with client() as (nodes, connection):
        sender, receiver = await connection.open_sender(QUEUE), await connection.open_receiver(QUEUE)
        assert sorted(nodes.links("b")) == sorted([sender.name, receiver.name])
        assert nodes.links("a") == []
        assert await sender.send(Message(b"one")) == Accepted()
        assert (await receiver.receive()).message.body == b"one"
        assert nodes.tried == ["a", "b"], "both links share the further connection"
    assert nodes["b"].served[0].peer.lost, "it is closed with the connection"


async def test_no_link_credit_is_given_and_nothing_is_sent_where_the_link_does_not_stay(library):
    async with client() as (nodes, connection):
        nodes["a"].broker.fill([b"of a"])
        receiver, sender = await connection.open_receiver(QUEUE), await connection.open_sender(QUEUE)
        assert await sender.send(Message(b"of b")) == Accepted()
        assert (await receiver.receive()).message.body == b"of b"
        assert nodes["a"].broker.ready() == 1
        assert nodes["a"].broker.traffic["amqp10"].messages_delivered == 0


async def test_the_setting_has_links_stay(library):
    async with client(leader_connections_max=0) as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        await nodes.end_links("a", HomeLost("gone"))
        with pytest.raises(LinkClosed, match="gone"):
            await sender.send(Message(b"x"))
        assert nodes.tried == ["a"]


async def test_a_link_follows_a_change_of_leaders_and_goes_on(library):
    async with client() as (nodes, connection):
        sender, receiver = await connection.open_sender(QUEUE), await connection.open_receiver(QUEUE)
        assert await sender.send(Message(b"one")) == Accepted()
        assert (await receiver.receive()).message.body == b"one"
        await nodes.move("b", "c")
        assert await sender.send(Message(b"two")) == Accepted()
        assert (await receiver.receive()).message.body == b"two"
        assert sorted(nodes.links("c")) == sorted([sender.name, receiver.name])
        await nodes.move("c", None)
        assert await sender.send(Message(b"three")) == Accepted()
        assert (await receiver.receive()).message.body == b"three"
        assert sorted(nodes.links("a")) == sorted([sender.name, receiver.name])


async def test_a_link_goes_on_after_the_end_of_its_leader(library):
    async with client() as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        receiver = await connection.open_receiver(QUEUE, options=BY_HAND)
        receiver.grant(5)
        await settle()
        nodes["b"].broker.stall()
        receipt = await sender.post([Message(b"uncertain")])
        await settle()
        nodes.lead("c")
        nodes.lose("b")
        (fate,) = await receipt.fates()
        assert isinstance(fate.fate, Uncertain), "it is not sent again by itself"
        assert await sender.send(Message(b"two")) == Accepted()
        assert (await receiver.receive()).message.body == b"two"
        assert receiver.link_credit == 4, "the link credit goes on too"
        assert connection.status.losses == 0


async def test_a_link_goes_on_when_its_leader_stands_still(library):
    async with client() as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        await settle()
        nodes["b"].silent = True
        nodes.lead("c")
        receipt = await sender.post([Message(b"uncertain")])
        began = anyio.current_time()
        (fate,) = await receipt.fates()
        assert isinstance(fate.fate, Uncertain)
        assert await sender.send(Message(b"two")) == Accepted()
        assert anyio.current_time() - began <= 2 * IDLE_MS / 1000 + 0.1
        assert nodes.links("c") == [sender.name]


async def test_the_loss_of_the_first_node_does_not_touch_links_at_the_leader(library):
    async with client() as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        nodes.lose("a")
        assert await sender.send(Message(b"one")) == Accepted()
        assert sender.status.losses == 0
        nodes["a"].down = False
        await nodes.move("b", "c")
        assert await sender.send(Message(b"two")) == Accepted()
        assert nodes.links("c") == [sender.name]


async def test_a_leader_that_cannot_be_reached_is_used_through_the_first_node_and_left_alone_for_a_while(library):
    async with client() as (nodes, connection):
        nodes["b"].down = True
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        assert await sender.send(Message(b"one")) == Accepted()
        await connection.open_sender(QUEUE)
        assert nodes.tried == ["a", "b"]
        nodes["b"].down = False
        await anyio.sleep(AVOID_S + 1)
        another = await connection.open_sender(QUEUE)
        assert nodes.links("b") == [another.name]


async def test_a_leader_that_does_not_answer_holds_a_link_up_for_a_second_only(library):
    async with client("hidden") as (nodes, connection):
        began = anyio.current_time()
        sender = await connection.open_sender(QUEUE)
        assert anyio.current_time() - began == pytest.approx(CONNECT_S)
        assert nodes.links("a") == [sender.name]
        began = anyio.current_time()
        assert await sender.send(Message(b"one")) == Accepted()
        await connection.open_receiver(QUEUE)
        assert anyio.current_time() == began


async def test_a_leader_that_refuses_the_login_is_not_used(library):
    async with client() as (nodes, connection):
        nodes["b"].change_users()
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        assert await sender.send(Message(b"one")) == Accepted()


async def test_a_leader_that_does_not_know_the_queue_yet_is_asked_once_more(library):
    async with client() as (nodes, connection):
        nodes["b"].broker.engine.delete_queue("q", nodes["b"].broker)
        async with anyio.create_task_group() as tasks:

            async def declare():
                await anyio.sleep(REFUSED_S / 2)
                nodes["b"].broker.queue()

            tasks.start_soon(declare)
            sender = await connection.open_sender(QUEUE)
        assert nodes.links("b") == [sender.name]


async def test_a_link_that_the_leader_refuses_is_used_through_the_first_node(library):
    async with client() as (nodes, connection):
        nodes["b"].broker.engine.delete_queue("q", nodes["b"].broker)
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        assert await sender.send(Message(b"one")) == Accepted()
        assert nodes["b"].opened == 1


@pytest.mark.parametrize("error", [NotFound("there is no queue"), Locked("it is locked")])
async def test_what_ends_a_link_for_another_reason_ends_it(library, error):
    async with client() as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        await nodes.end_links("b", error)
        with pytest.raises(LinkClosed, match=str(error)):
            await sender.send(Message(b"x"))
        assert not connection.has_links


async def test_a_link_whose_leader_stays_lost_ends(library):
    async with client(None) as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        began = anyio.current_time()
        while not sender.status.over:
            await nodes.end_links("a", HomeLost("node b cannot be reached"))
            await anyio.sleep(0.5)
        assert GIVE_UP_S <= anyio.current_time() - began <= GIVE_UP_S + 3
        with pytest.raises(LinkClosed, match="node b cannot be reached"):
            await sender.send(Message(b"x"))


async def test_there_are_so_many_further_connections_at_most_and_idle_ones_make_room(library):
    async with client(leader_connections_max=1) as (nodes, connection):
        first = await connection.open_sender(QUEUE)
        nodes.lead("c")
        second = await connection.open_sender(QUEUE)
        assert (nodes.links("b"), nodes.links("a")) == ([first.name], [second.name])
        await first.close()
        third = await connection.open_sender(QUEUE)
        assert nodes.links("c") == [third.name]
        await settle()
        assert nodes["b"].served[0].peer.lost


async def test_a_session_ends_with_its_links_at_other_nodes(library):
    async with client() as (nodes, connection):
        session = await connection.begin_session()
        sender = await session.open_sender(QUEUE)
        other = await connection.open_sender(QUEUE)
        session.close()
        assert sender.status.over
        await settle()
        assert nodes.links("b") == [other.name]


async def test_a_connection_that_ends_for_good_ends_the_links_at_other_nodes(library):
    async with client(reconnect=None) as (nodes, connection):
        sender = await connection.open_sender(QUEUE)
        nodes.lose("a")
        await settle()
        with pytest.raises(ConnectionLost):
            await sender.send(Message(b"x"))


async def test_an_attach_that_is_given_up_while_the_leader_is_called_leaves_nothing(library):
    async with client("hidden") as (nodes, connection):
        with anyio.move_on_after(CONNECT_S / 2):
            await connection.open_receiver(QUEUE)
        await anyio.sleep(CONNECT_S)
        assert nodes.links("a") == []
        assert not connection.has_links


@pytest.mark.parametrize("leader", [True, {}, {"network-host": "b"}, {"network-host": "b", "port": 0}])
async def test_a_leader_that_is_nonsense_is_ignored(library, leader, caplog):
    async with client() as (nodes, connection):
        nodes["a"].broker.leader = lambda home: {LEADER_KEY: leader}
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        assert "the leader of /queues/q is ignored" in caplog.text


async def test_a_client_without_tls_is_not_led_to_an_address_with_tls(library):
    async with client() as (nodes, connection):
        nodes["a"].broker.leader = lambda home: leader_property(FailoverServer("b", 5671, "amqps"))
        sender = await connection.open_sender(QUEUE)
        assert nodes.links("a") == [sender.name]
        assert nodes.tried == ["a"]
