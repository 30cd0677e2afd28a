"""Whether this node leads a group of quorum queues: one object, which each queue of the group looks at in its turns."""

from dataclasses import dataclass

LEADER_MOVING, NO_QUORUM = "leader-moving", "no-quorum"
"""Reasons in ``PublisherBlocked``, of docs/flow-reasons."""


@dataclass(slots=True)
class Leadership:
    """The term in which this node leads a group; each term has a number of its own."""

    term: int = 0
    """0 while this node does not lead."""
    moving: bool = False
    """Whether the node that leads has handed the group over to another one, which leads in a moment."""

    @property
    def held_for(self) -> str:
        """Why publishers wait while this node does not lead."""
        return LEADER_MOVING if self.moving else NO_QUORUM
