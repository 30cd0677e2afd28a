"""The driver that carries the requests of one node's log to a simulated engine, and the answers back."""

from collections.abc import Callable
from math import inf

from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.shared_log import ClaimAnswer, LogRead, Owner, PutAnswer, Role, SharedLog
from tests.cluster.claims import Seen
from tests.cluster.engine import Mistake, SimulatedEngine
from tests.cluster.network import Network

RENEW_S = 0.3
"""How often a leader makes sure that it is one."""
READ_S = 0.1
"""How often a follower that is up to date reads."""


class SimulatedLog:
    """One node's requests. When the node has ended, ``over`` is True and answers have no effect."""

    def __init__(
        self, log: SharedLog, engine: SimulatedEngine, network: Network, clock: Callable[[], float], seen: list[Seen]
    ) -> None:
        """``clock``: the node's monotonic clock. ``seen``: the history of all nodes."""
        self.log = log
        self.over = False
        self._engine = engine
        self._network = network
        self._clock = clock
        self._seen = seen
        self._reading = self._claiming = self._deleting = self._renewing = False
        self._renewed_at = -inf
        self._read_at = -inf

    def drive(self) -> None:
        """Send what is to be sent now."""
        log, now = self.log, self._clock()
        if self._engine.mistake is Mistake.STALE_LEADER:
            log.owner_seen(Owner(log.epoch, log.node), now)
        while (batch := log.take_batch()) is not None:
            self._put(batch)
        if log.role is Role.LEADER and not self._renewing and now >= self._renewed_at + RENEW_S:
            self._renew()
        if log.deletion and not self._deleting:
            self._delete()
        after = log.wants_after
        if after is not None and not self._reading and (now >= self._read_at + READ_S or log.role is Role.CLAIMED):
            self._read(after)

    def claim(self) -> None:
        """Try to become the owner."""
        if self._claiming or self.log.role is not Role.FOLLOWER:
            return
        self._claiming = True
        claim, begun, sent_at = self.log.claim(), self._network.now, self._clock()
        self._seen.append(Seen(begun, inf, claim.epoch, claim.node, claims=True))

        def answered(answer: ClaimAnswer) -> None:
            self._note(answer.owner, begun, claims=answer.won)
            self._claiming = False
            self.log.claim_answered(claim, answer, sent_at)

        def unanswered() -> None:
            self._claiming = False

        self._ask(lambda: self._engine.claim(claim), answered, unanswered)

    def report(self) -> None:
        """Tell the engine how far the copy is synced."""
        number = self.log.synced_number
        self._ask(lambda: self._engine.report(self.log.node, number), lambda _: None, lambda: None)

    def _put(self, batch: CommandBatch) -> None:
        begun, sent_at = self._network.now, self._clock()

        def answered(answer: PutAnswer) -> None:
            self._note(answer.owner, begun)
            self.log.put_answered(batch, answer, sent_at)

        self._ask(lambda: self._engine.put(batch, self.log.node), answered, lambda: self.log.put_unanswered(batch))

    def _renew(self) -> None:
        self._renewing = True
        self._renewed_at = sent_at = self._clock()
        begun = self._network.now

        def answered(owner: Owner) -> None:
            self._renewing = False
            self._note(owner, begun)
            self.log.owner_seen(owner, sent_at)

        def unanswered() -> None:
            self._renewing = False

        self._ask(lambda: self._engine.owner, answered, unanswered)

    def _read(self, after: int) -> None:
        self._reading = True
        begun, sent_at = self._network.now, self._clock()

        def answered(read: LogRead) -> None:
            self._reading = False
            self._read_at = sent_at if read.complete else -inf
            self._note(read.owner, begun)
            self.log.read_answered(read, sent_at)

        def unanswered() -> None:
            self._reading = False

        self._ask(lambda: self._engine.read(after), answered, unanswered)

    def _delete(self) -> None:
        self._deleting = True
        numbers, begun, sent_at = self.log.deletion, self._network.now, self._clock()
        owner = Owner(self.log.epoch, self.log.node)

        def answered(found: Owner) -> None:
            self._deleting = False
            self._note(found, begun)
            self.log.deleted(found, sent_at)

        def unanswered() -> None:
            self._deleting = False

        self._ask(lambda: self._engine.delete(numbers, owner), answered, unanswered)

    def _note(self, owner: Owner, begun: float, *, claims: bool = False) -> None:
        self._seen.append(Seen(begun, self._network.now, owner.epoch, owner.node, claims=claims))

    def _ask(self, ask: Callable[[], object], answered: Callable[..., None], unanswered: Callable[[], None]) -> None:
        def if_alive(act: Callable[..., None]) -> Callable[..., None]:
            return lambda *answer: None if self.over else act(*answer)

        self._network.ask(self.log.node, ask, if_alive(answered), if_alive(unanswered))
