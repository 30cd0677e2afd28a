"""The driver of the log of one group: it decides when which request goes to the engine, and takes the answers back.

What the requests are and what the answers mean, :class:`core.engine.quorum.shared_log.SharedLog` knows. How requests
travel, the :class:`core.cluster.log_engine.LogEngine` knows. The driver does not wait: its owner calls :meth:`drive`
when the log has something to send, when an answer has come, and from time to time.
"""

from collections.abc import Callable, Sequence
from math import inf

from core.cluster.log_engine import LogEngine
from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.copying import ASK_AGAIN_S, CopySource, CopyWanted, GroupCopy
from core.engine.quorum.shared_log import ClaimAnswer, LogRead, Owner, PutAnswer, Role, SharedLog

RENEW_S = 0.3
"""How often a leader makes sure that it is one: three times in the second for which an answer counts."""
READ_S = 0.1
"""How often a follower that is up to date reads, if it gets no hint that there is more."""
RETRY_S = 0.05
"""The wait after a request without an answer. An engine whose port is closed refuses at once, and asking it again at
once would take all of the processor."""
GIVING_S = 2.0
"""A source looks so long for the next request of a copy often. After that the receiver has to be found again."""


class GroupDriver:
    """The requests of one node for one group."""

    def __init__(
        self,
        log: SharedLog,
        engine: LogEngine,
        clock: Callable[[], float],
        *,
        renew_s: float = RENEW_S,
        read_s: float = READ_S,
    ) -> None:
        """``clock``: the node's monotonic clock, in seconds."""
        self.log = log
        self.cut = 0
        """Up to which number this node has had the log cut in its last term."""
        self._engine = engine
        self._clock = clock
        self._renew_s, self._read_s = renew_s, read_s
        self._reading = self._claiming = self._deleting = self._renewing = self._cutting = False
        self._renewed_at = self._read_at = -inf
        self._wait_until = -inf
        self.copy: GroupCopy | None = None
        """What this node copies from another one, if it needs to."""
        self.source: CopySource | None = None
        """What other nodes copy from this one."""
        self._looking_for_wanted = False
        self._wanted_at = self._giving_until = -inf
        self._given: dict[int, int] = {}
        """For each receiver, the serial of the part that was given last."""

    def drive(self) -> None:
        """Send what is to be sent now."""
        log, now = self.log, self._clock()
        if now < self._wait_until:
            return
        while (batch := log.take_batch()) is not None:
            self._put(batch)
        if log.role is Role.LEADER and not self._renewing and now >= self._renewed_at + self._renew_s:
            self._renew()
        if log.deletion and not self._deleting:
            self._delete()
        if self.copy is not None:
            self.copy.drive()
        if now < self._giving_until and now >= self._wanted_at + ASK_AGAIN_S:
            self.look_for_wanted()
        after = log.wants_after
        if after is not None and not self._reading and (now >= self._read_at + self._read_s or self._claimed):
            self._read(after)

    @property
    def waiting(self) -> bool:
        """Whether requests wait only for the time after one without an answer."""
        return self._clock() < self._wait_until

    @property
    def copies(self) -> bool:
        """Whether this node copies from another one, or gives parts to one."""
        return self.log.must_copy or self._clock() < self._giving_until

    def look_for_wanted(self) -> None:
        """Find out whether another node wants a part of this node's copy, and give it."""
        if self._looking_for_wanted or self.source is None:
            return
        self._looking_for_wanted = True
        self._wanted_at = self._clock()

        def answered(wanted: Sequence[CopyWanted]) -> None:
            self._looking_for_wanted = False
            self.give(wanted)

        def unanswered() -> None:
            self._looking_for_wanted = False

        self._engine.read_wanted(answered, unanswered)

    def give(self, wanted: Sequence[CopyWanted]) -> None:
        """Give the parts that are wanted of this node and were not given yet. A node that needs a copy itself says that
        it has none: two nodes that ask each other would otherwise wait until both give up."""
        for one in wanted:
            if one.source == self.log.node and self._given.get(one.receiver) != one.serial:
                self._give(one)

    def _give(self, wanted: CopyWanted) -> None:
        assert self.source is not None, "it was looked for because there is one"
        self._giving_until = self._clock() + GIVING_S
        part = self.source.refusal(wanted) if self.log.must_copy else self.source.part(wanted)
        if part is None:
            return
        self._given[wanted.receiver] = wanted.serial

        def not_given() -> None:
            self._given.pop(wanted.receiver, None)

        self._engine.give_copy(wanted, part, lambda: None, not_given)

    def end_copy(self) -> None:
        """The copy of another node is complete."""
        self._engine.end_copy(self.log.node)

    @property
    def _claimed(self) -> bool:
        return self.log.role is Role.CLAIMED

    def more_to_read(self) -> None:
        """There is something to read: do not wait for the next time."""
        self._read_at = -inf

    def owner_heard(self, owner: Owner, sent_at: float) -> None:
        """The engine has said who the owner is, in an answer to a request for several groups."""
        self._renewed_at = max(self._renewed_at, sent_at)
        self.log.owner_seen(owner, sent_at)

    def claim(self) -> None:
        """Try to become the owner. Has no effect while a claim is under way, or this node is the owner and leads."""
        if self._claiming or self.log.role is not Role.FOLLOWER:
            return
        self._claiming = True
        claim, sent_at = self.log.claim(), self._clock()

        def answered(answer: ClaimAnswer) -> None:
            self._claiming = False
            self.log.claim_answered(claim, answer, sent_at)

        def unanswered() -> None:
            self._claiming = False

        self._engine.claim(claim, answered, unanswered)

    def cut_away(self, upto: int) -> None:
        """Have the engine forget the batches up to this number. The caller knows that no member needs them."""
        if self._cutting or self.log.role is not Role.LEADER or upto <= self.cut:
            return
        self._cutting = True

        def answered(owner: Owner) -> None:
            self._cutting = False
            if owner == self._own:
                self.cut = max(self.cut, upto)

        def unanswered() -> None:
            self._cutting = False

        self._engine.cut(upto, self._own, answered, unanswered)

    @property
    def _own(self) -> Owner:
        return Owner(self.log.epoch, self.log.node)

    def _put(self, batch: CommandBatch) -> None:
        sent_at = self._clock()

        def answered(answer: PutAnswer) -> None:
            self.log.put_answered(batch, answer, sent_at)

        def unanswered() -> None:
            self._pause()
            self.log.put_unanswered(batch)

        self._engine.put(batch, Owner(batch.end.epoch, self.log.node), answered, unanswered)

    def _renew(self) -> None:
        self._renewing = True
        self._renewed_at = sent_at = self._clock()

        def answered(owner: Owner) -> None:
            self._renewing = False
            self.log.owner_seen(owner, sent_at)

        def unanswered() -> None:
            self._renewing = False

        self._engine.ask_owner(answered, unanswered)

    def _read(self, after: int) -> None:
        self._reading = True
        sent_at = self._clock()

        def answered(read: LogRead) -> None:
            self._reading = False
            self._read_at = sent_at if read.complete else -inf
            damaged = self.log.damaged
            self.log.read_answered(read, sent_at)
            if self.log.damaged > damaged:
                self._engine.doubt()
                self.more_to_read()

        def unanswered() -> None:
            self._reading = False
            self._pause()

        self._engine.read(after, answered, unanswered)

    def _delete(self) -> None:
        self._deleting = True
        sent_at = self._clock()

        def answered(owner: Owner) -> None:
            self._deleting = False
            self.log.deleted(owner, sent_at)

        def unanswered() -> None:
            self._deleting = False
            self._pause()
            self.log.step_down()  # it may land when other batches have these numbers: only an epoch fences it off

        self._engine.delete(self.log.deletion, self._own, answered, unanswered)

    def _pause(self) -> None:
        self._wait_until = self._clock() + RETRY_S
