"""Definitions of three nodes over a simulated etcd: nodes that are cut off, start again, and contradict each other."""

from collections.abc import Callable
from random import Random

import pytest

from core.clock import Now
from core.cluster.definitions import StateReading, encoded
from core.cluster.definitions_engine import ChangesRead, DefinitionsEngine
from core.cluster.definitions_log import DefinitionsLog
from core.cluster.etcd_definitions import EtcdDefinitions
from core.cluster.following import Following
from core.cluster.keys import NUMBER, ClusterKeys
from core.config.settings import Settings
from core.engine.broker import OPERATOR, Broker
from core.engine.routing.agreement import AgreedChange, Agreement, ChangeKind
from core.engine.routing.shared_recorder import SharedRecorder
from core.engine.virtual_hosts import VirtualHosts
from core.errors import EngineError, Inequivalent, NotFound, PreconditionFailed, StillGoing
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definitions import PolicyDeclaration
from core.store.order_database import OrderDatabase
from tests.cluster.network import Network
from tests.cluster.simulated_etcd import SimulatedEtcd, StoredKeys
from tests.cluster.simulated_order import SimulatedOrder, order_in_memory
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage

KEYS = ClusterKeys("simulated")
NAMES = ("a", "b", "c", "d")
QUORUM = {"x-queue-type": "quorum"}
TICK_S = 0.02


class Node:
    """One life of one node."""

    def __init__(self, number: int, world: "World", kept: KeptDefinitions, *, first_time: bool) -> None:
        self.number, self.world, self.kept = number, world, kept
        self.etcd: SimulatedEtcd | SimulatedOrder
        if world.order is None:
            self.etcd, self.agreement = SimulatedEtcd(number, world.stored, world.network), Agreement()
            engine: DefinitionsEngine = EtcdDefinitions(self.etcd, KEYS)
        else:
            engine = self.etcd = SimulatedOrder(number, world.order, world.network)
            self.agreement = Agreement(shares=lambda declaration: True)
        storage = open_storage(MemoryDisk(), kept)
        storage.recorder = SharedRecorder(kept, kept, "/", self.agreement)
        self.broker = Broker(Settings(), storage=storage, new_identity=world.identity)
        self.problems: list[tuple[str, object]] = []
        hosts = VirtualHosts(self.broker)
        self.following = Following(hosts, self.agreement, lambda: world.network.now, self._say)
        self.log = DefinitionsLog(engine, self.following, self._say, first_time=first_time)
        self.agreement.submit = self.log.submit
        self.agreement.alone = False

    def _say(self, event: str, facts: object) -> None:
        if event == "definition-not-made":
            self.problems.append((event, facts))

    def move(self) -> None:
        if self.number not in self.world.network.cut_off:
            self.log.heard(self.world.latest)
        self.log.step()
        self.broker.turn(Now(self.world.network.now, self.world.network.now))

    def present(self) -> list[str]:
        assert self.broker.shared is not None
        return sorted(f"{change.kind} {change.name} {change.value}" for change in self.broker.shared.present())


class World:
    """Three nodes and their etcd, or the order that the first of them keeps."""

    def __init__(self, seed: int, *, first_time: bool = False, order: OrderDatabase | None = None) -> None:
        self.order = order
        self.rng = Random(seed)
        self.network = Network(self.rng)
        self.stored = StoredKeys()
        self._identities = 0
        self.nodes = [Node(number, self, KeptDefinitions(), first_time=first_time) for number in range(3)]
        self.asked: list[tuple[Node, object]] = []

    @property
    def latest(self) -> int:
        """How many changes there were."""
        if self.order is not None:
            return self.order.latest
        there = self.stored.keys.get(KEYS.topology_number)
        return NUMBER.unpack(there[0])[0] if there else 0

    def identity(self) -> str:
        self._identities += 1
        return f"{self._identities:032x}"

    def step(self) -> None:
        self.network.pass_time(TICK_S)
        for node in self.nodes:
            node.move()
        for node, call in list(self.asked):
            try:
                call()
            except StillGoing:
                continue
            except EngineError:
                pass  # the client is told; only what all nodes have counts
            self.asked.remove((node, call))

    def ask(self, node: Node, call) -> None:
        self.asked.append((node, call))

    def calm(self) -> None:
        self.network.loss, self.network.cut_off = 0.0, set()
        for _ in range(400):
            self.step()
        assert not self.asked
        assert not any(node.log.busy for node in self.nodes)

    def restart(self, number: int) -> None:
        old = self.nodes[number]
        old.etcd.over = True
        self.asked = [(node, call) for node, call in self.asked if node is not old]
        self.nodes[number] = Node(number, self, old.kept, first_time=False)


