"""How many links a virtual host has, and how many it may have."""

from dataclasses import dataclass


@dataclass(slots=True)
class LinkCount:
    """How many links of AMQP 1.0 publish to a virtual host or consume from it, and how many may."""

    count: int = 0
    """Front ends count them."""
    most: int | None = None
    """None for no limit."""
