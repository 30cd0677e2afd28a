"""Durable classic queues of a cluster over a simulated etcd: where they live, and that no messages of one are given up
for another of its name."""

from core.cluster.definitions import decoded, encoded
from core.cluster.forgotten import ForgottenHomes
from core.engine.broker import OPERATOR
from core.engine.quorum.group_numbers import home_in, size_in, with_home, without_home
from core.engine.quorum.groups import SharedQueue
from core.engine.routing.agreement import AgreedChange, ChangeKind
from core.engine.virtual_hosts import VirtualHosts
from core.errors import PreconditionFailed
from core.interface import QueueDeclaration
from tests.cluster.test_definitions_log import Node, World, binding, declare, settle
from tests.kit.storage import KeptDefinitions

CLASSIC = QueueDeclaration(name="q", arguments={})


def world_at_rest(*, first_time: bool = False) -> World:
    world = World(7, first_time=first_time)
    for _ in range(20):
        world.step()
    return world


def declared(world: World, node: Node) -> None:
    world.ask(node, lambda: node.broker.declare_queue(CLASSIC, OPERATOR))
    world.calm()


def homes(world: World) -> list[str | None]:
    """Where each node forwards to for the queue; None for the node that has it."""
    return [node.broker.queue_info("q", OPERATOR).home for node in world.nodes]


def with_own(world: World, number: int) -> None:
    """Start a node anew that has a classic queue which no other node knows, and a binding to it."""
    kept = KeptDefinitions()
    kept.add_queue(CLASSIC, f"{number:031x}f")
    kept.add_binding(binding("amq.topic", "q", f"own{number}", to_queue=True))
    world.nodes[number].etcd.over = True
    world.nodes[number] = Node(number, world, kept, first_time=False)


def keys_at(node: Node) -> list[str]:
    return sorted(one.binding_key for one in node.broker.shown.topology.all_bindings())


def test_an_identity_names_its_home_and_earlier_versions_do_not_know_the_definition():
    assert home_in(with_home("0a-3", "n-1")) == "n-1"
    assert size_in(with_home("0a", "n-3")) == 0
    assert without_home(with_home("0a", "n")) == without_home("0a") == "0a"
    assert home_in("0a-3") == ""
    change = AgreedChange(ChangeKind.QUEUE, "/", "q", SharedQueue("/", CLASSIC, with_home(f"{1:032x}", "n")))
    assert decoded(encoded(change)) == change


def test_a_classic_queue_lives_where_it_was_declared_and_survives_starts_without_etcd():
    world = world_at_rest()
    declared(world, world.nodes[1])
    assert homes(world) == ["n1", None, "n1"]
    world.ask(
        world.nodes[2], lambda: world.nodes[2].broker.bind(binding("amq.topic", "q", "k", to_queue=True), OPERATOR)
    )
    settle(world)
    assert [keys_at(node) for node in world.nodes] == [["k"]] * 3
    world.network.cut_off = {0, 1, 2}
    for number in range(3):
        world.restart(number)
    assert homes(world) == ["n1", None, "n1"], "the identity says it, before anything was read"
    settle(world)
    assert homes(world) == ["n1", None, "n1"]


def test_a_node_that_has_lost_its_data_makes_the_queue_anew_and_says_so():
    world = world_at_rest()
    declared(world, world.nodes[1])
    assert "classic-queue-made-anew" not in world.nodes[1].told
    world.nodes[1].etcd.over = True
    world.nodes[1] = Node(1, world, KeptDefinitions(), first_time=True)
    settle(world)
    assert homes(world) == ["n1", None, "n1"]
    assert world.nodes[1].told.count("classic-queue-made-anew") == 1


def test_a_queue_of_an_earlier_version_is_offered_with_its_bindings():
    world = world_at_rest()
    with_own(world, 2)
    settle(world)
    assert homes(world) == ["n2", "n2", None]
    assert [keys_at(node) for node in world.nodes] == [["own2"]] * 3
    world.restart(2)
    settle(world)
    assert homes(world) == ["n2", "n2", None]
    world.ask(world.nodes[2], lambda: world.nodes[2].broker.delete_queue("q", OPERATOR))
    assert settle(world) == []
    world.restart(2)
    assert settle(world) == []


def test_of_two_queues_of_a_name_one_is_the_clusters_and_the_other_keeps_its_messages():
    world = world_at_rest()
    with_own(world, 0)
    world.calm()
    with_own(world, 2)
    world.calm()
    assert homes(world) == [None, "n0", None]
    own = world.nodes[2].broker.shown.topology.queues["q"]
    assert home_in(own.identity) == ""
    assert world.nodes[2].told.count("queue-of-one-node") == 1
    assert [keys_at(node) for node in world.nodes] == [["own0"], ["own0"], ["own2"]]

    world.ask(world.nodes[0], lambda: world.nodes[0].broker.delete_queue("q", OPERATOR))
    world.calm()
    assert "q" not in world.nodes[1].broker.shown.topology.queues
    assert world.nodes[2].broker.shown.topology.queues["q"] is own, "it is not the one that was deleted"
    world.restart(2)
    settle(world)
    assert homes(world) == ["n2", "n2", None], "now it can be the cluster's"


def test_two_nodes_that_offer_at_once_give_up_no_queue():
    for seed in range(20):
        world = World(seed)
        world.network.loss = 0.1
        for number in (0, 1, 2):
            with_own(world, number)
        world.calm()
        assert homes(world) == [None, None, None], "each has its own messages"
        known = [home_in(node.broker.shown.topology.queues["q"].identity) for node in world.nodes]
        assert sorted(map(bool, known)) == [False, False, True]


def test_where_an_own_queue_was_deleted_the_clusters_is_made_at_the_next_start():
    world = world_at_rest()
    with_own(world, 0)
    world.calm()
    with_own(world, 2)
    world.calm()
    world.nodes[2].broker.delete_queue("q", OPERATOR)
    refused: list[str] = []

    def again() -> None:
        try:
            world.nodes[2].broker.declare_queue(CLASSIC, OPERATOR)
        except PreconditionFailed as error:
            refused.append(str(error))

    again()
    assert refused == ["queue 'q': the cluster has one on node n0, which this node makes when it is started again"]
    world.restart(2)
    settle(world)
    assert homes(world) == [None, "n0", "n0"]


def test_the_queues_of_a_node_that_is_no_member_any_more_are_removed_with_their_bindings():
    world = world_at_rest()
    world.ask(world.nodes[0], declare(world.nodes[0], "x"))
    declared(world, world.nodes[2])
    world.ask(world.nodes[0], lambda: world.nodes[0].broker.bind(binding("x", "q", "k", to_queue=True), OPERATOR))
    world.calm()
    told: list[tuple[str, object]] = []
    looks = [
        ForgottenHomes(VirtualHosts(node.broker), node.log, lambda event, facts: told.append((event, facts)))
        for node in world.nodes[:2]
    ]
    assert list(looks[0].homes()) == ["n2"]
    for _ in range(100):
        for look in looks:
            look.step(["n0", "n1"])
        world.step()
    assert not any(look.due for look in looks)
    assert [one.split()[1] for one in settle(world)] == ["x"]
    assert told[0] == ("queues-of-lost-nodes-removed", {"vhost": "/", "nodes": ["n2"], "queues": 1})
