"""Which other nodes the open of a node tells to whom."""

from dataclasses import replace
from functools import partial

import pytest

from amqp10.frontend.failover import leader_told, other_nodes_property
from amqp10.frontend.far_clients import NODE_KEY
from amqp10.protocol.failover_servers import FailoverServer, failover_servers
from amqp10.protocol.leader import leader_is_lost, leader_of
from amqp10.wire.performatives import Detach, Open
from core.access.login import LoginPeer
from tests.kit.apart import Apart
from tests.kit.wire import InProcessBroker, WirePeer

CLIENT = LoginPeer(host="10.0.0.9", loopback=False, wake=lambda: None)
HERE = replace(CLIENT, host="127.0.0.1", loopback=True)
SIX = [(f"10.0.0.{number}:5672",) for number in range(2, 8)]


def told(nodes, peer=CLIENT, remote=None):
    return failover_servers(other_nodes_property(lambda encrypted: nodes, peer, remote))


def test_the_open_has_the_other_nodes():
    broker = InProcessBroker()
    broker.announced = replace(
        broker.announced, more_properties=partial(other_nodes_property, lambda encrypted: SIX, CLIENT)
    )
    peer = WirePeer(broker)
    peer.handshake()
    opened = peer.open(hostname="10.0.0.1")
    servers = failover_servers(opened.properties or {})
    assert servers is not None
    assert servers[0] == FailoverServer("10.0.0.2", 5672, "amqp", "10.0.0.2")
    assert [server.network_host for server in servers] == [f"10.0.0.{number}" for number in range(2, 8)]


def test_a_node_alone_and_a_broker_without_a_cluster_announce_nothing():
    assert other_nodes_property(lambda encrypted: [], CLIENT, None) == {}
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    assert peer.open().properties is None


def test_a_client_with_tls_is_told_addresses_with_tls():
    def nodes(encrypted):
        return [["b.example.org:5671"]] if encrypted else [["b.example.org:5672"]]

    encrypted = replace(CLIENT, encrypted=True)
    servers = failover_servers(other_nodes_property(nodes, encrypted, None))
    assert servers == [FailoverServer("b.example.org", 5671, "amqps", "b.example.org")]
    servers = failover_servers(other_nodes_property(nodes, CLIENT, None))
    assert servers == [FailoverServer("b.example.org", 5672, "amqp", "b.example.org")]


def test_a_client_keeps_its_virtual_host():
    servers = told([["10.0.0.2:5672"]], remote=Open(container_id="c", hostname="vhost:orders"))
    assert servers == [FailoverServer("10.0.0.2", 5672, "amqp", "vhost:orders")]


@pytest.mark.parametrize(
    ("addresses", "of_client", "of_one_here"),
    [
        (["127.0.0.1:5672"], None, "127.0.0.1"),
        (["localhost:5672", "10.0.0.2:5672"], "10.0.0.2", "localhost"),
        (["[::1]:5672"], None, "::1"),
        (["0.0.0.0:5672"], None, None),
        (["[::]:5672", "[fd00::2]:5672"], "fd00::2", "fd00::2"),
        (["10.0.0.2:0"], None, None),
        (["nonsense", ""], None, None),
        ([], None, None),
    ],
)
def test_one_address_of_a_node_is_told_that_the_client_can_use(addresses, of_client, of_one_here):
    def first(servers):
        return None if servers is None else servers[0].network_host

    assert first(told([addresses])) == of_client
    assert first(told([addresses], HERE)) == of_one_here


def test_another_node_is_told_nothing():
    assert told(SIX, replace(CLIENT, node_names=("b",))) is None
    assert told(SIX, HERE, Open(container_id="headgate b", properties={NODE_KEY: "b"})) is None


@pytest.mark.parametrize(
    ("peer", "home", "leader"),
    [
        (CLIENT, "b", FailoverServer("10.0.0.2", 5672, "amqp", "10.0.0.2")),
        (replace(CLIENT, encrypted=True), "b", FailoverServer("b.example.org", 5671, "amqps", "b.example.org")),
        (CLIENT, "c", None),
        (HERE, "c", FailoverServer("127.0.0.1", 5672, "amqp", "127.0.0.1")),
        (CLIENT, "away", None),
        (CLIENT, None, None),
        (replace(CLIENT, node_names=("c",)), "b", None),
    ],
)
def test_an_attach_is_told_the_leader_if_another_node_leads_and_the_client_can_reach_it(peer, home, leader):
    def clients_of(node, encrypted):
        addresses = {"b": ["b.example.org:5671"] if encrypted else ["10.0.0.2:5672"], "c": ["127.0.0.1:5672"]}
        return addresses.get(node, ())

    assert leader_of(leader_told(clients_of, peer, home)) == leader


def test_links_to_a_queue_of_another_node_are_told_the_leader_and_others_are_not():
    apart = Apart()
    apart.entry.leader = partial(leader_told, lambda node, encrypted: [f"{node}.example.org:5672"], CLIENT)
    peer = apart.client()
    told = FailoverServer("b.example.org", 5672, "amqp", "b.example.org")
    for handle, address, leader in ((0, apart.address, told), (1, "/queues/near", None), (2, None, None)):
        assert leader_of(peer.attach_sender(address, handle=handle).properties) == leader
    for handle, address, leader in ((3, apart.address, told), (4, "/queues/near", None)):
        assert leader_of(peer.attach_receiver(address, handle=handle).properties) == leader


def test_a_link_whose_leader_is_lost_is_told_so():
    apart = Apart()
    apart.peer.attach_sender(apart.address)
    apart.lose()
    (detach,) = apart.peer.take(Detach)
    assert leader_is_lost(detach.error)
