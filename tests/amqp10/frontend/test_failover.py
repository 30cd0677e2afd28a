"""Which other nodes the open of a node tells to whom."""

from dataclasses import replace
from functools import partial

import pytest

from amqp10.frontend.failover import other_nodes_property
from amqp10.frontend.far_clients import NODE_KEY
from amqp10.protocol.failover_servers import FailoverServer, failover_servers
from amqp10.wire.performatives import Open
from core.access.login import LoginPeer
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
