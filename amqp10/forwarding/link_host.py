"""The links of a connection to another node: those that are there, those that wait for a session; what they need."""

from collections.abc import Callable
from itertools import count
from typing import Protocol

from amqp10.forwarding.arriving import ArrivingMessages
from amqp10.frontend.held_attaches import DEFINITIONS_KEY
from amqp10.protocol.session import Link, Session
from amqp10.wire.types import ULong
from core.errors import EngineError
from core.interface import Converter
from core.order_position import OrderPosition


class FarEnd(Protocol):
    """A link to another node, or a pair of links."""

    def attach(self, session: Session) -> None:
        """Attach on this session."""

    def lost(self, error: EngineError) -> None:
        """It is over."""


class LinkHost:
    """The links to one node for one virtual host, over any number of sockets, one after the other."""

    def __init__(self, node: str, converter: Converter, order: OrderPosition, touch: Callable[[], None]) -> None:
        """``order``: how far this node is. ``touch`` has the output of the connection sent."""
        self.order = order
        self.converter = converter
        self.arriving = ArrivingMessages()
        self.touch = touch
        self._node = node
        self._links: dict[FarEnd, None] = {}
        self._to_attach: dict[FarEnd, None] = {}
        self._numbers = count()

    def __contains__(self, link: FarEnd) -> bool:
        return link in self._links

    def next_link_name(self) -> str:
        """A name that no other link of the connection has had."""
        return f"{self._node}/{next(self._numbers)}"

    @property
    def attach_properties(self) -> dict[str, object]:
        """What each attach says: which definitions the other node needs for it."""
        return {DEFINITIONS_KEY: ULong(self.order.made)} if self.order.made > 0 else {}

    def detach(self, link: Link | None) -> None:
        """Detach a link, if it is attached. Its user hears no more of it."""
        if link is not None and link.end.attached:
            session = link.channel
            assert isinstance(session, Session)
            session.detach(link)
            link.reference = None
            self.touch()

    def enter(self, link: FarEnd) -> None:
        """A link is to be attached."""
        self._links[link] = None
        self._to_attach[link] = None

    def forget(self, link: FarEnd) -> None:
        """A link is over, or is not wanted any more."""
        self._links.pop(link, None)
        self._to_attach.pop(link, None)

    def next_to_attach(self) -> FarEnd | None:
        """Take a link that is to be attached."""
        link = next(iter(self._to_attach), None)
        if link is not None:
            del self._to_attach[link]
        return link

    @property
    def links_wait(self) -> bool:
        """Whether links are to be attached."""
        return bool(self._to_attach)

    def lose(self, error: EngineError) -> None:
        """The connection is lost: all links are over."""
        links, self._links, self._to_attach = self._links, {}, {}
        for link in links:
            link.lost(error)
