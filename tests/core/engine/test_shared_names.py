"""What of one virtual host all nodes of a cluster have, at one node: the order of changes is a list of the test."""

from random import Random

import pytest

from core.clock import Now
from core.config.settings import Settings
from core.declaring import Recording
from core.engine.broker import OPERATOR, Broker
from core.engine.quorum.group_numbers import number_in_log, size_in
from core.engine.quorum.groups import SharedQueue
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, Agreement, Answered, ChangeKind, ChangeVerdict
from core.engine.routing.shared_names import is_shared, once_followed
from core.engine.routing.shared_recorder import SharedRecorder
from core.errors import Inequivalent, NotFound, PreconditionFailed, StillGoing
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.order_position import OrderPosition
from core.store.definitions import PolicyDeclaration
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage

QUORUM = {"x-queue-type": "quorum"}


class Node:
    """A broker, and what it has asked for."""

    def __init__(self, copies: int = 1) -> None:
        self.kept = KeptDefinitions()
        self.agreement = Agreement(copies)
        storage = open_storage(MemoryDisk(), self.kept)
        storage.recorder = SharedRecorder(self.kept, self.kept, "/", self.agreement)
        identities = Random(1)
        self.broker = Broker(Settings(), storage=storage, new_identity=lambda: f"{identities.getrandbits(128):032x}")
        assert self.broker.shared is not None
        self.names = self.broker.shared
        self.asked: list[tuple[AgreedChange, Answered]] = []
        self.agreement.submit = lambda change, answered: self.asked.append((change, answered))
        self.agreement.alone = False

    def make(self, change: AgreedChange) -> None:
        with self.agreement.making():
            self.names.follow(change)

    def agree(self) -> AgreedChange:
        """Make what was asked for first."""
        change, answered = self.asked.pop(0)
        self.make(change)
        answered(ChangeVerdict.MADE, "")
        return change

    def answer(self, verdict: ChangeVerdict, why: str = "") -> None:
        self.asked.pop(0)[1](verdict, why)

    def begin(self, name: str, **arguments: object):
        return self.broker.begin_declaring(QueueDeclaration(name=name, arguments={**QUORUM, **arguments}), OPERATOR)


def shared(name: str, identity: str = "ab" * 16, **arguments: object) -> AgreedChange:
    queue = SharedQueue("/", QueueDeclaration(name=name, arguments={**QUORUM, **arguments}), identity)
    return AgreedChange(ChangeKind.QUEUE, "/", name, queue)


def exchange(name: str, kind: ExchangeType = ExchangeType.DIRECT, *, auto_delete: bool = False) -> ExchangeDeclaration:
    return ExchangeDeclaration(name=name, type=kind, auto_delete=auto_delete, arguments={})


def bound(source: str, destination: str, *, to_queue: bool = True) -> Binding:
    return Binding(source=source, destination=destination, destination_is_queue=to_queue, binding_key="k", arguments={})


def test_a_queue_is_there_when_the_nodes_have_agreed():
    node = Node()
    recording = node.begin("q")
    assert not recording.done
    with pytest.raises(NotFound):
        node.broker.queue_info("q", OPERATOR)
    node.agree()
    info, made = recording.result()
    assert made
    assert info.identity == node.broker.queue_info("q", OPERATOR).identity


def test_a_queue_that_another_node_has_declared_meanwhile_is_the_same():
    node = Node()
    recording = node.begin("q")
    node.make(shared("q"))
    node.answer(ChangeVerdict.STALE)
    info, made = recording.result()
    assert (info.identity, made) == ("ab" * 16, False)


def test_a_queue_with_other_arguments_is_refused():
    node = Node()
    recording = node.begin("q", **{"x-max-length": 5})
    node.make(shared("q"))
    node.answer(ChangeVerdict.STALE)
    with pytest.raises(PreconditionFailed, match="x-max-length is not set, the declaration asks for 5"):
        recording.result()


def test_without_the_engine_the_client_is_told_why():
    node = Node()
    recording = node.begin("q")
    node.answer(ChangeVerdict.REFUSED, "etcd does not answer")
    with pytest.raises(PreconditionFailed, match="queue 'q': etcd does not answer"):
        recording.result()


