"""A courier takes messages of one queue elsewhere and brings back what became of them.

It is a publisher inside the engine: what it hands in goes the way of every published message, through the inboxes of
the queues it is routed to, and is confirmed by them. The source keeps its copy until then. Nothing here calls back:
the answers gather in a mailbox whose notice wakes the source queue, which asks for them in its next turn.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from core.engine.confirms import Confirms
from core.engine.kinds import AnyQueue
from core.engine.stretch import Stretch
from core.engine.unsettled import Unsettled
from core.interface import Confirmed, Converter, Mailbox, Outcome, Publisher
from core.message import Route, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Roads:
    """What the broker lends to couriers."""

    confirms: Confirms
    converter: Converter | None
    route: Callable[[str, tuple[str, ...], Run], Iterable[tuple[Run, Sequence[AnyQueue]]]]
    """The parts of a run with the queues they go to, through an exchange with these keys; an exchange that does not
    exist leads nowhere."""
    submit: Callable[[Publisher, Run, Sequence[AnyQueue], Route], None]
    """Put a run into the inboxes of queues; without any, it is answered as released."""
    touch: Callable[[AnyQueue], None]
    """Something has happened that concerns this queue."""

    def entries(self, stretch: Stretch) -> list[bytes]:
        """The messages as they travel: with what consumers have added to them."""
        converter, added = self.converter, stretch.annotations
        if converter is None or not added:
            return stretch.entries.copy()
        return [converter.annotated(entry, stretch.attributes.origin, added) for entry in stretch.entries]


class Courier:
    """What one queue has under way, by the courier's own confirm numbers."""

    __slots__ = ("_next_number", "_publisher", "_roads", "_under_way")

    def __init__(self, roads: Roads, source: AnyQueue) -> None:
        self._roads = roads
        mailbox = Mailbox(lambda: roads.touch(source))
        self._publisher = Publisher(mailbox, source, None, f"courier of queue '{source.name}'")
        roads.confirms.enter_own(self._publisher)
        self._next_number = 0
        self._under_way = Unsettled()

    @property
    def under_way(self) -> int:
        """Messages that are not answered."""
        return self._under_way.count

    def stretches(self) -> Sequence[Stretch]:
        """What is under way; to be looked at only."""
        return self._under_way.stretches()

    def load(self, stretch: Stretch) -> int:
        """Messages go under way; returns the confirm number of the first. Each has to be submitted or unloaded."""
        number = self._next_number
        self._next_number += len(stretch)
        self._under_way.append(number, stretch)
        return number

    def submit(self, run: Run, queues: Sequence[AnyQueue], route: Route) -> None:
        """Hand in messages that were loaded; without queues they come back as released."""
        self._roads.submit(self._publisher, run, queues, route)

    def unload(self, first: int, last: int) -> list[Stretch]:
        """Take messages off that are not to be submitted after all."""
        return self._under_way.remove(first, last)

    def answers(self) -> list[tuple[Outcome, list[Stretch]]]:
        """What became of messages since the last call; they are under way no longer."""
        answers = []
        for action in self._publisher.mailbox.take():
            assert isinstance(action, Confirmed)
            answers.append((action.outcome, self._under_way.remove(action.first, action.last)))
        return answers

    def retire(self) -> None:
        """The source is gone. What is under way arrives all the same."""
        self._roads.confirms.leave(self._publisher)
