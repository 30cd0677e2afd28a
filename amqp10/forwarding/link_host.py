"""What the links to another node ask of their connection, and what that asks of them."""

from typing import Protocol

from amqp10.forwarding.arriving import ArrivingMessages
from amqp10.protocol.session import Session
from core.errors import EngineError
from core.interface import Converter


class FarEnd(Protocol):
    """A link to another node, or a pair of links."""

    def attach(self, session: Session) -> None:
        """Attach on this session."""

    def lost(self, error: EngineError) -> None:
        """It is over."""


class LinkHost(Protocol):
    """The connection that a far link uses."""

    converter: Converter
    arriving: ArrivingMessages

    def touch(self) -> None:
        """Have the output sent."""

    def next_link_name(self) -> str:
        """A name that no other link of the connection has had."""

    def forget(self, link: FarEnd) -> None:
        """The link is over."""