def test_classic_queues_and_their_bindings_are_of_one_node():
    node = Node()
    node.broker.declare_queue(QueueDeclaration(name="c", arguments={}), OPERATOR)
    node.broker.bind(bound("amq.direct", "c"), OPERATOR)
    assert node.asked == []
    assert list(node.names.present()) == []


def test_a_deletion_waits_for_the_cluster_and_takes_the_bindings_along():
    node = Node()
    node.make(shared("q"))
    node.make(AgreedChange(ChangeKind.BINDING, "/", "b", bound("amq.direct", "q")))
    recording = node.broker.begin_deleting("q", OPERATOR)
    assert node.broker.queue_info("q", OPERATOR)
    node.agree()
    assert recording.result() == 0
    assert list(node.names.present()) == []
    assert node.kept.load().bindings == []


def test_a_queue_that_was_declared_anew_replaces_the_old_one():
    node = Node()
    node.make(shared("q"))
    node.make(shared("q", "ef" * 16))
    assert node.broker.queue_info("q", OPERATOR).identity == "ef" * 16


def test_a_verb_is_called_again_until_the_nodes_have_agreed_and_says_once_that_it_has_made_something():
    node = Node()
    for _ in range(3):
        with pytest.raises(StillGoing):
            node.broker.declare_exchange(exchange("x"))
    assert len(node.asked) == 1
    node.agree()
    assert node.broker.declare_exchange(exchange("x"))
    assert not node.broker.declare_exchange(exchange("x"))
    with pytest.raises(Inequivalent):
        node.broker.declare_exchange(exchange("x", ExchangeType.TOPIC))


def test_who_waits_is_told_when_it_is_time():
    node = Node()
    calls: list[str] = []
    with pytest.raises(StillGoing) as going:
        node.broker.declare_exchange(exchange("x"))
    assert going.value.when_over is not None
    going.value.when_over(lambda: calls.append("now"))
    node.answer(ChangeVerdict.STALE)
    assert calls == ["now"]
    with pytest.raises(StillGoing):
        node.broker.declare_exchange(exchange("x"))
    node.answer(ChangeVerdict.REFUSED, "no quorum")
    with pytest.raises(PreconditionFailed, match="exchange 'x': no quorum"):
        node.broker.declare_exchange(exchange("x"))


def test_exchanges_bindings_and_policies_go_through_the_order():
    node = Node()
    broker, one = node.broker, bound("x", "q")
    policy = PolicyDeclaration(name="p", pattern="^q", definition={"max-length": 3})
    node.make(shared("q"))
    for verb in (
        lambda: broker.declare_exchange(exchange("x")),
        lambda: broker.bind(one, OPERATOR),
        lambda: broker.policies.set(policy),
    ):
        with pytest.raises(StillGoing):
            verb()
        node.agree()
        verb()
    assert [change.kind for change in node.names.present()] == [
        ChangeKind.EXCHANGE, ChangeKind.QUEUE, ChangeKind.BINDING, ChangeKind.POLICY,
    ]  # fmt: skip
    for verb in (lambda: broker.unbind(one, OPERATOR), lambda: broker.delete_exchange("x")):
        with pytest.raises(StillGoing):
            verb()
        node.agree()
        verb()
    with pytest.raises(StillGoing):
        broker.policies.clear("p")
    node.agree()
    assert [change.kind for change in node.names.present()] == [ChangeKind.QUEUE]


def test_an_auto_delete_exchange_goes_everywhere_with_its_last_binding():
    node = Node()
    node.make(shared("q"))
    node.make(AgreedChange(ChangeKind.EXCHANGE, "/", "x", exchange("x", auto_delete=True)))
    node.make(AgreedChange(ChangeKind.BINDING, "/", "b", bound("x", "q")))
    with pytest.raises(StillGoing):
        node.broker.unbind(bound("x", "q"), OPERATOR)
    assert node.agree().value == AgreedRemoval(exchanges=("x",), bindings=(bound("x", "q"),))
    with pytest.raises(NotFound):
        node.broker.exchange_info("x")


