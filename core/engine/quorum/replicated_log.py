"""What quorum queues need of the log of their group: an order of commands that never loses a committed one.

There are two implementations. :class:`core.store.command_log.LocalCommandLog` is the log of one node: a command has its
place at once, and is committed when it is synced. :class:`core.engine.quorum.shared_log.SharedLog` is the log of
several nodes: a command gets its place on each node when it is committed.
"""

from collections.abc import Sequence
from typing import Protocol

from core.store.command_log import CommandPlace
from core.store.lane import LateWriter


class ReplicatedLog(Protocol):
    """The log of one group of quorum queues, for the node that leads it."""

    @property
    def committed(self) -> int:
        """All commands up to this position are safe, and can be read back here."""

    def append(self, payload: Sequence[bytes], payload_bytes: int, fencing_token: int, *, prompt: bool) -> CommandPlace:
        """Append a command. ``prompt``: a client waits for its commit. Raises LeaseLost.

        ``file`` of the place is 0 if the command has no place yet. Then :class:`core.engine.quorum.queues.QuorumQueues`
        applies it when it is committed, and the caller must not.
        """

    def later(self, writer: LateWriter) -> None:
        """Have ``writer.write_late()`` called once, just before the next batch is taken; it may append."""

    def write_now(self) -> None:
        """Have all commands appended in this turn, also by late writers, taken before the answers of the turn."""

    def read_bytes(self, file: int, offset: int, length: int) -> bytes:
        """Read part of a payload that has a place and was written. Raises StoreFailure, StoreDamaged."""
