"""What records the durable definitions of queues, exchanges and bindings, as the topology sees it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.definition_record import DefinitionRecord

Later = Callable[[DefinitionRecord], None]
"""Takes a record that is not on the disk yet."""


class DefinitionsRecorder(Protocol):
    """Records durable definitions. Each method raises PreconditionFailed if it fails, and has no effect then."""

    @property
    def takes_all(self) -> bool:
        """Whether exchanges and bindings come here too that do not outlive the broker, because all nodes have them."""

    def together(self, later: Later | None = None) -> AbstractContextManager[None]:
        """Record what is added and removed within the block together: all, or none. It is on the disk when the block
        ends, unless ``later`` is called with a record that is not."""

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int | None:
        """Returns the queue's number; None if the recorder keeps nothing."""

    def add_exchange(self, declaration: ExchangeDeclaration) -> None: ...

    def add_binding(self, binding: Binding) -> None: ...

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """Remove all of these, or none."""


class NothingRecorded:
    """The recorder of a broker without storage."""

    takes_all = False

    def together(self, later: Later | None = None) -> AbstractContextManager[None]:
        """See :class:`DefinitionsRecorder`."""
        return nullcontext()

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> None:
        """See :class:`DefinitionsRecorder`."""

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        """See :class:`DefinitionsRecorder`."""

    def add_binding(self, binding: Binding) -> None:
        """See :class:`DefinitionsRecorder`."""

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        """See :class:`DefinitionsRecorder`."""