def test_an_auto_delete_exchange_that_ends_with_a_queue_of_this_node_is_owed_to_the_others():
    node = Node()
    node.make(AgreedChange(ChangeKind.EXCHANGE, "/", "x", exchange("x", auto_delete=True)))
    node.broker.declare_queue(QueueDeclaration(name="c", arguments={}), OPERATOR)
    node.broker.bind(bound("x", "c"), OPERATOR)
    node.broker.delete_queue("c", OPERATOR)
    node.broker.turn(Now(0.0, 0.0))
    assert [change.value for change in node.agreement.owed] == [AgreedRemoval(exchanges=("x",))]


def test_an_exchange_that_is_another_one_elsewhere_is_replaced():
    node = Node()
    node.make(AgreedChange(ChangeKind.EXCHANGE, "/", "x", exchange("x")))
    node.make(AgreedChange(ChangeKind.EXCHANGE, "/", "x", exchange("x", ExchangeType.TOPIC)))
    assert node.broker.exchange_info("x").type is ExchangeType.TOPIC


def test_the_number_of_a_queue_is_taken_from_its_identity():
    assert number_in_log("0" * 14 + "f" * 18) == 15
    assert number_in_log("f" * 32) < 2**60


def test_a_stream_is_shared_but_for_the_one_with_the_flow_events_of_a_node():
    node = Node(copies=3)
    recording = node.begin("s", **{"x-queue-type": "stream"})
    assert not recording.done
    node.agree()
    assert recording.result()[1]
    assert node.broker.queue_info("s", OPERATOR).type == "stream"
    own = QueueDeclaration(name="$flow", arguments={"x-queue-type": "stream"})
    assert not is_shared(own)
    assert is_shared(QueueDeclaration(name="$flow", arguments=QUORUM))


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("quorum", "x-quorum-initial-group-size"),
        ("quorum", "x-quorum-target-group-size"),
        ("stream", "x-initial-cluster-size"),
        ("stream", "x-initial-group-size"),
    ],
)
@pytest.mark.parametrize(
    ("nodes", "sizes", "asked", "size"),
    [
        (3, (), 1, 0),
        (3, (), 3, 0),
        (3, (), 5, 0),  # more than there are is as many as there are
        (5, (3,), 1, 3),  # never fewer than are asked for
        (5, (3,), 3, 3),
        (5, (3,), 4, 0),
        (7, (3, 5), 3, 3),
        (7, (5, 3), 4, 5),
        (7, (3, 5), 6, 0),
        (7, (3, 5), 1000, 0),
    ],
)
def test_a_queue_gets_into_a_group_of_at_least_the_size_it_asks_for(kind, argument, nodes, sizes, asked, size):
    node = Node(copies=nodes)
    node.agreement.group_sizes = sizes
    node.begin("q", **{"x-queue-type": kind, argument: asked})
    assert size_in(node.asked[0][0].value.identity) == size


@pytest.mark.parametrize("size", [0, -1, "3", True])
def test_a_size_that_is_no_positive_number_is_refused(size):
    node = Node(copies=5)
    with pytest.raises(PreconditionFailed, match=r"x-quorum-initial-group-size is .*must be an integer, 1 or more"):
        node.begin("q", **{"x-quorum-initial-group-size": size})


def test_a_policy_says_the_size_of_a_quorum_queue_unless_an_argument_does():
    node = Node(copies=7)
    node.agreement.group_sizes = (3, 5)
    definition = {"target-group-size": 3}
    policy = PolicyDeclaration(name="p", pattern=".", definition=definition)
    node.make(AgreedChange(ChangeKind.POLICY, "/", "p", policy))
    node.begin("q")
    node.begin("larger", **{"x-quorum-initial-group-size": 5})
    node.begin("s", **{"x-queue-type": "stream"})
    assert [size_in(change.value.identity) for change, _ in node.asked] == [3, 5, 0]
    node.agree()
    assert node.broker.explain_policies("q")["keys"] == [
        {"key": "target-group-size", "value": 3, "effect": "acts", "why": "3 of the 7 nodes of the cluster keep a copy"}
    ]
    node.agree()
    told = node.broker.explain_policies("larger")["keys"][0]
    assert told["effect"] == "no effect"
    assert told["why"].startswith("5 of the 7 nodes of the cluster keep a copy, as when the queue was declared")


