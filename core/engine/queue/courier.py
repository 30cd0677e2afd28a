"""A courier publishes messages of one queue to other queues and returns the outcome of each.

It is a publisher inside the engine. Its messages go through the inboxes of the queues that they are routed to, like
every published message, and those queues confirm them. The source queue keeps its copy until then. There is no
callback: the answers gather in a mailbox, whose notice touches the source queue, and the source queue reads them in its
next turn.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from core.engine.confirms import Confirms
from core.engine.queue.kinds import AnyQueue
from core.engine.ready.batch import Batch
from core.engine.ready.unsettled import Unsettled
from core.interface import Confirmed, Converter, Mailbox, Outcome, Publisher
from core.message import Run


@dataclass(frozen=True, slots=True)
class CourierContext:
    """The parts of the broker that couriers use."""

    confirms: Confirms
    converter: Converter | None
    route: Callable[[str, tuple[str, ...], Run], Iterable[tuple[Run, Sequence[AnyQueue]]]]
    """Route a run through an exchange with these keys: its parts, each with the queues it goes to. An exchange that
    does not exist routes to no queue."""
    submit: Callable[[Publisher, Run, Sequence[AnyQueue]], None]
    """Put a run into the inboxes of queues. Without queues, it is answered as released."""
    touch: Callable[[AnyQueue], None]
    """Wake this queue: it gets a turn."""
    publishing_id_ranges_max: int = 10_000
    """How much each queue that drops repeats remembers, for each priority level."""

    def entries(self, batch: Batch) -> list[bytes]:
        """Return the encoded messages as they are published, with the annotations that consumers have added."""
        converter, added = self.converter, batch.annotations
        if converter is None or not added:
            return batch.entries.copy()
        return [converter.annotated(entry, batch.origin, added) for entry in batch.entries]


class Courier:
    """The messages that one queue has published through this courier and that are not answered yet, by confirm
    number."""

    __slots__ = ("_context", "_next_number", "_publisher", "_under_way")

    def __init__(self, context: CourierContext, source: AnyQueue) -> None:
        self._context = context
        mailbox = Mailbox(lambda: context.touch(source))
        self._publisher = Publisher(mailbox, source, None, f"courier of queue '{source.name}'")
        context.confirms.enter_own(self._publisher)
        self._next_number = 0
        self._under_way = Unsettled()

    @property
    def under_way(self) -> int:
        """How many messages are not answered yet."""
        return self._under_way.count

    def batches(self) -> Sequence[Batch]:
        """The messages that are under way. The caller must not change them."""
        return self._under_way.batches()

    def load(self, batch: Batch) -> int:
        """Give confirm numbers to messages, and return the first one. The caller must then submit or unload each
        message."""
        number = self._next_number
        self._next_number += len(batch)
        self._under_way.append(number, batch)
        return number

    def submit(self, run: Run, queues: Sequence[AnyQueue]) -> None:
        """Publish messages that were loaded. Without queues they are answered as released."""
        self._context.submit(self._publisher, run, queues)

    def unload(self, first: int, last: int) -> list[Batch]:
        """Take back messages that were loaded and are not to be submitted (confirm numbers, both inclusive)."""
        return self._under_way.remove(first, last)

    def answers(self) -> list[tuple[Outcome, list[Batch]]]:
        """Return the outcomes since the last call, with their messages, which are under way no longer."""
        answers = []
        for action in self._publisher.mailbox.take():
            assert isinstance(action, Confirmed)
            answers.append((action.outcome, self._under_way.remove(action.first, action.last)))
        return answers

    def retire(self) -> None:
        """The source queue is deleted. Messages that are under way still arrive."""
        self._context.confirms.leave(self._publisher)
