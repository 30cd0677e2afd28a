"""Declaring and deleting the queues that all nodes of a cluster know, and following what the nodes have agreed on.

A queue is declared in the order that all nodes have in common, and each node makes it at its place there. The client
that declares it is answered when its own node has made it. A deletion goes the same way.

A durable classic queue lives on the node at which it was declared, and its identity names that node; the others make a
remote queue. A classic queue of a time before that is *of this node only* until all nodes have been offered it, and
stays so where the cluster has another queue of its name: its messages are nowhere else.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from core.declaring import Recording
from core.engine.options.arguments import queue_type
from core.engine.options.in_force import QueueType
from core.engine.options.policies import TARGET_GROUP_SIZE, Policies
from core.engine.quorum.group_numbers import EVERY_NODE, home_in, with_home, with_size, without_home
from core.engine.quorum.groups import SharedQueue
from core.engine.routing.agreement import KEPT_MAX, AgreedChange, AgreedRemoval, ChangeKind, ChangeVerdict
from core.engine.routing.shared_recorder import SharedRecorder, removal_name
from core.engine.routing.staged import Declared, StagedQueues
from core.engine.routing.topology import BUILT_IN_EXCHANGES, QueueDefinition, Topology
from core.errors import EngineError, Inequivalent, PreconditionFailed, StillGoing
from core.flow_facts import FLOW_STREAM
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration, QueueInfo
from core.order_position import OrderPosition
from core.slices import Found
from core.store.definitions import PolicyDeclaration

GROUP_SIZES = (
    "x-quorum-initial-group-size", "x-quorum-target-group-size", "x-initial-cluster-size", "x-initial-group-size",
)  # fmt: skip
SHARED_TYPES = frozenset({QueueType.QUORUM.value, QueueType.STREAM.value})
LOCATOR, CLIENT_LOCAL = "x-queue-leader-locator", "client-local"
LOCATORS = (CLIENT_LOCAL, "balanced", "least-leaders", "random")
"""All but the first spread queues over the groups, and so over the leaders."""
TRIES = 1_000
"""How many identities are tried, so that a queue gets into a group that this node leads. With one group of 64, one of a
million declarations finds none."""
CLEARED_MAX = 50
"""The most bindings of a deleted exchange that are named with it, so that their keys go from the engine at once. The
keys of others stay there and say nothing, because their exchange is gone or newer."""
CLUSTER = object()
"""The owner in whose name this node makes and deletes what the cluster has."""


def is_shared(declaration: QueueDeclaration) -> bool:
    """Return whether the nodes of a cluster keep copies of such a queue, so that all of them have it. Each node records
    its own flow events."""
    kind = queue_type(declaration.arguments)
    if kind == QueueType.STREAM.value and declaration.name == FLOW_STREAM:
        return False
    return declaration.durable and not declaration.exclusive and kind in SHARED_TYPES


def may_be_placed(declaration: QueueDeclaration) -> bool:
    """Return whether such a queue lives on one node of a cluster, and all nodes know on which."""
    passing = declaration.exclusive or declaration.auto_delete or not declaration.durable
    return not passing and queue_type(declaration.arguments) == QueueType.CLASSIC.value


class Makes(NamedTuple):
    """How the virtual host makes and ends the queues that the names say."""

    make: Callable[[QueueDefinition], QueueInfo]
    end: Callable[[str], int]
    """Ends a queue that was deleted, and returns how many ready messages it had."""
    info: Callable[[str, object], QueueInfo]


class SharedNames:
    """What of one virtual host all nodes have."""

    def __init__(
        self,
        virtual_host: str,
        topology: Topology,
        staged: StagedQueues,
        policies: Policies,
        recorder: SharedRecorder,
        makes: Makes,
    ) -> None:
        self._virtual_host = virtual_host
        self.topology = topology
        self.policies = policies
        self.recorder = recorder
        self._staged = staged
        self._agreement = recorder.agreement
        self._makes = makes
        self._shares = recorder.agreement.shares
        self.hidden: dict[str, str] = {}
        """Queues of the cluster that this node has not made, because it has one of that name of its own, and on which
        nodes they live."""
        self._ended: dict[str, int] = {}
        """How many ready messages the queues had that are being deleted for clients of this node."""
        self._owners: dict[str, object] = {}
        """The clients of this node that have asked for exclusive queues, by the identities of the queues."""
        self._new_here: dict[str, None] = {}
        """The identities of classic queues that clients have declared at this node, and that are not made yet."""
        recorder.is_shared, recorder.keeps_binding = self._is_shared_binding, topology.keeps_binding
        policies.copies = recorder.agreement.copies

    @staticmethod
    def of(
        virtual_host: str,
        topology: Topology,
        staged: StagedQueues,
        policies: Policies,
        recorder: object,
        makes: Makes,
    ) -> "SharedNames | None":
        """Return those of a virtual host; None without a cluster."""
        if not isinstance(recorder, SharedRecorder):
            return None
        return SharedNames(virtual_host, topology, staged, policies, recorder, makes)

    def _will_be_shared(self, declaration: QueueDeclaration) -> bool:
        """Whether all nodes will know a new queue."""
        if self._shares is not None:
            return self._shares(declaration)
        return is_shared(declaration) or self._is_placed(declaration)

    def _is_placed(self, declaration: QueueDeclaration) -> bool:
        return self._shares is None and self._agreement.node != "" and may_be_placed(declaration)

    def _is_shared(self, definition: QueueDefinition) -> bool:
        """Whether all nodes know a queue that is here."""
        if self._shares is not None:
            return self._shares(definition.declaration)
        return is_shared(definition.declaration) or home_in(definition.identity) != ""

    # --- what clients ask for

    def agree_on_queue(self, declaration: QueueDeclaration, owner: object) -> None:
        """Raises StillGoing for a new queue until all nodes have it, and as :meth:`Topology.new_queue`."""
        name = declaration.name
        if name not in self.topology.queues and self._will_be_shared(declaration) and not self.recorder.alone:
            self._check_not_hidden(name)
            self._agreement.ask(self._new(declaration, owner, named_by_broker=False))

    def check_answered(self, kind: ChangeKind, name: str, value: object) -> None:
        """Raises StillGoing while this change is under way, although this node may have made it already."""
        if not self.recorder.alone:
            self._agreement.check_answered(AgreedChange(kind, self._virtual_host, name, value))

    def agree_on_removal(self, exchange: str) -> None:
        """Raises StillGoing for an exchange that all nodes have, until none has it."""
        there = self.topology.exchanges.get(exchange)
        if there is not None and self._is_shared_exchange(there.declaration):
            leaving = tuple(filter(self._is_shared_binding, self.topology.leaving(exchange, CLEARED_MAX)))
            self._agree_on(AgreedRemoval(exchanges=(exchange,), bindings=leaving))

    def agree_on_unbinding(self, binding: Binding, owner: object) -> None:
        """Raises StillGoing for a binding that all nodes have, until none has it, and Locked."""
        if self.topology.has_binding(binding) and self._is_shared_binding(binding):
            if binding.destination_is_queue:
                self.topology.queue(binding.destination, owner)
            exchanges = self.topology.ends_with(None, binding)
            self._agree_on(AgreedRemoval(exchanges=tuple(exchanges), bindings=(binding,)))

    def _agree_on(self, removal: AgreedRemoval) -> None:
        if not self.recorder.alone:
            self._agreement.ask(self._removing(removal))

    def _removing(self, removal: AgreedRemoval) -> AgreedChange:
        return AgreedChange(ChangeKind.REMOVAL, self._virtual_host, removal_name(removal), removal)

    def has_made(self, kind: ChangeKind, name: str) -> bool:
        """Return whether something is there because this node has asked for it, once."""
        return self._agreement.is_mine(AgreedChange(kind, self._virtual_host, name))

    def delete_with_all(self, name: str) -> bool:
        """Begin to delete a queue with all nodes, if it is shared. Returns whether it is; it is still there then."""
        definition = self.topology.queues.get(name)
        if definition is None or not self._is_shared(definition) or self.recorder.alone:
            return False
        if name not in self._ended:
            self.delete(name, CLUSTER)
        return True

    def declare(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[Declared]:
        """See :meth:`StagedQueues.declare`."""
        name = declaration.name
        if name in self.topology.queues or not self._will_be_shared(declaration):
            return self._staged.declare(declaration, owner, named_by_broker=named_by_broker)
        self._check_not_hidden(name)
        recording: Recording[Declared] = Recording()

        def answered(verdict: ChangeVerdict, why: str) -> None:
            if verdict is ChangeVerdict.REFUSED:
                recording.fail(f"queue '{name}': {why}")
            elif verdict is ChangeVerdict.STALE:
                again(recording, lambda: self.declare(declaration, owner, named_by_broker=named_by_broker))
            else:
                again(recording, lambda: Recording[Declared]().finish((self._makes.info(name, owner), True)))

        self._agreement.submit(self._new(declaration, owner, named_by_broker=named_by_broker), answered)
        return recording

    def delete(self, name: str, owner: object) -> Recording[int]:
        """See :meth:`StagedQueues.delete`."""
        definition = self.topology.queues.get(name)
        if definition is None or not self._is_shared(definition) or self.recorder.alone:
            return self._staged.delete(name, owner)
        if owner is not CLUSTER:
            self.topology.queue(name, owner)
        recording: Recording[int] = Recording()
        exchanges = self.topology.ends_with(name)
        removal = AgreedRemoval(queues=(name,), exchanges=tuple(exchanges))
        self._ended.setdefault(name, 0)

        def answered(verdict: ChangeVerdict, why: str) -> None:
            ready = self._ended.pop(name, 0)
            if verdict is ChangeVerdict.REFUSED:
                recording.fail(f"queue '{name}': {why}")
            elif verdict is ChangeVerdict.STALE:
                again(recording, lambda: self.delete(name, owner))
            else:
                recording.finish(ready)

        self._agreement.submit(self._removing(removal), answered)
        return recording

    def _check_not_hidden(self, name: str) -> None:
        """Raises PreconditionFailed for the name of a queue that this node has still to make."""
        if name in self.hidden:
            raise PreconditionFailed(
                f"queue '{name}': the cluster has one on node {self.hidden[name]}, which this node makes when it is "
                "started again"
            )

    def _new(self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool) -> AgreedChange:
        if self._is_placed(declaration):
            made = self.topology.new_queue(declaration, owner, named_by_broker=named_by_broker)
            return self._new_queue(declaration, self._noted(with_home(made.identity, self._agreement.node)))
        self._check_locator(declaration)
        size = self._group_size(declaration)

        def new_identity() -> str:
            made = self.topology.new_queue(declaration, owner, named_by_broker=named_by_broker)
            return with_size(made.identity, size)

        identity = new_identity()
        if self._agreement.shares is None and declaration.arguments.get(LOCATOR) == CLIENT_LOCAL:
            tries = (new_identity() for _ in range(TRIES))
            here = next(filter(self._agreement.leads_here, tries), None)
            if here is None:
                of_size = "" if size == EVERY_NODE else f" of {size} members"
                raise PreconditionFailed(
                    f"queue '{declaration.name}': {LOCATOR} is {CLIENT_LOCAL!r}, and this node leads no group{of_size} "
                    "now; declare it at another node, or without this argument"
                )
            identity = here
        home = ""
        if declaration.exclusive:
            home, self._owners[identity] = self._agreement.node, owner
            if len(self._owners) > KEPT_MAX:
                del self._owners[next(iter(self._owners))]
        return self._new_queue(declaration, identity, home)

    def _new_queue(self, declaration: QueueDeclaration, identity: str, home: str = "") -> AgreedChange:
        queue = SharedQueue(self._virtual_host, declaration, identity, home)
        return AgreedChange(ChangeKind.QUEUE, self._virtual_host, declaration.name, queue)

    def _noted(self, identity: str) -> str:
        self._new_here[identity] = None
        if len(self._new_here) > KEPT_MAX:
            del self._new_here[next(iter(self._new_here))]
        return identity

    def _check_locator(self, declaration: QueueDeclaration) -> None:
        """Raises PreconditionFailed for a locator that there is not. Where queues have no copies, nothing is asked."""
        locator = declaration.arguments.get(LOCATOR)
        if self._agreement.shares is None and locator is not None and locator not in LOCATORS:
            raise PreconditionFailed(
                f"queue '{declaration.name}': {LOCATOR} is {locator!r}, it must be one of {', '.join(LOCATORS)}"
            )

    def _group_size(self, declaration: QueueDeclaration) -> int:
        """Return the size of the group that a queue gets: the smallest that is not below the one that is asked for. As
        in RabbitMQ, more than there are nodes is every node, and the argument holds before the policy."""
        if self._agreement.shares is not None:
            return EVERY_NODE
        asked = [size for name in GROUP_SIZES if isinstance(size := declaration.arguments.get(name), int)]
        if not asked and queue_type(declaration.arguments) == QueueType.QUORUM.value:
            winner = self.policies.winner(declaration)
            wanted = None if winner is None else winner.declaration.definition.get(TARGET_GROUP_SIZE)
            asked = [wanted] if isinstance(wanted, int) else []
        if not asked:
            return EVERY_NODE
        return min((size for size in self._agreement.group_sizes if size >= max(asked)), default=EVERY_NODE)

    # --- what was agreed on

    def follow(self, change: AgreedChange) -> None:
        """Make a change here. Raises StillGoing and PreconditionFailed to be called again, any other EngineError for a
        change that this node cannot make."""
        match change.value:
            case ExchangeDeclaration() as exchange:
                self._follow_exchange(exchange)
            case SharedQueue() as queue:
                self._follow_queue(queue)
            case Binding() as binding:
                there = self.topology.queues.get(binding.destination) if binding.destination_is_queue else None
                if there is not None and not self._is_shared(there):
                    return  # it is a binding of the cluster's queue of that name
                self.topology.bind(binding, CLUSTER if there is None else there.owner)
            case AgreedRemoval() as removal:
                for name in removal.queues:
                    self.hidden.pop(name, None)
                queues = tuple(name for name in removal.queues if not self._is_of_this_node_only(name))
                self._follow_removal(removal._replace(queues=queues))
            case PolicyDeclaration() as policy:
                self.policies.set(policy)
            case _:
                assert change.kind is ChangeKind.POLICY_REMOVAL
                self.policies.clear(change.name)

    def _follow_exchange(self, declaration: ExchangeDeclaration) -> None:
        try:
            self.topology.admit_exchange(declaration)
        except Inequivalent:
            self._follow_removal(AgreedRemoval(exchanges=(declaration.name,)))
            self.topology.admit_exchange(declaration)

    def _follow_queue(self, queue: SharedQueue) -> None:
        name = queue.declaration.name
        there = self.topology.queues.get(name)
        if there is not None:
            if there.identity == queue.identity:
                return
            home = home_in(queue.identity)
            if home and not self._is_shared(there):
                self._meet_own(there, queue, home)
                return
            self._follow_removal(AgreedRemoval(queues=(name,)))
        owner = self._owners.pop(queue.identity, CLUSTER)
        definition = self.topology.new_queue(queue.declaration, owner, named_by_broker=True, identity=queue.identity)
        if queue.home:
            self._agreement.placed[queue.virtual_host, name] = queue.home
        self._makes.make(self.topology.recorded(definition))
        if home_in(queue.identity) == self._agreement.node != "" and self._new_here.pop(queue.identity, self) is self:
            self._agreement.tell("classic-queue-made-anew", {"vhost": self._virtual_host, "queue": name})
        if queue.home and queue.home == self._agreement.node and owner is CLUSTER:  # its client has gone meanwhile
            self._agreement.owed.append(self._removing(AgreedRemoval(queues=(name,))))

    def _meet_own(self, own: QueueDefinition, queue: SharedQueue, home: str) -> None:
        """The cluster has a classic queue of the name of one that this node alone has: it is that one, which this node
        has offered, or another one, and then this node keeps its own."""
        name, node = queue.declaration.name, self._agreement.node
        if with_home(own.identity, node) == queue.identity:
            self.topology.queues[name] = replace(own, identity=queue.identity)
            self.topology.version += 1
        elif self.hidden.get(name) != home:
            self.hidden[name] = home
            self._agreement.tell(
                "queue-of-one-node",
                {
                    "vhost": self._virtual_host,
                    "queue": name,
                    "node": node,
                    "home": home,
                    "why": f"nodes {node} and {home} have a classic queue of this name each. That of {home} is the "
                    f"cluster's. That of {node} keeps its messages, for clients of {node} only: consume them there, "
                    f"delete the queue there, and start {node} again",
                },
            )

    def _is_of_this_node_only(self, name: str) -> bool:
        definition = self.topology.queues.get(name)
        return definition is not None and not self._is_shared(definition)

    def _follow_removal(self, removal: AgreedRemoval) -> None:
        if any(name in self._staged.waiting for name in removal.queues):
            raise StillGoing("a queue of this name is being declared or deleted here")
        queues = [name for name in removal.queues if name in self.topology.queues]
        self.topology.remove_exactly(queues, removal.exchanges, removal.bindings)
        for name in queues:
            self._agreement.placed.pop((self._virtual_host, name), None)
            ready = self._makes.end(name)
            if name in self._ended:
                self._ended[name] = ready

    # --- what there is

    def present(self) -> Iterator[AgreedChange]:
        """Everything that all nodes should have, as the changes that make it, in an order in which they can be made.
        Other tasks may change it meanwhile."""
        topology, host = self.topology, self._virtual_host
        exchanges, queues = list(topology.exchanges.values()), list(topology.queues.values())
        bindings, policies = topology.all_bindings(), list(self.policies.ranked)
        for exchange in exchanges:
            one = exchange.declaration
            if self._is_shared_exchange(one):
                yield AgreedChange(ChangeKind.EXCHANGE, host, one.name, one)
        for queue in queues:
            if self._is_shared(queue):
                home = self._agreement.placed.get((host, queue.declaration.name), "")
                shared = SharedQueue(host, queue.declaration, queue.identity, home)
                yield AgreedChange(ChangeKind.QUEUE, host, queue.declaration.name, shared)
        for binding in bindings:
            if self._is_shared_binding(binding):
                yield AgreedChange(ChangeKind.BINDING, host, f"{binding.source} to {binding.destination}", binding)
        for policy in policies:
            yield AgreedChange(ChangeKind.POLICY, host, policy.name, policy.declaration)

    def own(self) -> Iterator[AgreedChange]:
        """The durable classic queues that live on this node, and their bindings, as the changes that let all nodes know
        them. Other tasks may change them meanwhile."""
        host, node = self._virtual_host, self._agreement.node
        if self._shares is not None or not node:
            return
        bindings, offered = self.topology.all_bindings(), set()
        for queue in list(self.topology.queues.values()):
            home = home_in(queue.identity)
            if home == node or (not home and self._is_placed(queue.declaration)):
                offered.add(queue.declaration.name)
                yield self._new_queue(queue.declaration, queue.identity if home else with_home(queue.identity, node))
        for one in bindings:
            source = self.topology.exchanges.get(one.source)
            if one.destination_is_queue and one.destination in offered and source and source.declaration.durable:
                yield AgreedChange(ChangeKind.BINDING, host, f"{one.source} to {one.destination}", one)

    def may_offer(self, change: AgreedChange) -> bool:
        """Return whether something of :meth:`own` is still to be offered: it is here, and the cluster has no other
        queue of its name."""
        one = change.value
        if isinstance(one, SharedQueue):
            there = self.topology.queues.get(one.declaration.name)
            is_it = there is not None and without_home(there.identity) == without_home(one.identity)
            return is_it and one.declaration.name not in self.hidden
        assert isinstance(one, Binding)
        there = self.topology.queues.get(one.destination)
        return self.topology.has_binding(one) and there is not None and self._is_shared(there)

    def _is_shared_binding(self, binding: Binding) -> bool:
        if not self.topology.leads_somewhere(binding):
            return False  # it is left over, and every node removes it by itself
        exchanges, all_of_them = self.topology.exchanges, self.recorder.takes_all
        if not (all_of_them or exchanges[binding.source].declaration.durable):
            return False
        if binding.destination_is_queue:
            return self._is_shared(self.topology.queues[binding.destination])
        return all_of_them or exchanges[binding.destination].declaration.durable

    def _is_shared_exchange(self, declaration: ExchangeDeclaration) -> bool:
        return (declaration.durable or self.recorder.takes_all) and declaration.name not in BUILT_IN_EXCHANGES

    def forget_owner(self, owner: object) -> None:
        """A client has gone: what it has asked for is removed when it is made."""
        for identity in [identity for identity, one in self._owners.items() if one == owner]:
            del self._owners[identity]


def again(recording: Recording[Found], change: Callable[[], Recording[Found]]) -> None:
    """Give the result of another change to the client."""
    try:
        made = change()
    except EngineError as error:
        recording.fail(str(error))
    else:
        made.when_done(lambda: _pass_on(made, recording))


def _pass_on(made: Recording[Found], recording: Recording[Found]) -> None:
    try:
        found = made.result()
    except PreconditionFailed as error:
        recording.fail(str(error))
    else:
        recording.finish(found)


def once_followed(asked: Recording[int], order: OrderPosition, topology: Topology, name: str) -> Recording[int]:
    """Give the result of deleting a queue, which another node does, once this node has made the deletion too: else a
    client that declares the queue again would be told that it is still there. Nodes without an order have nothing to
    make."""
    there = topology.queues.get(name)
    if there is None or order.made <= 0:
        return asked
    recording: Recording[int] = Recording()

    def look() -> None:
        if topology.queues.get(name) is not there:
            order.forget(look)
            _pass_on(asked, recording)

    def answered() -> None:
        try:
            asked.result()
        except PreconditionFailed:
            _pass_on(asked, recording)
        else:
            order.wait(order.made + 1, look)
            look()

    asked.when_done(answered)
    return recording
