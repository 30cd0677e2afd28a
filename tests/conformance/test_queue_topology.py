"""Which nodes the management node names for a queue, at each of two nodes of a cluster of three."""

from dataclasses import replace

import pytest

from amqp10.management.node import NO_LEADER, NODE_NAME
from amqp10.wire.codec import format_codes as code
from amqp10.wire.types import Array
from core.cluster.beats import AWAY_S, LOOK_S, Beat, node_number
from core.cluster.homes import QueueHomes
from core.cluster.member_list import MemberList
from core.engine.quorum.group_numbers import with_home
from core.engine.quorum.shared_log import Owner
from core.interface import QueueDeclaration
from tests.core.cluster.test_member_rows import Place
from tests.kit.apart import Apart
from tests.kit.cases import case
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.link_pair import LinkPair
from tests.kit.storage import KeptDefinitions, open_storage
from tests.kit.wire import InProcessBroker, WirePeer

NODES = ("a", "b", "c")
IN_CLUSTER = {"leader": "b", "replicas": list(NODES)}


class Member:
    """A node's part in the cluster, over an etcd that answers nothing: the test says what the node has seen."""

    def __init__(self, broker: InProcessBroker, node: str) -> None:
        self.place = Place(node, MemberList.first(NODES, [], []))
        self.member, self.count = self.place.member, 0
        self.homes = QueueHomes(
            broker.engine.machinery.homes,
            broker.control.hosts,
            self.place.groups,
            self.member,
            lambda name, address: None,
            lambda name: None,
        )

    def sees(self, leader: str, *, here: bool = True) -> None:
        """A node leads all groups; ``here``: its beats come."""
        for group in self.place.groups.all:
            self.member.owners[group] = Owner(1, node_number(leader))
        until = self.place.now + AWAY_S
        while self.place.now <= until:
            self.place.now += LOOK_S
            self.count += here
            self.member.beats.looked({name: Beat(self.count, "life") for name in NODES}, self.place.now)


class Topology:
    """Two nodes, each in the cluster, and what clients of both are told."""

    def __init__(self, kind: str = "quorum") -> None:
        self.apart = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()), x_queue_type=kind)
        declaration = QueueDeclaration(name="far", arguments={"x-queue-type": kind})
        self.apart.entry.engine.declare_queue(declaration, self.apart)
        self.members = [Member(self.apart.entry, "a"), Member(self.apart.home, "b")]
        self.pairs = [LinkPair(peer, handle=30).attach() for peer in (self.apart.client(), self._client_at_home())]

    def _client_at_home(self) -> WirePeer:
        peer = self.apart.home.connect()
        peer.begin()
        return peer

    def sees(self, leader: str, *, here: bool = True) -> None:
        """Both nodes see this leader of all groups."""
        for member in self.members:
            member.sees(leader, here=here)

    def told(self) -> list[dict[str, object]]:
        """The nodes that a client is told of, at each node."""
        return [nodes_in(pair.ask("GET", "/queues/far").body) for pair in self.pairs]


def nodes_in(body: object) -> dict[str, object]:
    assert isinstance(body, dict)
    return {key: body[key] for key in ("leader", "replicas")}


@case("management_SUITE", "queue_topology")
@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_each_node_names_the_leader_and_the_nodes_that_keep_the_queue(kind: str):
    """queue_topology (management_SUITE)"""
    topology = Topology(kind)
    topology.sees("b")
    assert topology.told() == [IN_CLUSTER] * 2
    topology.sees("a")
    assert topology.told() == [IN_CLUSTER | {"leader": "a"}] * 2


def test_a_queue_that_no_node_leads_has_the_empty_text_as_its_leader():
    """RabbitMQ's clients for Python and Go fail where the field is left out."""
    topology = Topology()
    topology.sees("c", here=False)
    assert topology.told() == [{"leader": NO_LEADER, "replicas": list(NODES)}] * 2


def test_only_the_nodes_that_keep_the_group_are_named():
    topology = Topology()
    topology.sees("b")
    for member in topology.members:
        member.member.beats.follow(NODES, of_groups=dict.fromkeys(member.place.groups.all, ("b", "c")))
    assert topology.told() == [{"leader": "b", "replicas": ["b", "c"]}] * 2


def test_a_declare_is_answered_with_the_nodes_too():
    topology = Topology()
    topology.sees("b")
    answer = topology.pairs[0].ask("PUT", "/queues/new", {"arguments": {"x-queue-type": "quorum"}})
    assert answer.status == 201
    assert nodes_in(answer.body) == IN_CLUSTER
    assert isinstance(answer.value, dict)
    assert answer.value["replicas"] == Array(code.STRING_8, NODES)


def test_a_classic_queue_is_on_the_node_that_its_identity_names_or_on_this_one():
    topology = Topology("classic")
    nodes_of = topology.apart.entry.engine.machinery.homes.nodes_of
    assert nodes_of is not None
    info = topology.apart.entry.engine.queue_info("near", topology)

    def placed(identity: str) -> object:
        return nodes_of(replace(info, identity=identity))

    assert placed(with_home("0a", "c")) == ("c", ("c",))
    assert placed("0a") == ("a", ("a",))
    assert nodes_in(topology.pairs[0].ask("GET", "/queues/near").body) == {"leader": "a", "replicas": ["a"]}


def test_a_broker_alone_and_nodes_of_fixed_places_keep_the_broker_s_name():
    apart = Apart()
    for name in ("near", "far"):
        answer = LinkPair(apart.client(), handle=30).attach().ask("GET", f"/queues/{name}")
        assert nodes_in(answer.body) == {"leader": NODE_NAME, "replicas": [NODE_NAME]}
