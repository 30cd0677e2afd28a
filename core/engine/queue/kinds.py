"""The interface of a queue of any kind, for the broker, the pump and the snapshots.

``Queue`` delivers each message to one consumer; ``StreamQueue`` lets every consumer read all messages. The code that
routes messages to queues, wakes them and shows them treats both alike.
"""

from collections.abc import Hashable, Mapping, MutableMapping
from typing import NamedTuple, Protocol

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions
from core.engine.queue.attachments import Attachments
from core.engine.queue.consumers import Attachment, Consumers
from core.engine.queue.queue_counters import Counted
from core.engine.ready.remains import LetGo
from core.errors import EngineError
from core.interface import Disposal, Publisher, Target
from core.message import Attributes, Return
from core.slices import Walk


class Peeked(NamedTuple):
    """One ready message, which stays in the queue unchanged."""

    sequence: int
    """Its sequence number in the queue; in a stream, its offset."""
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
        """Published messages that the queue has not taken on yet."""

    @property
    def stage_credit(self) -> CreditFlow:
        """The queue's side of the stage credit with publishers that use it, and with the message store."""

    @property
    def consumers(self) -> Consumers: ...

    @property
    def attachments(self) -> Attachments:
        """The consumers, and what else may hold messages."""

    @property
    def counters(self) -> Counted: ...

    @property
    def publishers(self) -> MutableMapping[Publisher, None]:
        """Publishers whose fixed target is this queue."""

    @property
    def options(self) -> QueueOptions:
        """The options in force now."""

    @property
    def ready(self) -> int:
        """How many messages a consumer could get now; of a stream, how many messages it keeps."""

    @property
    def unacknowledged(self) -> int:
        """How many messages consumers hold unsettled."""

    @property
    def deadline(self) -> float:
        """When the queue next has something to do without being touched by a verb (monotonic seconds); infinity for
        never.

        The pump reads this after each turn of the queue, and touches the queue at that time.
        """

    @property
    def expired(self) -> bool:
        """Whether the queue was unused for longer than ``x-expires`` allows: it is to be deleted."""

    def apply(self, options: QueueOptions, now: Now) -> None:
        """Put other options in force, because a policy was set or cleared."""

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Take on messages from the inbox within the stage's budget. Returns True if messages are left for another
        turn."""

    def dispatch(self, now: Now) -> int:
        """Do what is due, deliver ready messages to consumers within their grants, then answer the grants. Returns the
        cost in units of :mod:`core.work`."""

    def attach(self, attachment: Attachment) -> None:
        """Add a consumer, which has no grant yet. Raises EngineError for options that this kind of queue does not
        support."""

    def grant(self, attachment: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the next dispatch answers."""

    def settle(self, attachment: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Settle the consumer's unsettled deliveries from ``first`` to ``last`` (inclusive). Returns True if the queue
        needs a turn after that."""

    def cancel(self, attachment: Attachment, *, requeue: bool = True) -> None:
        """Detach the consumer. The messages that it holds return to the queue before anything is delivered to another
        consumer.

        With ``requeue=False`` it keeps them until ``cancel`` is called again with ``requeue=True``.
        """

    def purge(self, let_go: LetGo) -> Walk[int]:
        """Drop the ready messages, and return how many. The walk takes its steps beside the queue's turns, and at its
        end has asked for the write that must come before the answer. Raises Invalid for a kind of queue that cannot be
        purged."""

    def peek(self, n: int) -> list[Peeked]:
        """Return the first ``n`` ready messages, which stay unchanged. Raises Invalid if ``n`` is too high."""

    def move(self, target: Target | None, n: int | None) -> int:
        """Begin to move the first ``n`` ready messages (None: all) to a target. Without a target, each message moves
        back to the queue in which it died first.

        The messages move in the following turns: touch the queue. Returns the number of the move. Raises Invalid for a
        kind of queue that cannot move messages, PreconditionFailed while another move is under way.
        """

    def dissolve(self, confirms: Confirms, error: EngineError, let_go: LetGo, *, moved: bool = False) -> None:
        """The queue is deleted: tell its publishers and consumers, and forget everything. Publishers get their confirms
        before they are told that the target is gone. If it has ``moved``, which is that another node leads it, the
        messages of publishers are answered as not taken on, with this error."""

    def used(self) -> None:
        """A client declared the queue again, so it counts as used."""

    def conclude(self) -> None:
        """The broker shuts down cleanly: write to the store what the next start needs."""

    def counts(self) -> Mapping[str, object]:
        """Counters and states for the queue's snapshot: plain values by name."""
