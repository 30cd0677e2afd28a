"""What the driver of a group asks of an engine: requests that are answered later, in any order, or not at all."""

from collections.abc import Callable, Sequence
from typing import Protocol

from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.copying import CopyPart, CopyWanted
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogRead, Owner, PutAnswer

Unanswered = Callable[[], None]
"""Called when no answer has come in time. The request may have been carried out, or may still be."""


class LogEngine(Protocol):
    """Owner and batches of one group. Each request is one step of the engine, and returns at once; one of the two
    functions that it gets is called later. What was answered is never lost."""

    def put(
        self, batch: CommandBatch, owner: Owner, answered: Callable[[PutAnswer], None], unanswered: Unanswered
    ) -> None:
        """Put a batch if this is still the owner and nothing has its number."""

    def claim(self, claim: Claim, answered: Callable[[ClaimAnswer], None], unanswered: Unanswered) -> None:
        """Change the owner if the group is in the epoch before."""

    def ask_owner(self, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        """Ask who is the owner."""

    def read(self, after: int, answered: Callable[[LogRead], None], unanswered: Unanswered) -> None:
        """Read some batches after a number, and what belongs to the answer."""

    def delete(
        self, numbers: Sequence[int], owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        """Delete these batches if this is still the owner."""

    def cut(self, upto: int, owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        """Delete the batches up to a number, which no member needs, if this is still the owner."""

    def doubt(self) -> None:
        """What was read is damaged: let another member of the engine answer the next requests."""

    def want_copy(self, wanted: CopyWanted, answered: Callable[[], None], unanswered: Unanswered) -> None:
        """Put a node's request for a part of another node's copy, in the place of its request before."""

    def read_wanted(self, answered: Callable[[Sequence[CopyWanted]], None], unanswered: Unanswered) -> None:
        """Read the requests of all nodes."""

    def give_copy(
        self, wanted: CopyWanted, part: CopyPart, answered: Callable[[], None], unanswered: Unanswered
    ) -> None:
        """Put a part that a node wants, in the place of its part before."""

    def read_copy(self, receiver: int, answered: Callable[[CopyPart | None], None], unanswered: Unanswered) -> None:
        """Read the last part that was put for a node."""

    def end_copy(self, receiver: int) -> None:
        """Delete a node's request and part. Nothing is answered: if they stay, the next copy replaces them."""