def declare(node: Node, name: str, kind: ExchangeType = ExchangeType.DIRECT):
    declaration = ExchangeDeclaration(name=name, type=kind, arguments={})

    def call() -> None:
        node.broker.declare_exchange(declaration)
        assert node.broker.exchange_info(name) == declaration, "its own node has made it"

    return call


def binding(source: str, destination: str, key: str, *, to_queue: bool = False) -> Binding:
    return Binding(source=source, destination=destination, destination_is_queue=to_queue, binding_key=key, arguments={})


def random_call(rng: Random, node: Node):
    broker, name, other = node.broker, rng.choice(NAMES), rng.choice(NAMES)
    match rng.randrange(9):
        case 0 | 1:
            return declare(node, name, rng.choice((ExchangeType.DIRECT, ExchangeType.FANOUT, ExchangeType.TOPIC)))
        case 2:
            return lambda: broker.delete_exchange(name)
        case 3 | 4:
            one = binding(name, f"q{other}", str(rng.randrange(3)), to_queue=True)
            return lambda: broker.bind(one, OPERATOR)
        case 5:
            one = binding(name, other, str(rng.randrange(3)))
            return lambda: broker.bind(one, OPERATOR)
        case 6:
            one = binding(name, f"q{other}", str(rng.randrange(3)), to_queue=True)
            return lambda: broker.unbind(one, OPERATOR)
        case 7:
            passing = node.world.order is not None and rng.random() < 0.5
            declaration = QueueDeclaration(name=f"q{name}", arguments={} if passing else QUORUM, durable=not passing)
            return lambda: broker.declare_queue(declaration, OPERATOR)
        case _:
            policy = PolicyDeclaration(name=name, pattern="^q", definition={"max-length": rng.randrange(1, 9)})
            return lambda: broker.policies.set(policy)


def settle(world: World) -> list[str]:
    world.calm()
    first = world.nodes[0].present()
    assert all(node.present() == first for node in world.nodes)
    assert not [problem for node in world.nodes for problem in node.problems]
    new = Node(0, world, KeptDefinitions(), first_time=False)
    world.nodes.append(new)
    world.calm()
    world.nodes.pop()
    assert new.present() == first, "one that reads the state has the same as those that have made the changes"
    return first


@pytest.mark.parametrize("seed", range(60))
def test_all_nodes_come_to_the_same_definitions(seed):
    come_to_the_same(World(seed))


@pytest.mark.parametrize("seed", range(60))
def test_all_processes_on_one_port_come_to_the_same_definitions(seed):
    order = order_in_memory()
    come_to_the_same(World(seed, order=order))
    order.close()


def come_to_the_same(world: World) -> None:
    rng = world.rng
    for _ in range(20):
        world.step()
    world.network.loss = rng.choice((0.0, 0.05, 0.2))
    for _ in range(rng.randrange(100, 300)):
        if rng.random() < 0.5 and len(world.asked) < 6:
            node = rng.choice(world.nodes)
            world.ask(node, random_call(rng, node))
        if rng.random() < 0.02:
            world.network.cut_off = {rng.randrange(3)} if rng.random() < 0.7 else set()
        if rng.random() < 0.01:
            world.restart(rng.randrange(3))
        world.step()
    settle(world)


@pytest.mark.parametrize("seed", range(20))
def test_of_contradicting_declarations_exactly_one_wins(seed):
    world = World(seed)
    for _ in range(20):
        world.step()
    kinds = (ExchangeType.DIRECT, ExchangeType.FANOUT, ExchangeType.TOPIC)
    outcomes: list[object] = []

    def told(node: Node, kind: ExchangeType) -> None:
        call = declare(node, "x", kind)

        def tell() -> None:
            try:
                call()
            except Inequivalent as error:
                outcomes.append(error)
            except PreconditionFailed:
                world.ask(node, tell)  # etcd has not answered in time: the client tries again
            else:
                outcomes.append(kind)

        world.ask(node, tell)

    for node, kind in zip(world.nodes, kinds, strict=True):
        told(node, kind)
    world.calm()
    won = [one for one in outcomes if isinstance(one, ExchangeType)]
    assert len(outcomes) == 3
    assert len(won) == 1
    assert all(node.broker.exchange_info("x").type is won[0] for node in world.nodes)


