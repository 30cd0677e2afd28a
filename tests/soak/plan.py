"""The flows of the soak: their queues, their publishers and consumers, and the kinds of messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.soak.bookkeeping import Book

SMALL = (12, 40, 200, 1000, 3000)
"""Different sizes in bytes, used in turn, because a run of like messages is the easy case."""
LARGE = (5_000, 20_000, 70_000, 200_000)
"""Bodies above 4 KiB go to the message store. Those above the frame size travel in several frames."""
NUMBER_DIGITS = 12


@dataclass(slots=True)
class Flow:
    """Messages of one publisher on their way to the consumer of :attr:`source`."""

    name: str
    publisher: str
    """The protocol of publisher and consumer: ``amqp10`` or ``amqp091``."""
    consumer: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    durable: bool = True
    """True when the messages are durable. The queues all are."""
    presettled: bool = False
    """True when messages are published without an outcome, or without a confirm."""
    sizes: tuple[int, ...] = SMALL
    per_second: float = 100.0
    burst: int = 10
    settles: str = "accept"
    """What the consumer does: ``accept``, ``release`` one of ten at first, ``reject`` one of ten, ``cut`` its
    connection after some hundred messages, ``settled`` for messages that come settled."""
    source: str = ""
    """The queue to consume from in place of the flow's own: the queue of the dead letters."""
    exchange: str = ""
    """The exchange to publish to, with the name of the flow as the key."""
    book: Book = field(init=False)
    dead: "Flow | None" = None
    """The flow to which messages that the consumer rejects must come."""

    def __post_init__(self) -> None:
        self.book = Book(self.name)

    @property
    def queue(self) -> str:
        """The queue that the consumer consumes from."""
        return self.source or self.name

    @property
    def stream(self) -> bool:
        """True when the queue is a stream, which keeps what was consumed."""
        return self.arguments.get("x-queue-type") == "stream"


def body(number: int, sizes: tuple[int, ...]) -> bytes:
    """The body for this number."""
    return b"%0*d" % (NUMBER_DIGITS, number) + b"." * (sizes[number % len(sizes)] - NUMBER_DIGITS)


def number_of(content: bytes) -> int:
    """The number in a body."""
    return int(content[:NUMBER_DIGITS])


QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream", "x-max-length-bytes": 8_000_000, "x-stream-max-segment-size-bytes": 1_000_000}


def dead_to(queue: str) -> dict[str, object]:
    """The arguments that send dead letters to this queue."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def flows() -> list[Flow]:
    """All flows."""
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
