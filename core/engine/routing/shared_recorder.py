"""Records the definitions of a virtual host in a cluster: what all nodes have is agreed on first.

All nodes have the durable exchanges, the quorum queues, the streams, the bindings between these, and the policies. A
binding to a queue that only one node has is of this node alone.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from core.engine.options.policies import PolicyRecorder
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, Agreement, ChangeKind
from core.engine.routing.recorder import DefinitionsRecorder, Later
from core.errors import PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.definitions import PolicyDeclaration


class SharedRecorder:
    """The recorder of one virtual host. Beside what the recorder below raises, each method raises StillGoing while the
    nodes agree, and PreconditionFailed when they cannot."""

    def __init__(
        self, kept: DefinitionsRecorder, policies: PolicyRecorder, virtual_host: str, agreement: Agreement
    ) -> None:
        """``kept`` and ``policies`` record on the disk of this node; mostly they are one object."""
        self.agreement = agreement
        self.is_shared: Callable[[Binding], bool] = lambda binding: True
        """Whether all nodes have both ends of a binding. The virtual host sets it, and the next one."""
        self.keeps_binding: Callable[[Binding], bool] = lambda binding: True
        """Whether a binding outlives this node."""
        self.leaving = False
        """Whether the virtual host is being deleted: each node does that by itself."""
        self._kept = kept
        self._policies = policies
        self._virtual_host = virtual_host

    @property
    def takes_all(self) -> bool:
        """See :class:`core.engine.routing.recorder.DefinitionsRecorder`."""
        return self.agreement.shares is not None

    @property
    def alone(self) -> bool:
        """Whether changes are made here without asking."""
        return self.leaving or self.agreement.alone

    def together(self, later: Later | None = None) -> AbstractContextManager[None]:
        """See :class:`core.engine.routing.recorder.DefinitionsRecorder`, also for the methods below."""
        return self._kept.together(later)

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int | None:
        return self._kept.add_queue(declaration, identity)

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        self._agree(ChangeKind.EXCHANGE, declaration.name, declaration)
        if declaration.durable:
            self._kept.add_exchange(declaration)

    def add_binding(self, binding: Binding) -> None:
        if self.is_shared(binding):
            self._agree(ChangeKind.BINDING, f"{binding.source} to {binding.destination}", binding)
        elif self.takes_all:
            raise PreconditionFailed(
                f"queue '{binding.destination}' is that of a dynamic node or of direct replies, which no other node "
                "has: among several nodes on one port nothing can be bound to it; declare an exclusive queue instead"
            )
        elif not self.alone:
            self.agreement.binds_here(self._virtual_host, binding)
        if self.keeps_binding(binding):
            self._kept.add_binding(binding)

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """What clients ask to be removed was agreed on before (:class:`SharedNames`). What ends here because something
        of this node alone has ended is removed at once, and the other nodes follow."""
        shared = AgreedRemoval(exchanges=tuple(exchanges), bindings=tuple(filter(self.is_shared, bindings)))
        self._kept.remove(queues=queues, exchanges=exchanges, bindings=bindings)
        if not self.alone and shared != AgreedRemoval():
            self.agreement.owed.append(
                AgreedChange(ChangeKind.REMOVAL, self._virtual_host, removal_name(shared), shared)
            )

    def set_policy(self, policy: PolicyDeclaration) -> None:
        """See :class:`core.engine.options.policies.PolicyRecorder`, also for the method below."""
        self._agree(ChangeKind.POLICY, policy.name, policy)
        self._policies.set_policy(policy)

    def remove_policy(self, name: str) -> None:
        self._agree(ChangeKind.POLICY_REMOVAL, name)
        self._policies.remove_policy(name)

    def _agree(self, kind: ChangeKind, name: str, value: object = None) -> None:
        if not self.alone:
            self.agreement.ask(AgreedChange(kind, self._virtual_host, name, value))


def removal_name(removal: AgreedRemoval) -> str:
    """What is removed, for messages."""
    names = [*removal.queues, *removal.exchanges]
    return ", ".join(names or [f"{one.source} to {one.destination}" for one in removal.bindings])
