"""What a remote queue asks of its links to the node that leads it."""

from typing import Protocol

from core.interface import Disposal
from core.message import Return, RunPart


class FarSender(Protocol):
    """A link that publishes to a queue on its home node."""

    @property
    def room(self) -> int:
        """How many messages the home node takes now: its link credit, less what waits here for the session's
        window."""

    def send(self, first: int, part: RunPart) -> None:
        """Send messages with numbers from ``first`` up; no more than there is room for."""

    def close(self) -> None:
        """Detach. No call of the outlet follows."""


class FarReceiver(Protocol):
    """A link that consumes from a queue on its home node. Deliveries are named by numbers of the link's session."""

    def grant(self, n: int, *, drain: bool, echo: bool) -> None:
        """Set the link credit. With ``echo`` ask for an answer, which :meth:`Inlet.answered` brings behind all
        deliveries that the link credit brings at once."""

    def settle(self, first: int, last: int, disposal: Disposal | Return) -> None:
        """Settle deliveries, first and last inclusive. They must all be of this link and unsettled."""

    def close(self) -> None:
        """Detach: the home node takes back what is unsettled. No call of the inlet follows."""
