"""A client of AMQP 1.0 that attaches links with termini of the test's making, and checks what the answer grants.

A queue and a stream with messages lie beside it: a link that is refused must not lose any of them.
"""

from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import End
from tests.kit.wire import InProcessBroker, numbered


class AskingClient:
    """A client with a session, and a queue ``q`` of three messages."""

    def __init__(self, *, durable: bool = False, **open_fields: object) -> None:
        self.broker = InProcessBroker(durable=durable)
        self.address = self.broker.queue()
        self.broker.fill(numbered(3))
        self.peer = self.broker.connect(**open_fields)
        self.peer.begin()

    def source(self, **fields: object) -> Source | None:
        """Attach a receiver with this source; returns the source of the answer, None when the link is refused."""
        given = {"address": self.address} | fields
        answer = self.peer.attach_receiver(self.address, source=Source(**given)).source  # type: ignore[arg-type]
        assert answer is None or isinstance(answer, Source)
        return answer

    def target(self, **fields: object) -> Target | None:
        """Attach a sender with this target; returns the target of the answer, None when the link is refused."""
        given = {"address": self.address} | fields
        answer = self.peer.attach_sender(self.address, target=Target(**given)).target  # type: ignore[arg-type]
        assert answer is None or isinstance(answer, Target)
        return answer

    def refused(self, condition: str) -> bool:
        """Check that the broker attached with null termini and detached with this condition, and that no message was
        lost."""
        return self.peer.detached_with(condition) and not self.peer.take(End) and self.broker.ready() == 3

    def stream(self) -> str:
        """Declare a stream with three messages; returns its address. The broker must have storage."""
        address = self.broker.queue("s", x_queue_type="stream")
        self.broker.fill(numbered(3), "s")
        return address