def test_a_queue_asks_for_a_leader_and_a_size():
    node = Node(copies=5)
    node.agreement.group_sizes = (3,)
    wanted = {"x-queue-leader-locator": "client-local", "x-quorum-initial-group-size": 3}
    node.agreement.leads_here = lambda identity: identity.endswith("-3") and number_in_log(identity) % 7 == 3
    node.begin("q", **wanted)
    assert number_in_log(node.asked[0][0].value.identity) % 7 == 3
    node.agreement.leads_here = lambda identity: not identity.endswith("-3")
    with pytest.raises(PreconditionFailed, match="this node leads no group of 3 members now"):
        node.begin("r", **wanted)


def test_a_queue_gets_into_a_group_that_this_node_leads_if_it_asks_for_that():
    node = Node()
    node.agreement.leads_here = lambda identity: number_in_log(identity) % 7 == 3
    node.begin("q", **{"x-queue-leader-locator": "client-local"})
    queue = node.asked[0][0].value
    assert isinstance(queue, SharedQueue)
    assert number_in_log(queue.identity) % 7 == 3
    node.begin("r", **{"x-queue-leader-locator": "balanced"})
    with pytest.raises(PreconditionFailed, match="it must be one of client-local, balanced"):
        node.begin("s", **{"x-queue-leader-locator": "somewhere"})
    node.agreement.leads_here = lambda identity: False
    with pytest.raises(PreconditionFailed, match="this node leads no group now"):
        node.begin("s", **{"x-queue-leader-locator": "client-local"})


def test_an_explanation_says_which_wishes_for_copies_are_so():
    node = Node(copies=3)
    definition = {
        "ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "manual", "ha-promote-on-shutdown": "when-synced",
        "target-group-size": 3,
    }  # fmt: skip
    node.make(
        AgreedChange(ChangeKind.POLICY, "/", "p", PolicyDeclaration(name="p", pattern=".", definition=definition))
    )
    node.make(shared("q"))
    node.broker.declare_queue(QueueDeclaration(name="c", arguments={}), OPERATOR)
    told = {row["key"]: (row["effect"], row["why"]) for row in node.broker.explain_policies("q")["keys"]}
    assert told == {
        "ha-mode": ("acts", "each of the 3 nodes of the cluster keeps a copy"),
        "ha-params": (
            "no effect",
            "each of the 3 nodes of the cluster keeps a copy, and other numbers are not possible",
        ),
        "ha-sync-mode": ("no effect", "copies of a quorum queue are always in sync"),
        "ha-promote-on-shutdown": ("acts", "only a node that has every accepted message leads"),
        "target-group-size": ("acts", "each of the 3 nodes of the cluster keeps a copy"),
    }
    classic = {row["key"]: row["why"] for row in node.broker.explain_policies("c")["keys"]}
    assert "with x-queue-type quorum it has a copy on each of the 3 nodes" in classic["ha-mode"]


def test_a_deletion_at_another_node_has_its_answer_when_this_node_has_made_it():
    node, order, asked = Node(), OrderPosition(), [Recording[int]() for _ in range(4)]
    topology = node.broker.shown.topology
    wanted: list[int] = []
    order.read_upto = wanted.append
    assert once_followed(asked[0], order, topology, "q") is asked[0], "this node does not have it"
    node.make(shared("q"))
    assert once_followed(asked[0], order, topology, "q") is asked[0], "there is no order"
    order.reached(5)
    answers = [once_followed(one, order, topology, "q") for one in asked[1:]]
    asked[1].fail("refused")
    with pytest.raises(PreconditionFailed, match="refused"):
        answers[0].result()
    asked[2].finish(3)
    assert wanted == [6]
    order.reached(6)
    assert not answers[1].done, "it was another change"
    node.make(AgreedChange(ChangeKind.REMOVAL, "/", "q", AgreedRemoval(queues=("q",))))
    node.make(shared("q", "cd" * 16))
    order.reached(7)
    assert answers[1].result() == 3
    asked[3].finish(4)
    assert answers[2].result() == 4
