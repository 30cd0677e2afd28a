"""Whether a 0.9.1 reader may read: stage credit and alarms together.

Under an alarm a connection is *blocking* until a publish comes, and *blocked* from then on; so a connection that only
consumes goes on. A reader whose channel has used up its stage credit is blocked at once: it was a publish that did it.

The ledger of stalls hears of each such block, with the stage that :mod:`core.credit_flow.diagnosis` names.
"""

from collections.abc import Callable, Iterator

from core.clock import Now
from core.credit_flow.diagnosis import ConnectionState, SlowStage, blocked_reason, connection_state, diagnose
from core.credit_flow.flow import CreditFlow
from core.interface import FlowReason, StallSubject, StallWatch
from core.server.standing import StandingTimes

NAMES_MAX = 3
"""Of channels or queues that a culprit names; mostly it is one."""


class Throttle:
    """The reader's brakes."""

    __slots__ = ("_alarms", "_published", "_reader")

    def __init__(self, reader: CreditFlow) -> None:
        self._reader = reader
        self._alarms: frozenset[str] = frozenset()
        self._published = False
        """A publish has come since an alarm was raised."""

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
        """Blocked by an alarm: what a peer is told of."""
        return self._published

    @property
    def blocked(self) -> bool:
        """The socket is not read."""
        return self._published or self._reader.blocked

    @property
    def blocked_by(self) -> FlowReason | None:
        """Why the socket is not read; None when it is."""
        if self._published:
            return min((FlowReason(alarm) for alarm in self._alarms), key=list(FlowReason).index)
        return FlowReason.STAGE_CREDIT if self._reader.blocked else None

    def publish_received(self) -> bool:
        """A publish came. True when it is the one that makes an alarm block this connection."""
        if not self._alarms or self._published:
            return False
        self._published = True
        return True

    @property
    def reason(self) -> str:
        """The reason text of connection.blocked."""
        return blocked_reason(self._alarms)

    def state(self, now: float) -> ConnectionState:
        """What an operator is shown. ``now`` is monotonic, in seconds."""
        reader = self._reader
        return connection_state(
            alarms=self._alarms,
            blocked=self._published,
            in_flow=reader.blocked,
            blocked_at=reader.blocked_at,
            now=now,
        )


class ReaderStall:
    """What the ledger is told of one reader. A block that ends and comes back unseen is two."""

    __slots__ = ("_blocks", "_paused", "_reader", "_reason", "_stalls", "_subject", "_subject_of", "_throttle")

    def __init__(
        self,
        throttle: Throttle,
        reader: CreditFlow,
        stalls: StallWatch,
        *,
        subject_of: Callable[[], StallSubject],
        paused: StandingTimes[str],
    ) -> None:
        """``subject_of`` is asked when the reader is blocked for the first time; ``paused`` is of all readers, by
        reason."""
        self._throttle = throttle
        self._reader = reader
        self._stalls = stalls
        self._subject_of = subject_of
        self._paused = paused
        self._subject: StallSubject | None = None
        self._reason: FlowReason | None = None
        self._blocks = 0

    def observe(self, now: Now) -> None:
        """See whether the reader stands still."""
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
        """The reader goes on, or is gone."""
        if self._reason is not None and self._subject is not None:
            self._stalls.unblocked(self._subject, now)
            self._paused.end(self._reason, now.monotonic)
            self._stalls.look_at(self.look, wanted=False)
        self._reason = None

    def look(self, now: Now) -> Iterator[int]:
        """Another stage may have become the bottleneck meanwhile."""
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
        """The first stage that is slow, on the way from those channels that block the reader."""
        channels = self._reader.blocked_by
        queues = {queue: None for channel in channels for queue in channel.blocked_by or channel.peers}
        queues.pop(self._reader, None)
        bottleneck = diagnose(
            self._reader.reading(now),
            [channel.reading(now) for channel in channels],
            [queue.reading(now) for queue in queues],
        )
        if bottleneck is None or bottleneck.stage is SlowStage.STORE:
            return SlowStage.STORE.value
        return f"{bottleneck.stage.value} {', '.join(bottleneck.names[:NAMES_MAX])}"
