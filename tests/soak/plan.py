"""The flows of the soak: which queue, who publishes, who consumes, what the messages are like."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.soak.bookkeeping import Book

SMALL = (12, 40, 200, 1000, 3000)
"""Unlike sizes in bytes, in turn: a run of like messages is the easy case."""
LARGE = (5_000, 20_000, 70_000, 200_000)
"""Beyond 4 KiB bodies go to the message store; beyond the frame size they travel in several frames."""
NUMBER_DIGITS = 12


@dataclass(slots=True)
class Flow:
    """Messages of one publisher on their way to the consumer of :attr:`source`."""

    name: str
    publisher: str
    """The protocol: ``amqp10`` or ``amqp091``."""
    consumer: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    durable: bool = True
    """Of the messages; the queues all are."""
    presettled: bool = False
    """Published without an outcome, or without a confirm."""
    sizes: tuple[int, ...] = SMALL
    per_second: float = 100.0
    burst: int = 10
    settles: str = "accept"
    """What the consumer does: ``accept``, ``release`` one of ten at first, ``reject`` one of ten, ``cut`` its
    connection after some hundred messages, ``settled`` for messages that come settled."""
    source: str = ""
    """Consumed from here instead: the queue of the dead letters."""
    exchange: str = ""
    """Published to this exchange, with the name as the key."""
    book: Book = field(init=False)
    dead: "Flow | None" = None
    """Where what the consumer rejects must come."""

    def __post_init__(self) -> None:
        self.book = Book(self.name)

    @property
    def queue(self) -> str:
        """What the consumer consumes from."""
        return self.source or self.name

    @property
    def stream(self) -> bool:
        """It keeps what was consumed."""
        return self.arguments.get("x-queue-type") == "stream"


def body(number: int, sizes: tuple[int, ...]) -> bytes:
    """The body that is this number."""
    return b"%0*d" % (NUMBER_DIGITS, number) + b"." * (sizes[number % len(sizes)] - NUMBER_DIGITS)


def number_of(content: bytes) -> int:
    """The number that a body is."""
    return int(content[:NUMBER_DIGITS])


QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream", "x-max-length-bytes": 8_000_000, "x-stream-max-segment-size-bytes": 1_000_000}


def dead_to(queue: str) -> dict[str, object]:
    """Dead letters go to this queue."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def flows() -> list[Flow]:
    """All of them."""
    rejected = Flow("rejected", "", "amqp10")
    return [
        Flow("classic", "amqp10", "amqp10"),
        Flow("classic-091", "amqp091", "amqp091"),
        Flow("transient", "amqp10", "amqp091", durable=False, per_second=200, burst=40),
        Flow("presettled", "amqp091", "amqp10", durable=False, presettled=True, settles="settled", per_second=200),
        Flow("lazy", "amqp091", "amqp10", {"x-queue-mode": "lazy"}, burst=100),
        Flow("large", "amqp10", "amqp091", sizes=LARGE, per_second=4, burst=2),
        Flow("large-091", "amqp091", "amqp10", sizes=LARGE, per_second=4, burst=2),
        Flow("quorum", "amqp10", "amqp10", QUORUM),
        Flow("quorum-091", "amqp091", "amqp091", QUORUM, per_second=50),
        Flow("stream", "amqp10", "amqp10", STREAM),
        Flow("stream-091", "amqp091", "amqp091", STREAM, per_second=50),
        Flow("released", "amqp10", "amqp10", settles="release"),
        Flow("requeued", "amqp091", "amqp091", QUORUM, settles="release", per_second=50),
        Flow("cut", "amqp091", "amqp10", settles="cut"),
        Flow("cut-quorum", "amqp10", "amqp10", QUORUM, settles="cut", per_second=50),
        rejected,
        Flow("rejecting", "amqp10", "amqp091", dead_to("rejected"), settles="reject", dead=rejected),
        Flow("expiring", "amqp091", "amqp091", {"x-message-ttl": 500} | dead_to("expired"), source="expired"),
        Flow("routed", "amqp10", "amqp10", exchange="soak-topics"),
    ]
