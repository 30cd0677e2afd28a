"""The groups of a node in a cluster: each has a log that several nodes share, and queues over this node's copy of it.

A queue belongs to one group for good. Its identity says which, and by which number the log of the group knows it: so
all nodes agree on both without asking.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from core.engine.quorum.group_numbers import GroupNumbers, number_in_log
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.interface import QueueDeclaration


class SharedQueue(NamedTuple):
    """The definition of a queue that all nodes have."""

    virtual_host: str
    declaration: QueueDeclaration
    identity: str
    home: str = ""
    """The node of an exclusive queue, which is that of its connection; "" for any other."""


class QuorumGroup(NamedTuple):
    """One group on this node."""

    number: int
    shared: SharedLog
    queues: QuorumQueues


class QuorumGroups:
    """All groups of a node, and what the engine needs of the cluster."""

    def __init__(self) -> None:
        self.all: Mapping[int, QuorumGroup] = {}
        """The groups by number, from 1. They are opened after this object is made."""
        self.numbers = GroupNumbers(1)
        """Which groups there are. They are all open, also those of which this node is no member."""
        self.touched: dict[int, None] = {}
        """The groups with which something has happened since the node's last step: the step looks only at these."""
        self.wake: Callable[[], None] = lambda: None
        """Called when a log has something to send."""

    def touch(self, number: int) -> None:
        """The log of a group has something to send, or an answer has come."""
        self.touched[number] = None
        self.wake()

    def of(self, identity: str) -> tuple[QuorumGroup, int]:
        """Return the group of a queue, and the queue's number in its log."""
        return self.all[self.numbers.of(identity)], number_in_log(identity)

    @property
    def in_order(self) -> Sequence[QuorumGroup]:
        """All groups."""
        return list(self.all.values())
