"""An arena for tests of hostile peers, with a bystander whom no attack may touch, and bytes that no honest encoder
writes.

The bystander publishes to a queue of its own and consumes from it, on a connection of its own, and keeps a ledger.
After every attack the bystander's next round must go exactly as the one before, and no message may be lost.
"""

from amqp10.protocol.sasl import SaslServerMechanism
from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition, Flow
from core.config.settings import Settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered

ROUND = 7
"""How many messages the bystander publishes in one round."""
VICTIMS = 20
"""How many messages lie in the queue of :attr:`Arena.address` from the start."""


class Bystander:
    """A well-behaved client, with a ledger of what it sent and of the outcomes."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.address = broker.queue("bystander")
        self.rounds = 0
        self._sent: list[bytes] = []
        self._received: list[bytes] = []
        self._peer = broker.connect(container_id="bystander")
        self._peer.begin()
        self._peer.attach_sender(self.address)
        self._peer.attach_receiver(self.address)
        self._peer.frames.clear()

    def round(self) -> None:
        """Publish, wait for the confirms, consume and settle. Checks that each message comes once and in order, and
        that no other frame comes."""
        peer, bodies = self._peer, numbered(ROUND, ROUND * self.rounds)
        self.rounds += 1
        assert not peer.lost
        peer.grant(ROUND)
        frames = [peer.transfer_frame(body) for body in bodies]
        peer.send_all(frames)
        self._sent += bodies
        deliveries = peer.deliveries()
        self._received += [body_of(payload) for _, payload in deliveries]
        assert self._received == self._sent
        (confirmed,) = peer.take(Disposition)
        assert (confirmed.first, confirmed.last) == (frames[0][0].delivery_id, frames[-1][0].delivery_id)
        assert confirmed.settled
        assert confirmed.state == ACCEPTED
        peer.dispose(deliveries[0][0].delivery_id, deliveries[-1][0].delivery_id, state=ACCEPTED)
        peer.take(Flow)
        assert peer.nothing_came()


class Arena:
    """A broker with a bystander, a queue with messages to attack, and the attackers' connections."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.broker = InProcessBroker(settings)
        self.address = self.broker.queue("q")
        self.broker.fill(numbered(VICTIMS))
        self.bystander = Bystander(self.broker)
        self.bystander.round()
        self.expected = numbered(VICTIMS)
        """The bodies that the queue must hold when every attacker is gone. A test that publishes or accepts changes
        them."""

    def attacker(self, **open_fields: object) -> WirePeer:
        """A connection that is open, with one session."""
        peer = self.broker.connect(**open_fields)
        peer.begin()
        return peer

    def stranger(self, *mechanisms: SaslServerMechanism, bare_allowed: bool = False) -> WirePeer:
        """A connection that has sent nothing yet. Without ``mechanisms`` it may use ANONYMOUS."""
        if mechanisms or bare_allowed:
            return WirePeer(self.broker, mechanisms, bare_allowed=bare_allowed)
        return WirePeer(self.broker)

    def advance(self, seconds: int) -> None:
        """Let time pass; the bystander does a round each second."""
        for _ in range(seconds):
            self.broker.advance(1.0)
            self.bystander.round()

    def finish(self) -> None:
        """Check after the attack that the bystander goes on, no message is lost, and the attackers left nothing
        behind."""
        self.bystander.round()
        for peer in self.broker.peers[1:]:
            peer.disconnect()
        self.bystander.round()
        engine = self.broker.engine
        assert len(engine.snapshot("publishers")) == 1
        assert len(engine.snapshot("consumers")) == 1
        assert {row["name"] for row in engine.snapshot("queues")} == {"q", "bystander"}
        assert self.broker.ready("bystander") == self.broker.unacknowledged("bystander") == 0
        assert self.remaining() == self.expected

    def remaining(self) -> list[bytes]:
        """The bodies in the attacked queue, in the order in which the next consumer gets them."""
        peer = self.broker.connect(max_frame_size=2**32 - 1)
        peer.begin()
        peer.attach_receiver(self.address, snd_settle_mode=1)
        peer.grant(100_000)
        bodies = peer.bodies()
        peer.disconnect()
        return bodies


# --- bytes that no honest encoder writes -----------------------------------------------------------------------------


def nested_lists(depth: int) -> bytes:
    """Lists in lists to this depth; the innermost list is empty."""
    encoded = b"\x45"
    for _ in range(depth - 1):
        encoded = b"\xd0" + (len(encoded) + 4).to_bytes(4) + b"\x00\x00\x00\x01" + encoded
    return encoded


def nested_descriptors(depth: int) -> bytes:
    """A null that is described this many times."""
    return b"\x00\x44" * depth + b"\x40"


def zero_width_array(count: int) -> bytes:
    """An array that claims this many empty lists, and has no bytes for them."""
    return b"\xf0" + (5).to_bytes(4) + count.to_bytes(4) + b"\x45"


def list_claiming(count: int) -> bytes:
    """A list that claims this many elements and holds one."""
    return b"\xd0" + (5).to_bytes(4) + count.to_bytes(4) + b"\x40"


def map_claiming(count: int) -> bytes:
    """A map that claims this many keys and values and holds one of each."""
    return b"\xd1" + (8).to_bytes(4) + count.to_bytes(4) + b"\xa3\x01k\x40"


def map_of_pairs(*pairs: bytes) -> bytes:
    """A map of encoded keys and values, also of those that the specification forbids in a map."""
    content = b"".join(pairs)
    return b"\xd1" + (len(content) + 4).to_bytes(4) + len(pairs).to_bytes(4) + content


def list_of(*items: bytes) -> bytes:
    """A list of encoded values."""
    content = b"".join(items)
    return b"\xd0" + (len(content) + 4).to_bytes(4) + len(items).to_bytes(4) + content


def composite(code: int, *fields: bytes) -> bytes:
    """A described list of encoded fields."""
    return b"\x00\x53" + bytes([code]) + list_of(*fields)


def section(code: int, value: bytes) -> bytes:
    """A section of a message with an encoded value."""
    return b"\x00\x53" + bytes([code]) + value


def frame(body: bytes, *, channel: int = 0, size: int | None = None, doff: int = 2, kind: int = 0) -> bytes:
    """A frame. Its header may say something wrong."""
    size = len(body) + 8 if size is None else size
    return size.to_bytes(4) + bytes([doff, kind]) + channel.to_bytes(2) + body


# --- looking for growth ----------------------------------------------------------------------------------------------


def held(peer: WirePeer) -> dict[str, int]:
    """How many objects of each kind the broker keeps for a connection that is open."""
    connection = peer.front_end.connection
    engine = peer.broker.engine
    links = [link for session in connection.all_sessions for link in session.links]
    return {
        "sessions": len(connection.all_sessions),
        "channels": len(connection._by_incoming),
        "links": len(links),
        "handles": sum(len(session._links_in) for session in connection.all_sessions),
        "names": len(connection.link_names._owners),
        "unsettled": sum(session.incoming.count + session.outgoing.count for session in connection.all_sessions),
        "partial bytes": connection._partial_bytes,
        "input": len(connection._buffer),
        "output": connection._output_bytes,
        "publishers": len(engine.snapshot("publishers")),
        "consumers": len(engine.snapshot("consumers")),
        "queues": len(engine.snapshot("queues")),
    }
