"""What the broker, the pump and the snapshots may ask of a queue of any kind.

``Queue`` hands each message to one consumer, ``StreamQueue`` lets every consumer read everything; to whoever routes
messages to them, wakes them and shows them, they are alike.
"""

from collections.abc import Hashable, Mapping, MutableMapping
from typing import NamedTuple, Protocol

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.consumers import Attachment, Consumers
from core.engine.options import QueueOptions
from core.engine.queue_counters import Counted
from core.errors import EngineError
from core.interface import Disposal, Publisher, Target
from core.message import Attributes, Return


class Peeked(NamedTuple):
    """One message, as it is and stays."""

    sequence: int
    """Its position in the queue; of a stream, its offset."""
    entry: bytes
    attributes: Attributes
    delivery_count: int = 0
    expires_at: float | None = None
    """Wall-clock seconds."""


class AnyQueue(Hashable, Protocol):
    """One queue. Messages move in ``admit`` and ``dispatch`` only, which the pump calls once per wake-up."""

    @property
    def name(self) -> str: ...

    @property
    def inbox(self) -> Stage[Submission]:
        """Published messages that are not taken on yet."""

    @property
    def stage_credit(self) -> CreditFlow:
        """Its side of the stage credit with publishers that have some, and with the message store."""

    @property
    def consumers(self) -> Consumers: ...

    @property
    def counters(self) -> Counted: ...

    @property
    def publishers(self) -> MutableMapping[Publisher, None]:
        """Those whose fixed target is this queue."""

    @property
    def options(self) -> QueueOptions:
        """What is in force now."""

    @property
    def ready(self) -> int:
        """Messages that a consumer could get now; of a stream, messages that it keeps."""

    @property
    def unacknowledged(self) -> int:
        """Messages that consumers hold."""

    @property
    def deadline(self) -> float:
        """When something will be due in here although no verb touches it (monotonic seconds); infinity for never.

        The pump asks after each turn of this queue, and touches it when the time has come.
        """

    @property
    def expired(self) -> bool:
        """It was not used for as long as it may stay unused (x-expires): it is to be deleted."""

    def apply(self, options: QueueOptions, now: Now) -> None:
        """Other settings are in force from now on (a policy was set or cleared)."""

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Take on what the stage's budget allows. Returns True when there is more for another turn."""

    def dispatch(self, now: Now) -> int:
        """Do what is due, hand ready messages to consumers as their grants allow, then answer the grants. Returns how
        much work that was, in units of :mod:`core.work`."""

    def attach(self, consumer: Attachment) -> None:
        """A consumer comes, with no grant yet. Raises EngineError for options that this kind cannot meet."""

    def grant(self, consumer: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the next dispatch answers."""

    def settle(self, consumer: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Dispose of the outstanding deliveries in the range. Returns True when that may let messages move."""

    def cancel(self, consumer: Attachment, *, requeue: bool = True) -> None:
        """Detach the consumer; what it holds goes back before anything is dispatched to another.

        Without ``requeue`` it keeps what it holds, until it is cancelled again with it.
        """

    def purge(self) -> int:
        """Drop the ready messages; returns how many. Raises PreconditionFailed for a kind that cannot."""

    def peek(self, n: int) -> list[Peeked]:
        """The first ready messages, which stay as they are. Raises Invalid for too many."""

    def move(self, target: Target | None, n: int | None) -> int:
        """Begin to move the first ready messages, ``n`` or all, to a target, or back to where each died first.

        They go in the following turns, for which the queue has to be touched. Returns the number of the move. Raises
        Invalid for a kind that cannot, PreconditionFailed while another move is under way.
        """

    def dissolve(self, confirms: Confirms, error: EngineError) -> None:
        """The queue is deleted: tell its users, keep nothing. Confirms come before the news that the target is gone."""

    def used(self) -> None:
        """A client declared the queue anew: it is not unused."""

    def conclude(self) -> None:
        """The broker stops in order: leave to the store what the next start has to know."""

    def counts(self) -> Mapping[str, object]:
        """Counters and states to be shown: plain values by name."""
