"""What limits the window of a publisher."""

from enum import StrEnum


class WindowLimit(StrEnum):
    """What limits a window."""

    BOUND = "bound"
    """A policy or an operator."""
    BYTES = "bytes"
    """A budget of bytes."""
    QUEUE = "queue"
    """The fair rate of the target."""
    DISTANCE = "distance"
    """The publisher has waited for flows, so the window grows."""
    PUBLISHER = "publisher"
    """The publisher sends less than it may."""
