"""Declaring and deleting the quorum queues of a cluster: first with all nodes, then here.

A queue is declared in the engine of the cluster, and each node makes it when it learns of that. The client that
declares it is answered when its own node has made it. A deletion goes the same way.
"""

from collections.abc import Callable, Iterable

from core.declaring import Recording
from core.engine.options.arguments import queue_type
from core.engine.options.in_force import QueueType
from core.engine.quorum.groups import QuorumGroups, SharedQueue
from core.engine.routing.staged import Declared, StagedQueues
from core.engine.routing.topology import Topology
from core.errors import EngineError, PreconditionFailed
from core.interface import QueueDeclaration
from core.slices import Found

CLUSTER = object()
"""The owner in whose name this node makes and deletes what the cluster has."""
MADE_AT_ONCE = 50
"""The most queues that are made or deleted in one call: each is staged, which costs little."""


def is_shared(declaration: QueueDeclaration) -> bool:
    """Return whether all nodes of a cluster have such a queue."""
    return declaration.durable and not declaration.exclusive and (
        queue_type(declaration.arguments) == QueueType.QUORUM.value
    )  # fmt: skip


class SharedQueues:
    """The queues of one virtual host that all nodes have."""

    def __init__(self, virtual_host: str, topology: Topology, staged: StagedQueues, groups: QuorumGroups) -> None:
        self._virtual_host = virtual_host
        self._topology = topology
        self._staged = staged
        self._groups = groups
        self._making: dict[str, Recording[Declared]] = {}
        """What is being made here, by name."""

    @staticmethod
    def of(
        virtual_host: str, topology: Topology, staged: StagedQueues, groups: QuorumGroups | None
    ) -> "SharedQueues | None":
        """Return those of a virtual host; None without a cluster."""
        return None if groups is None else SharedQueues(virtual_host, topology, staged, groups)

    def check_can_be_made_at_once(self, declaration: QueueDeclaration) -> None:
        """Raises PreconditionFailed for a new queue with which other nodes have to agree first."""
        name = declaration.name
        if name not in self._topology.queues and is_shared(declaration):
            raise PreconditionFailed(
                f"queue '{name}': the quorum queues of a cluster are declared by clients, or with headgate queues "
                "declare"
            )

    def delete_with_all(self, name: str) -> bool:
        """Begin to delete a queue with all nodes, if it is shared. Returns whether it is; it is still there then."""
        definition = self._topology.queues.get(name)
        if definition is None or not is_shared(definition.declaration):
            return False
        self.delete(name, CLUSTER)
        return True

    def declare(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[Declared]:
        """See :meth:`StagedQueues.declare`."""
        name = declaration.name
        if name in self._topology.queues or name in self._staged.waiting or not is_shared(declaration):
            return self._staged.declare(declaration, owner, named_by_broker=named_by_broker)
        definition = self._topology.new_queue(declaration, owner, named_by_broker=named_by_broker)
        recording: Recording[Declared] = Recording()

        def announced(queue: SharedQueue | None, error: str) -> None:
            if queue is None:
                recording.fail(f"queue '{name}': {error}")
            elif queue.declaration != declaration:
                recording.fail(f"queue '{name}' was declared with other arguments a moment ago, at another node")
            else:
                self._answer_with(lambda: self._make(queue), recording)

        self._groups.announce(SharedQueue(self._virtual_host, declaration, definition.identity), announced)
        return recording

    def delete(self, name: str, owner: object) -> Recording[int]:
        """See :meth:`StagedQueues.delete`."""
        definition = self._topology.queues.get(name)
        if definition is None or name in self._staged.waiting or not is_shared(definition.declaration):
            return self._staged.delete(name, owner)
        recording: Recording[int] = Recording()

        def announced(queue: SharedQueue | None, error: str) -> None:
            if error:
                recording.fail(f"queue '{name}': {error}")
                return
            self._answer_with(lambda: self._unmake(name), recording)

        self._groups.withdraw(SharedQueue(self._virtual_host, definition.declaration, definition.identity), announced)
        return recording

    def follow(self, queues: Iterable[SharedQueue]) -> bool:
        """Make and delete queues, so that this virtual host has those that the cluster has. Returns False if there is
        more to do."""
        wanted = {queue.declaration.name: queue for queue in queues}
        here = {name: one for name, one in self._topology.queues.items() if is_shared(one.declaration)}
        changed = 0
        for name, one in here.items():
            if changed < MADE_AT_ONCE and (name not in wanted or wanted[name].identity != one.identity):
                changed += self._is_staged(self._unmake, name)
        for name, queue in wanted.items():
            if changed < MADE_AT_ONCE and name not in self._topology.queues:
                changed += self._is_staged(self._make, queue)
        return not changed

    def _is_staged(self, change: Callable[..., object], subject: object) -> bool:
        try:
            change(subject)
        except EngineError:
            return False  # the disk refuses it, or old bindings are still removed: the next look tries it again
        return True

    def _answer_with(self, change: Callable[[], Recording[Found]], recording: Recording[Found]) -> None:
        """Make a change here, and give its result to the client."""
        try:
            made = change()
        except EngineError as error:
            recording.fail(str(error))
        else:
            made.when_done(lambda: _pass_on(made, recording))

    def _make(self, queue: SharedQueue) -> Recording[Declared]:
        name = queue.declaration.name
        if (under_way := self._making.get(name)) is not None:
            return under_way
        recording = self._staged.declare(queue.declaration, CLUSTER, named_by_broker=True, identity=queue.identity)
        self._making[name] = recording
        recording.when_done(lambda: self._made(name))
        return recording

    def _made(self, name: str) -> None:
        self._making.pop(name, None)

    def _unmake(self, name: str) -> Recording[int]:
        if name not in self._topology.queues or name in self._staged.waiting:
            return Recording[int]().finish(0)
        return self._staged.delete(name, CLUSTER)


def _pass_on(made: Recording[Found], recording: Recording[Found]) -> None:
    try:
        found = made.result()
    except PreconditionFailed as error:
        recording.fail(str(error))
    else:
        recording.finish(found)
