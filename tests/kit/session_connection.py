"""A connection for tests of a session alone, with nothing behind it."""

from collections import Counter

from amqp10.protocol.connection import Event
from amqp10.protocol.link_names import LinkNames
from amqp10.protocol.session import Session
from amqp10.wire.framing import Piece
from amqp10.wire.performatives import Performative
from tests.kit.link_channel import decode_frames


class ConnectionInMemory:
    """Everything that a session asks of its connection."""

    def __init__(self) -> None:
        self.frame_size_max = 512
        self.link_names = LinkNames()
        self.flow_frames: Counter[tuple[str, str]] = Counter()
        self.written: list[tuple[Performative, bytes]] = []
        self.events: list[Event] = []
        self.to_flush: dict[Session, None] = {}
        self.refilled = None
        self.partial_bytes = 0

    def write(self, channel: int, performative: Performative, payload: bytes) -> None:
        assert channel == 4
        self.written.append((performative, payload))

    def write_frames(self, *pieces: Piece) -> None:
        self.written += decode_frames(b"".join(pieces))

    def report(self, event: Event) -> None:
        self.events.append(event)

    def hold_partial(self, partial: object, change_bytes: int) -> None:
        self.partial_bytes += change_bytes

    def output_room(self) -> int:
        return 2**20
