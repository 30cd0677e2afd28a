"""Counters of a queue's messages since the queue was made."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from core.engine.ready.sub_queue import SubQueue


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
    """Counters of a classic or quorum queue."""

    published: int = 0
    """Messages taken on."""
    refused: int = 0
    """Messages rejected at the length limit."""
    repeated: int = 0
    """Messages that were accepted and dropped, because they had been taken on before."""
    delivered: int = 0
    """Messages delivered to consumers; each redelivery counts again."""
    direct: int = 0
    """Messages among these that went straight to a consumer without being stored as ready."""
    accepted: int = 0
    rejected: int = 0
    returned: int = 0
    purged: int = 0
    moved: int = 0
    """Messages that an operator moved to another queue."""


def counts_of(sub_queues: Iterable[SubQueue]) -> dict[str, int]:
    """Add up the counts of the sub-queues' backings, and the returned messages."""
    states: dict[str, int] = {}
    returned = 0
    for sub_queue in sub_queues:
        returned += sub_queue.returned.count
        for state, count in sub_queue.backing.counts().items():
            states[state] = states.get(state, 0) + count
    return {**states, "returned_ready": returned}
