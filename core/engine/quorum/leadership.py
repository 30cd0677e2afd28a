"""Whether this node leads a group of quorum queues: one object, which each queue of the group looks at in its turns."""

from dataclasses import dataclass


@dataclass(slots=True)
class Leadership:
    """The term in which this node leads a group; each term has a number of its own."""

    term: int = 0
    """0 while this node does not lead."""
    moving: bool = False
    """Whether the node that leads has handed the group over to another one, which leads in a moment."""