def test_a_node_without_etcd_refuses_a_declaration_and_says_why():
    world = World(1)
    for _ in range(20):
        world.step()
    node = world.nodes[0]
    world.network.cut_off = {0}
    errors: list[Exception] = []

    def tell() -> None:
        try:
            node.broker.declare_exchange(ExchangeDeclaration(name="x", type=ExchangeType.DIRECT, arguments={}))
        except PreconditionFailed as error:
            errors.append(error)

    world.ask(node, tell)
    for _ in range(100):
        world.step()
    (error,) = errors
    assert "exchange 'x': the nodes cannot agree on it, because etcd does not answer (no answer in time)" in str(error)
    node.broker.declare_queue(QueueDeclaration(name="classic", arguments={}), OPERATOR)
    with pytest.raises(NotFound):
        node.broker.exchange_info("x")


def test_what_only_one_node_had_before_the_cluster_is_offered_to_the_others_and_not_deleted():
    world = World(2, first_time=True)
    kept = KeptDefinitions()
    kept.add_exchange(ExchangeDeclaration(name="old", type=ExchangeType.TOPIC, arguments={}))
    world.nodes[1].etcd.over = True
    world.nodes[1] = Node(1, world, kept, first_time=True)
    for _ in range(50):
        world.step()
    world.ask(world.nodes[0], declare(world.nodes[0], "new"))
    present = settle(world)
    assert [text.split()[1] for text in present] == ["new", "old"]


def test_a_node_that_begins_a_cluster_offers_its_queues_until_etcd_has_answered():
    world = World(6, first_time=True)
    kept = KeptDefinitions()
    for number in range(10):
        kept.add_queue(QueueDeclaration(name=f"q{number}", durable=True, arguments=QUORUM), f"{number + 99:032x}")
    world.nodes[1].etcd.over = True
    world.nodes[1] = Node(1, world, kept, first_time=True)
    world.nodes[1].following.offers_queues = True
    world.network.loss = 0.3
    while not world.nodes[1].log.settled:
        world.step()
    there = [key for key in world.stored.keys if key.startswith(KEYS.queues)]
    assert len(there) == 10, "all are there when nothing is left to be offered"
    present = settle(world)
    assert [text.split()[1] for text in present] == [f"q{number}" for number in range(10)]


def test_many_changes_are_made_in_pieces():
    world = World(3)
    for _ in range(20):
        world.step()
    for number in range(300):
        change = declare(world.nodes[0], f"x{number}")

        def until_made(change=change) -> None:
            try:
                change()
            except PreconditionFailed:
                world.ask(world.nodes[0], lambda: until_made(change))

        world.ask(world.nodes[0], until_made)
        for _ in range(5):
            world.step()
    assert len(settle(world)) == 300


def test_an_engine_that_has_lost_everything_deletes_nothing_at_the_nodes():
    world = World(4)
    for _ in range(20):
        world.step()
    world.ask(world.nodes[0], declare(world.nodes[0], "x"))
    assert len(settle(world)) == 1
    world.stored = StoredKeys()
    for number in range(3):
        world.restart(number)
    assert len(settle(world)) == 1


class AskedEngine:
    """An engine whose requests to read wait for the test."""

    name = advice = trouble = ""
    everywhere = 0

    def __init__(self) -> None:
        self.reads: list[tuple[int, Callable[[ChangesRead], None]]] = []

    def tell_made(self, number: int) -> None:
        """Nothing waits for it."""

    def put(self, *asked: object) -> None:
        raise AssertionError("no change is put")

    def read(self, known: int, answered: Callable[[ChangesRead], None], unanswered: object) -> None:
        self.reads.append((known, answered))

    def read_state(self, answered: Callable[[int, StateReading], None], unanswered: object) -> None:
        answered(0, StateReading(KEYS))


def test_what_another_node_has_is_read_at_once_and_behind_a_read_that_may_miss_it():
    node, engine = World(5).nodes[0], AskedEngine()
    following = Following(VirtualHosts(node.broker), node.agreement, lambda: 0.0, lambda event, facts: None)
    log = DefinitionsLog(engine, following, lambda event, facts: None, first_time=False)
    log.read_upto(1)
    assert not engine.reads, "the state has not been read, and is not read for another node"
    log.heard(0)
    log.step()
    assert log.made == 0
    changes = [
        (number, encoded(AgreedChange(ChangeKind.EXCHANGE, "/", name, exchange(name))))
        for number, name in enumerate(("one", "two"), 1)
    ]
    log.read_upto(1)
    log.read_upto(2)
    ((known, answered),) = engine.reads
    assert known == 0
    answered(ChangesRead(1, changes[:1]))
    log.step()
    assert log.made == 1
    known, answered = engine.reads[1]
    assert known == 1
    answered(ChangesRead(2, changes[1:]))
    log.step()
    assert log.made == 2
    log.read_upto(2)
    log.read_upto(1)
    assert len(engine.reads) == 2


def exchange(name: str) -> ExchangeDeclaration:
    return ExchangeDeclaration(name=name, type=ExchangeType.DIRECT, arguments={})
