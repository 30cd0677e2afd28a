"""Decides whether a 0.9.1 reader may read, from stage credit and alarms.

Under an alarm a connection is *blocking* until a publish comes, and *blocked* from then on; so a connection that only
consumes goes on. A reader whose channel has used up its stage credit is blocked at once, since a publish has used it
up.

Each such block is reported to the ledger of stalls, with the stage that :mod:`core.credit_flow.diagnosis` names.
"""

from collections.abc import Callable, Iterator

from core.clock import Now
from core.credit_flow.diagnosis import Amqp091ConnectionState, SlowStage, blocked_reason, connection_state, diagnose
from core.credit_flow.flow import BLOCKERS_SHOWN, CreditFlow
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stalls import Stalls
from core.waiting.blocked_time import BlockedTimes

NAMES_MAX = 3
"""How many channels or queues a culprit names; mostly it is one."""


class Throttle:
    """What stops the reader."""

    __slots__ = ("_alarms", "_published", "_reader")

    def __init__(self, reader: CreditFlow) -> None:
        self._reader = reader
        self._alarms: frozenset[str] = frozenset()
        self._published = False
        """Whether a publish has come since an alarm was raised."""

    @property
    def alarms(self) -> frozenset[str]:
        """The alarms that are on."""
        return self._alarms

    @alarms.setter
    def alarms(self, alarms: frozenset[str]) -> None:
        self._alarms = alarms
        if not alarms:
            self._published = False

    @property
    def told(self) -> bool:
        """Whether an alarm blocks it; the peer is told of this."""
        return self._published

    @property
    def blocked(self) -> bool:
        """Whether the socket must not be read."""
        return self._published or self._reader.blocked

    @property
    def blocked_by(self) -> FlowReason | None:
        """Why the socket must not be read; None when it may be."""
        if self._published:
            return min((FlowReason(alarm) for alarm in self._alarms), key=list(FlowReason).index)
        return FlowReason.STAGE_CREDIT if self._reader.blocked else None

    def publish_received(self) -> bool:
        """Note a publish. True when with it an alarm begins to block this connection."""
        if not self._alarms or self._published:
            return False
        self._published = True
        return True

    @property
    def reason(self) -> str:
        """The reason text of connection.blocked."""
        return blocked_reason(self._alarms)

    def state(self, now: float) -> Amqp091ConnectionState:
        """The state for operators. ``now`` is monotonic, in seconds."""
        reader = self._reader
        return connection_state(
            alarms=self._alarms,
            blocked=self._published,
            in_flow=reader.blocked,
            blocked_at=reader.blocked_at,
            now=now,
        )


class ReaderStall:
    """Reports the stalls of one reader to the ledger. A block that ends and returns between two calls is a new
    stall."""

    __slots__ = ("_blocks", "_paused", "_reader", "_reason", "_stalls", "_subject", "_subject_of", "_throttle")

    def __init__(
        self,
        throttle: Throttle,
        reader: CreditFlow,
        stalls: Stalls,
        *,
        subject_of: Callable[[], StallSubject],
        paused: BlockedTimes[str],
    ) -> None:
        """``subject_of`` is called when the reader is blocked for the first time; ``paused`` has the times of all
        readers, by reason."""
        self._throttle = throttle
        self._reader = reader
        self._stalls = stalls
        self._subject_of = subject_of
        self._paused = paused
        self._subject: StallSubject | None = None
        self._reason: FlowReason | None = None
        self._blocks = 0

    def observe(self, now: Now) -> None:
        """Report whether the reader stands still now."""
        reason, blocks = self._throttle.blocked_by, self._reader.blocks
        if reason is self._reason and (reason is None or blocks == self._blocks):
            return
        self.end(now)
        self._reason, self._blocks = reason, blocks
        if reason is None:
            return
        self._report(reason, now)
        self._paused.begin(reason, now.monotonic)
        if reason is FlowReason.STAGE_CREDIT:
            self._stalls.look_at(self.look, wanted=True)

    def end(self, now: Now) -> None:
        """Report that the reader goes on, or is gone."""
        if self._reason is not None and self._subject is not None:
            self._stalls.unblocked(self._subject, now)
            self._paused.end(self._reason, now.monotonic)
            self._stalls.look_at(self.look, wanted=False)
        self._reason = None

    def look(self, now: Now) -> Iterator[int]:
        """Report the stall again: meanwhile another stage may have become the bottleneck."""
        if self._reason is not None:
            self._report(self._reason, now)
        yield 1

    def _report(self, reason: FlowReason, now: Now) -> None:
        if self._subject is None:
            self._subject = self._subject_of()
        self._stalls.blocked(self._subject, reason, self._culprit(reason, now.monotonic), now)

    def _culprit(self, reason: FlowReason, now: float) -> str:
        match reason:
            case FlowReason.STAGE_CREDIT:
                return self._stage(now)
            case FlowReason.DRAIN_MODE:
                return "operator"
        return f"alarm {reason.value}"

    def _stage(self, now: float) -> str:
        """The first slow stage, behind the channels that block the reader."""
        channels = self._reader.blocked_by
        queues = {queue: None for channel in channels for queue in channel.blocked_by or channel.peers[:BLOCKERS_SHOWN]}
        queues.pop(self._reader, None)
        bottleneck = diagnose(
            self._reader.reading(now),
            [channel.reading(now) for channel in channels],
            [queue.reading(now) for queue in queues],
        )
        if bottleneck is None or bottleneck.stage is SlowStage.STORE:
            return SlowStage.STORE.value
        return f"{bottleneck.stage.value} {', '.join(bottleneck.names[:NAMES_MAX])}"
