"""What the channels of one connection share: the engine behind it, the wire before it, and its own identity."""

from collections.abc import Callable
from dataclasses import dataclass, field

from core.amqp091.connection import Connection
from core.amqp091.frontend.settings import FrontEndSettings
from core.credit_flow.flow import CreditFlow
from core.flow_facts import ConnectionRecorder, FlowLink, LinkRecorder
from core.interface import Converter, Engine, Mailbox, Topology
from core.server.traffic import Traffic
from core.work import Work


@dataclass(eq=False, slots=True, kw_only=True)
class Shared:
    """One connection, as its channels see it."""

    identity: str
    """The broker's own name of the connection."""
    owner: object
    """Whose the exclusive queues are."""
    engine: Engine
    topology: Topology
    converter: Converter
    mailbox: Mailbox
    connection: Connection
    reader: CreditFlow
    """The reader's side of the stage credit."""
    settings: FrontEndSettings
    unique: Callable[[], str]
    """Gives the part of a name that cannot be guessed."""
    wake: Callable[[], None]
    """Asks for another turn."""
    traffic: Traffic
    """What all connections of the protocol count in."""
    work: Work = field(default_factory=Work)
    """Where everything is counted that is done in the event loop."""
    work_until: int = 0
    """How much that may be until this connection's turn is over."""
    backlog_bytes: int = 0
    """What the socket has not taken yet, besides the output that waits in the connection."""
    consumers: int = 0
    """Of all channels."""
    drained: bool = False
    """Consumers get nothing more: the broker is being drained."""
    waiting_methods: int = 0
    """Methods that wait in the stages of all channels."""
    flow: ConnectionRecorder | None = None
    """Who records flow events of this connection; None where they are not recorded."""
    reply_queues: dict[int, str] = field(default_factory=dict)
    """The queue behind the direct reply-to consumer of each channel that has one."""

    def begin_turn(self) -> None:
        """The others have had theirs."""
        self.work_until = self.work.spent + min(self.settings.work_per_turn_max, self.work.allowance)

    @property
    def turn_over(self) -> bool:
        """What is left to do for this connection waits for its next turn."""
        return self.work.spent >= self.work_until

    def link_recorder(self, channel: int, direction: str) -> LinkRecorder | None:
        """For one direction of a channel, from its first message or consumer on; None where none are recorded."""
        if self.flow is None:
            return None
        identity = f"{self.identity}/{channel}"
        return self.flow.link_attached(FlowLink(identity=identity, name="", direction=direction, address=""), None)

    @property
    def congested(self) -> bool:
        """So much waits for the socket that no queue should hand out more."""
        return self._waiting_bytes > self.settings.unsent_bytes_max

    @property
    def flooded(self) -> bool:
        """So much waits for the socket that nothing more should be answered. A consumer that is slow to read can still
        acknowledge before it comes to this."""
        return self._waiting_bytes > 2 * self.settings.unsent_bytes_max

    @property
    def _waiting_bytes(self) -> int:
        return self.backlog_bytes + self.connection.output_bytes
