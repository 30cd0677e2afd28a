"""Clients with a whole engine of their own, connected to an in-process broker; their bytes travel when a test says so.

A :class:`BrokerClient` is a :class:`~tests.kit.peers.Side` whose other side is the broker. Between them lie the bytes
that are under way in each direction, so frames of both can cross, and bytes can be lost together with a connection.
"""

from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link, Session
from amqp10.protocol.settings import ConnectionSettings
from tests.kit.peers import FIRST, MIXED, Outbox, Side, check_agreement, client_handshake
from tests.kit.wire import InProcessBroker, WirePeer

WHOLE = 2**30


class BrokerClient:
    """One connection to the broker, opened, with one session."""

    def __init__(self, broker: InProcessBroker, *, frame_size: int = 512) -> None:
        self.wire = WirePeer(broker)
        settings = ConnectionSettings(container_id="client", max_frame_size=frame_size, idle_time_out_ms=None)
        self.side = Side(Connection(settings, client_handshake()))
        self._to_broker = b""
        self.rest()
        self.side.connection.open()
        self.rest()
        self.begin()
        self.rest()

    # --- what the client does

    def begin(self) -> Session:
        """Begin a session."""
        session = self.side.connection.new_session()
        session.begin()
        return session

    def attach_sender(self, session: Session, name: str, address: str, *, snd: int = MIXED) -> SenderLink:
        """Attach a publishing link."""
        link = session.new_sender(name)
        self.side.adopt(link)
        self.side.send_attach(link, snd=snd, rcv=FIRST, address=address)
        return link

    def attach_receiver(
        self, session: Session, name: str, address: str, *, snd: int = MIXED, rcv: int = FIRST
    ) -> ReceiverLink:
        """Attach a consuming link."""
        link = session.new_receiver(name)
        self.side.adopt(link)
        self.side.send_attach(link, snd=snd, rcv=rcv, address=address)
        return link

    def lose(self) -> None:
        """Lose the connection, and the bytes that are under way."""
        self._to_broker = self.wire.raw = b""
        self.wire.disconnect()
        self.side.connection.receive_eof()
        self.side.take_events()

    # --- bytes

    def carry_to_broker(self, size: int) -> bool:
        """Deliver at most this many bytes to the broker. False when there are none."""
        self._to_broker += self.side.output()
        self.side.take_events()
        piece, self._to_broker = self._to_broker[:size], self._to_broker[size:]
        if piece:
            self.wire.send_bytes(piece)
        return bool(piece)

    def carry_to_client(self, size: int) -> bool:
        """Deliver at most this many bytes to the client. False when there are none."""
        piece, self.wire.raw = self.wire.raw[:size], self.wire.raw[size:]
        if piece:
            self.side.take(piece)
        return bool(piece)

    def rest(self) -> bool:
        """Carry bytes both ways until there are none. True when there were any."""
        moved = False
        while self.carry_to_broker(WHOLE) | self.carry_to_client(WHOLE):
            moved = True
        return moved

    # --- what tests look at

    def check_agreement(self) -> None:
        """Check that broker and client agree on windows and link credit. No byte may be under way."""
        check_agreement(self.side.connection, self.wire.front_end.connection)

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are mapped."""
        return self.side.connection.sessions

    @property
    def links(self) -> list[Link]:
        """The links that are attached."""
        return [link for session in self.sessions for link in session.links if link.end.attached]

    @property
    def outboxes(self) -> list[Outbox]:
        """The outboxes of the publishing links that are attached."""
        return [link.reference for link in self.links if isinstance(link.reference, Outbox)]


def rest(clients: list[BrokerClient]) -> None:
    """Carry bytes between the broker and all of these clients until there are none. The bytes of one client may cause
    output to another."""
    while sum(client.rest() for client in clients):
        pass
