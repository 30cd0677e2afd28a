"""What the channels of one connection share: access to the engine, to the connection's output, and its identity."""

from collections.abc import Callable
from dataclasses import dataclass, field

from core.access.checked_engine import CheckedEngine
from core.amqp091.connection import Amqp091Connection
from core.config.settings import Settings
from core.counters.traffic import Traffic
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.flow_facts import FlowLink
from core.interface import Converter, Mailbox
from core.observe.flow_events.accounts import LinkAccount
from core.observe.flow_events.recorder import ConnectionEvents
from core.work import Work


@dataclass(eq=False, slots=True, kw_only=True)
class Shared:
    """One connection, as its channels see it."""

    identity: str
    """The broker's own name for the connection."""
    owner: object
    """The owner of the connection's exclusive queues."""
    engine: CheckedEngine
    """The engine, with the rights of the user once the connection is open."""
    converter: Converter
    mailbox: Mailbox
    connection: Amqp091Connection
    reader: CreditFlow
    """The reader's side of the stage credit."""
    settings: Settings
    stage_credit: StageCreditSpec
    """The stage credit that the reader and the channels grant."""
    unique: Callable[[], str]
    """Returns the part of a name that must not be guessed."""
    wake: Callable[[], None]
    """Requests another turn."""
    traffic: Traffic
    """The counts of all connections of the protocol."""
    work: Work = field(default_factory=Work)
    """The count of work in the event loop."""
    work_until: int = 0
    """The value of ``work.spent`` at which this connection's turn is over."""
    backlog_bytes: int = 0
    """Bytes that the socket has not taken yet, besides the output that waits in the connection."""
    consumers: int = 0
    """Consumers of all channels."""
    drained: bool = False
    """Whether the broker is being drained: consumers get no more deliveries."""
    waiting_methods: int = 0
    """Methods that wait in the stages of all channels."""
    flow: ConnectionEvents | None = None
    """The recorder of this connection's flow events; None where they are not recorded."""
    reply_queues: dict[int, str] = field(default_factory=dict)
    """The queue behind the direct reply-to consumer of each channel that has one."""

    # Settings that are read for every message or turn: a slot is read in a third of the time that it takes through the
    # sections.
    messages_per_turn: int = field(init=False)
    """Published messages that a channel processes in one turn: its stage's budget. 0 stops it."""
    work_per_turn_max: int = field(init=False)
    waiting_methods_max: int = field(init=False)
    max_queue_credit: int = field(init=False)
    unsent_bytes_max: int = field(init=False)

    def __post_init__(self) -> None:
        own, engine = self.settings.amqp091, self.settings.engine
        self.messages_per_turn = engine.stage_messages_per_turn.channel
        self.work_per_turn_max = engine.work_per_turn.peer
        self.waiting_methods_max = own.waiting_methods_max
        self.max_queue_credit = own.max_queue_credit
        self.unsent_bytes_max = own.unsent_bytes_max

    def begin_turn(self) -> None:
        """Begin this connection's next turn."""
        self.work_until = self.work.spent + min(self.work_per_turn_max, self.work.allowance)

    @property
    def turn_over(self) -> bool:
        """Whether the remaining work of this connection waits for its next turn."""
        return self.work.spent >= self.work_until

    def link_recorder(self, channel: int, direction: str) -> LinkAccount | None:
        """A recorder for one direction of a channel, from its first message or consumer on; None where none are
        recorded."""
        if self.flow is None:
            return None
        identity = f"{self.identity}/{channel}"
        return self.flow.link_attached(FlowLink(identity=identity, name="", direction=direction, address=""), None)

    @property
    def congested(self) -> bool:
        """Whether so much output waits for the socket that queues should deliver no more."""
        return self.backlog_bytes + self.connection.output.size > self.unsent_bytes_max

    @property
    def flooded(self) -> bool:
        """Whether so much output waits for the socket that no more input should be answered. The limit is higher than
        for ``congested``, so that a consumer that reads slowly can still acknowledge."""
        return self.backlog_bytes + self.connection.output.size > 2 * self.unsent_bytes_max
