"""An arena for tests of hostile 0.9.1 peers, with a bystander of the same protocol whom no attack may touch.

The bystander publishes to a queue of its own, with confirms, and consumes from it, on a connection of its own. After
every attack the bystander's next round must go exactly as the one before.
"""

from core.amqp091.framing import FrameType, encode_frame
from core.amqp091.methods import ChannelClose, ConnectionClose
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect

ROUND = 7
"""How many messages the bystander publishes in one round."""
VICTIMS = 20
"""How many messages lie in queue q from the start."""


class Bystander091:
    """A well-behaved client."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.rounds = 0
        self._peer = connect(broker, 1, 2)
        self._peer.declare("bystander")
        self._peer.select_confirms()
        self._peer.consume("bystander", channel=2)

    def round(self) -> None:
        """Publish, wait for the confirms, consume and acknowledge. Checks that each message comes once and in order,
        and that no other frame comes."""
        peer, first = self._peer, ROUND * self.rounds
        self.rounds += 1
        assert not peer.lost
        peer.publish(1, numbered(ROUND, first), routing_key="bystander")
        confirms = peer.confirms()
        assert {kind for kind, _, _ in confirms} == {"ack"}
        assert confirms[-1][1] == first + ROUND
        deliveries = peer.deliveries()
        assert [body for _, _, body in deliveries] == numbered(ROUND, first)
        peer.ack(first + ROUND, multiple=True, channel=2)
        assert peer.take() == []


class Arena091:
    """A broker with a bystander, and a queue with messages to attack."""

    def __init__(self, *, channel_messages_per_turn: int | None = None, **settings: int) -> None:
        """``settings`` are keys of ``[amqp091]``."""
        stages = {} if channel_messages_per_turn is None else {"channel": channel_messages_per_turn}
        self.settings = make_settings(amqp091=settings, engine={"stage_messages_per_turn": stages})
        self.broker = InProcessBroker()
        self.broker.queue("q")
        self.broker.fill(numbered(VICTIMS))
        self.bystander = Bystander091(self.broker)
        self.bystander.round()

    def attacker(self, *channels: int) -> Wire091Peer:
        """A connection that is open, with these channels; channels 1 and 2 by default."""
        return connect(self.broker, *(channels or (1, 2)), settings=self.settings)

    def stranger(self) -> Wire091Peer:
        """A connection that has sent nothing yet."""
        return Wire091Peer(self.broker, self.settings)

    def finish(self) -> None:
        """Check after the attack that the bystander goes on, and that the attackers left nothing behind."""
        self.bystander.round()
        for peer in self.broker.peers[1:]:
            peer.disconnect()  # type: ignore[attr-defined]
        self.bystander.round()
        engine = self.broker.engine
        assert len(engine.snapshot("publishers")) == len(engine.snapshot("consumers")) == 1
        assert self.broker.ready("bystander") == self.broker.unacknowledged("bystander") == 0
        assert self.broker.unacknowledged() == 0


def raw_method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """A method frame whose arguments may be any bytes."""
    return encode_frame(FrameType.METHOD, channel, class_id.to_bytes(2) + method_id.to_bytes(2) + arguments)


def nested_table(depth: int) -> bytes:
    """An encoded field table of tables, nested to this depth."""
    table = (0).to_bytes(4)
    for _ in range(depth):
        field = b"\x01kF" + table
        table = len(field).to_bytes(4) + field
    return table


def end(peer: Wire091Peer) -> tuple[str, int]:
    """What an attack ended: "connection" or "channel" with the code, or ("nothing", 0)."""
    for _, method, _ in peer.take():
        if isinstance(method, ConnectionClose):
            return "connection", method.reply_code
        if isinstance(method, ChannelClose):
            return "channel", method.reply_code
    return "nothing", 0
