"""A connection of python-qpid-proton that a test drives step by step, and everything that happens on it.

Proton's own handlers grant link credit, settle and accept by themselves; this one does nothing by itself. It needs
python-qpid-proton at import, so tests take it from the fixture ``connect`` of ``tests/interop``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proton import Delivery, Endpoint, Link, Message, symbol
from proton.reactor import Container

SECONDS_MAX = 10.0
"""A step that takes longer has failed: a busy machine alone does not take this long."""


@dataclass(slots=True)
class Received:
    """A message and the delivery that brought it."""

    message: Message
    delivery: Delivery


@dataclass
class ProtonPeer:
    """One connection, open from the beginning, with the messages that came on its links."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    container_id: str | None = None
    """None: a random one, which proton makes."""
    received: dict[str, list[Received]] = field(default_factory=dict)
    disconnected: str | None = None
    """Why the transport ended, in proton's words."""
    _partial: dict[str, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.container = Container(self)
        self.container.timeout = SECONDS_MAX
        self.container.container_id = self.container_id or self.container.container_id
        self.container.start()
        self.connection = self.container.connect(self.url, reconnect=False, **self.options)

    # --- what a test does --------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], what: str = "it") -> None:
        """Process events until the condition holds."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"waited too long for {what}"
            assert self.disconnected is None, f"disconnected while waiting for {what}: {self.disconnected}"
            self.container.process()

    def opened(self) -> "ProtonPeer":
        """Wait for the broker's open."""
        self.until(lambda: self.connection.state & Endpoint.REMOTE_ACTIVE, "the connection")
        return self

    def session(self) -> Any:
        """Open a new session."""
        session = self.connection.session()
        session.open()
        return session

    def sender(self, address: str | None, *, name: str | None = None, session: Any = None, **modes: int) -> Link:
        """Open a sending link and do not wait for the answer; ``modes`` are attributes of the link."""
        link = (session or self._first_session()).sender(name or f"to {address}")
        link.target.address = address
        return self._open(link, modes)

    def receiver(self, address: str | None, *, name: str | None = None, session: Any = None, **modes: int) -> Link:
        """Open a receiving link without link credit, and do not wait for the answer."""
        link = (session or self._first_session()).receiver(name or f"from {address}")
        if address is None:
            link.source.dynamic = True
        link.source.address = address
        return self._open(link, modes)

    def attached(self, *links: Link) -> None:
        """Wait for the broker's attach on each of the links."""
        self.until(lambda: all(link.state & Endpoint.REMOTE_ACTIVE for link in links), "attach")

    def flow(self, link: Link, credit: int) -> None:
        """Add link credit."""
        link.flow(credit)
        self.until(lambda: True)

    def closed(self, endpoint: Any) -> tuple[str, str]:
        """Wait until the broker closes its end; returns the condition and its description."""
        self.until(lambda: endpoint.state & Endpoint.REMOTE_CLOSED, "the other end to close")
        condition = endpoint.remote_condition
        return (condition.name, condition.description) if condition is not None else ("", "")

    def send(self, link: Link, *messages: Message) -> list[Delivery]:
        """Send as much as the link credit allows; returns the deliveries."""
        deliveries = []
        for message in messages:
            self.until(lambda: link.credit > link.queued, "link credit")
            deliveries.append(link.send(message))
        return deliveries

    def publish(self, address: str, *bodies: object) -> None:
        """Send messages with these bodies and wait until every one is accepted."""
        link = self.sender(address)
        deliveries = self.send(link, *(Message(body=body) for body in bodies))
        self.settled(deliveries)
        assert {delivery.remote_state for delivery in deliveries} <= {Delivery.ACCEPTED}
        link.close()

    def settled(self, deliveries: list[Delivery]) -> None:
        """Wait until the broker has settled these deliveries; settle them too, and return their states."""
        self.until(lambda: all(delivery.settled for delivery in deliveries), "settlement")

    def take(self, link: Link, n: int) -> list[Received]:
        """Take the next ``n`` messages that came on a link."""
        queue = self.received.setdefault(link.name, [])
        self.until(lambda: len(queue) >= n, f"{n} messages on {link.name!r}, {len(queue)} are here")
        taken, queue[:n] = queue[:n], []
        return taken

    def drain(self, link: Link) -> list[Received]:
        """Drain a link with the link credit given before; returns everything that came."""
        link.drain_mode = True
        link.flow(0)
        self.until(lambda: not link.draining(), "the drain to end")
        link.drain_mode = False
        return self.take(link, len(self.received.get(link.name, ())))

    def request(self, subject: str, to: str, body: object = None) -> Message:
        """Send a request to the management node; returns its answer."""
        requests, answers = (
            self._pair_half(self._first_session().sender("pair"), "target", "source"),
            self._pair_half(self._first_session().receiver("pair"), "source", "target"),
        )
        self.attached(requests, answers)
        answers.flow(1)
        request = Message(id=1, subject=subject, address=to, reply_to="$me", body=body, inferred=False)
        self.send(requests, request)
        (answer,) = self.take(answers, 1)
        requests.close()
        answers.close()
        return answer.message

    def close(self) -> None:
        """Close the connection and wait for the broker."""
        if self.disconnected is None:
            self.connection.close()
            while self.disconnected is None and self.container.process():
                pass
        self.container.stop()

    # --- what proton calls
    # ---------------------------------------------------------------------------------------------

    def on_delivery(self, event: Any) -> None:
        """Take what has come of a delivery, so that proton's session window opens. The delivery stays unsettled."""
        link, delivery = event.link, event.delivery
        if not link.is_receiver:
            return
        if delivery.aborted:
            self._partial.pop(link.name, None)
            delivery.settle()
        elif delivery.readable:
            chunks = self._partial.setdefault(link.name, [])
            chunks.append(link.recv(delivery.pending))
            if not delivery.partial:
                message = Message()
                message.decode(b"".join(self._partial.pop(link.name)))
                link.advance()
                self.received.setdefault(link.name, []).append(Received(message, delivery))

    def on_transport_error(self, event: Any) -> None:
        """Note why the connection was lost."""
        self.disconnected = str(event.transport.condition)

    def on_transport_closed(self, event: Any) -> None:
        """Note that the connection has ended."""
        if self.disconnected is None:
            self.disconnected = "closed"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _first_session(self) -> Any:
        session = self.connection.session_head(0)
        return session if session is not None else self.session()

    @staticmethod
    def _open(link: Link, modes: dict[str, int]) -> Link:
        for attribute, value in modes.items():
            setattr(link, attribute, value)
        link.open()
        return link

    @staticmethod
    def _pair_half(link: Link, near: str, far: str) -> Link:
        getattr(link, near).address = getattr(link, far).address = "/management"
        link.properties = {symbol("paired"): True}
        link.snd_settle_mode = Link.SND_SETTLED
        link.open()
        return link
