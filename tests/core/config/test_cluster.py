"""The section of a cluster: none without a node, and complete with one."""

import pytest

from core.config import ConfigError, load

COMPLETE = {"cluster.node": "a", "cluster.members": ["a", "b", "c"], "cluster.etcd": ["h:1"]}


def test_there_is_no_cluster_by_default():
    assert load().cluster.node == ""


def test_a_complete_section_is_taken():
    cluster = load(overrides=COMPLETE).cluster
    assert (cluster.node, cluster.members, cluster.groups) == ("a", ("a", "b", "c"), 16)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster.node": "d"}, "among its members"),
        ({"cluster.members": ["a", "b", "b"]}, "'b' twice"),
        ({"cluster.etcd": []}, "the addresses of etcd"),
        ({"cluster.etcd_key": "key.pem"}, "both of etcd_certificate and etcd_key"),
        ({"cluster.groups": 0}, "cluster.groups"),
        ({"cluster.groups": 65}, "cluster.groups"),
        ({"cluster.name": "a/b"}, "cluster.name"),
        ({"cluster.node": "ä"}, "cluster.node"),
    ],
)
def test_an_incomplete_one_is_refused(change, why):
    with pytest.raises(ConfigError, match=why):
        load(overrides={**COMPLETE, **change})


OWN = {
    **COMPLETE,
    "cluster.etcd": ["10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"],
    "cluster.etcd_peers": ["10.0.0.1:2380", "10.0.0.2:2380", "10.0.0.3:2380"],
}


def test_an_etcd_of_the_broker_s_own_is_taken():
    assert load(overrides=OWN).cluster.etcd_peers[1] == "10.0.0.2:2380"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster.etcd_peers": ["10.0.0.1:2380"]}, "one address in etcd_peers, and one in etcd, for each of members"),
        ({"cluster.etcd": ["10.0.0.1:2379"]}, "for each of members"),
        ({"cluster.etcd": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]}, "HOST:PORT"),
        ({"cluster.etcd_ca": "ca.pem"}, "etcd_certificate and etcd_key beside etcd_ca"),
        ({"cluster.node": "d", "cluster.members": [], "cluster.etcd": []}, "among its members"),
    ],
)
def test_an_incomplete_one_of_the_broker_s_own_is_refused(change, why):
    with pytest.raises(ConfigError, match=why):
        load(overrides={**OWN, **change})


NODES = {"cluster.node": "a", "cluster.nodes": [{"name": "b", "address": "10.0.0.2:5670", "queues": ["far"]}]}
FILES = {"cluster.certificate": "a.pem", "cluster.key": "a.key", "cluster.ca": "ca.pem"}


def test_nodes_on_other_machines_need_certificates():
    with pytest.raises(ConfigError, match="certificate, key and ca; or trust_loopback"):
        load(overrides=NODES)
    with pytest.raises(ConfigError, match="certificate, key and ca; or trust_loopback"):
        load(overrides={**NODES, "cluster.trust_loopback": True})
    assert load(overrides={**NODES, **FILES}).cluster.home_of("/", "far") == "b"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"cluster.node": "a", "cluster.certificate": "a.pem"}, "all of certificate, key and ca"),
        ({"cluster.node": "a", "cluster.listen": ["127.0.0.1:1"]}, "with listen must have certificate, key and ca"),
        (FILES, "the name of this node"),
        ({**NODES, **FILES, "cluster.listen": ["nowhere"]}, "cluster.listen"),
    ],
)
def test_certificates_of_nodes_are_complete(settings, why):
    with pytest.raises(ConfigError, match=why):
        load(overrides=settings)


ONE_PORT = {
    "cluster.node": "2",
    "cluster.first_node": "1",
    "cluster.order": "unix:/data/1/order.socket",
    "cluster.listen": ["unix:/data/2/node.socket"],
    "cluster.nodes": [{"name": "1", "address": "unix:/data/1/node.socket"}],
}


def test_processes_on_one_port_need_no_certificates():
    cluster = load(overrides=ONE_PORT).cluster
    assert (cluster.names, cluster.socket, cluster.shares) == (("1", "2"), "/data/2/node.socket", True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster.node": "3", "cluster.first_node": "2"}, "its first_node '2' among the nodes"),
        ({"cluster.order": ""}, "first_node must have node, order and a socket"),
        ({"cluster.order": "127.0.0.1:5672"}, "unix: and a path"),
        ({"cluster.node": "b"}, "names are numbers"),
        ({"cluster.members": ["1", "2"], "cluster.etcd": ["h:1"]}, "first_node beside members"),
        ({"cluster.listen": ["unix:node.socket"]}, "a path that begins with /"),
        ({"cluster.listen": ["127.0.0.1:5672"]}, "listen must have certificate"),
        ({"cluster.listen": []}, "a socket in listen"),
        ({"cluster.nodes": [{"name": "1", "address": "127.0.0.1:5672"}]}, "certificate, key and ca; or trust_loopback"),
    ],
)
def test_settings_of_processes_on_one_port_that_cannot_be_used(change, why):
    with pytest.raises(ConfigError, match=why):
        load(overrides={**ONE_PORT, **change})


@pytest.mark.parametrize(
    ("change", "addresses"),
    [({}, ("127.0.0.1:5673",)), ({"cluster.nodes": [{"name": "b", "address": "unix:/run/b"}]}, ())],
)
def test_in_a_trial_clients_connect_where_nodes_do(change, addresses):
    trial = {
        "cluster.node": "a",
        "cluster.trust_loopback": True,
        "cluster.nodes": [{"name": "b", "address": "127.0.0.1:5673"}],
    }
    cluster = load(overrides=trial | change).cluster
    assert cluster.clients_of("b", False) == addresses
    assert cluster.clients_of("c", False) == cluster.clients_of("b", True) == ()
    closed = cluster.model_copy(update={"trust_loopback": False})
    assert closed.clients_of("b", False) == ()
