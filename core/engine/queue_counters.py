"""What has happened in a queue since it was made, in messages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from core.engine.shelf import Shelf


class Counted(Protocol):
    """Counters that every kind of queue has."""

    @property
    def published(self) -> int: ...

    @property
    def delivered(self) -> int: ...

    @property
    def accepted(self) -> int: ...


@dataclass(slots=True)
class QueueCounters:
    """Counters of a queue that hands each message to one consumer."""

    published: int = 0
    """Taken on."""
    refused: int = 0
    """Rejected at the length limit, for want of room."""
    delivered: int = 0
    """Handed to consumers, once more for each redelivery."""
    direct: int = 0
    """Of these, without having stood in the queue."""
    accepted: int = 0
    rejected: int = 0
    returned: int = 0
    purged: int = 0
    moved: int = 0
    """To another queue, by an operator."""


def counts_of(shelves: Iterable[Shelf]) -> dict[str, int]:
    """What their backings count, added up, and how many messages came back."""
    states: dict[str, int] = {}
    returned = 0
    for shelf in shelves:
        returned += shelf.returned.count
        for state, count in shelf.backing.counts().items():
            states[state] = states.get(state, 0) + count
    return {**states, "returned_ready": returned}
