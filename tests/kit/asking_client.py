"""A client of AMQP 1.0 that asks for things, beside a queue and a stream that keep what it could lose."""

from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import End
from tests.kit.wire import InProcessBroker, numbered


class AskingClient:
    """A client with a session, beside a queue ``q`` of three messages."""

    def __init__(self, *, durable: bool = False, **open_fields: object) -> None:
        self.broker = InProcessBroker(durable=durable)
        self.address = self.broker.queue()
        self.broker.fill(numbered(3))
        self.peer = self.broker.connect(**open_fields)
        self.peer.begin()

    def source(self, **fields: object) -> Source | None:
        """Attach a receiver with this source; the source in the answer, None when it is refused."""
        given = {"address": self.address} | fields
        answer = self.peer.attach_receiver(self.address, source=Source(**given)).source  # type: ignore[arg-type]
        assert answer is None or isinstance(answer, Source)
        return answer

    def target(self, **fields: object) -> Target | None:
        """Attach a sender with this target; the target in the answer, None when it is refused."""
        given = {"address": self.address} | fields
        answer = self.peer.attach_sender(self.address, target=Target(**given)).target  # type: ignore[arg-type]
        assert answer is None or isinstance(answer, Target)
        return answer

    def refused(self, condition: str) -> bool:
        """The link was detached with this condition, after an attach with null termini; nothing was lost."""
        return self.peer.detached_with(condition) and not self.peer.take(End) and self.broker.ready() == 3

    def stream(self) -> str:
        """The address of a stream with three messages; for a broker with storage."""
        address = self.broker.queue("s", x_queue_type="stream")
        self.broker.fill(numbered(3), "s")
        return address
