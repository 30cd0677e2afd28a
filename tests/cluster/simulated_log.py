"""The simulated engine as the driver of a node reaches it: over a network that delays and loses requests."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from core.cluster.log_engine import Unanswered
from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.copying import CopyPart, CopyWanted
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogRead, Owner, PutAnswer
from tests.cluster.claims import Seen
from tests.cluster.engine import Report, SimulatedEngine, View
from tests.cluster.network import Network


class SimulatedLog:
    """The :class:`core.cluster.log_engine.LogEngine` of one node. When the node has ended, ``over`` is True and answers
    have no effect."""

    def __init__(self, node: int, engine: SimulatedEngine, network: Network, seen: list[Seen]) -> None:
        """``seen``: the history of all nodes."""
        self.over = False
        self.doubts = 0
        """How often an answer was damaged."""
        self._node = node
        self._engine = engine
        self._network = network
        self._seen = seen

    def put(
        self, batch: CommandBatch, owner: Owner, answered: Callable[[PutAnswer], None], unanswered: Unanswered
    ) -> None:
        begun = self._network.now

        def come_back(answer: PutAnswer) -> None:
            self._note(answer.owner, begun)
            answered(answer)

        self._ask(lambda: self._engine.put(batch, owner.node), come_back, unanswered)

    def claim(self, claim: Claim, answered: Callable[[ClaimAnswer], None], unanswered: Unanswered) -> None:
        begun = self._network.now
        self._seen.append(Seen(begun, inf, claim.epoch, claim.node, claims=True))

        def come_back(answer: ClaimAnswer) -> None:
            self._note(answer.owner, begun, claims=answer.won)
            answered(answer)

        self._ask(lambda: self._engine.claim(claim), come_back, unanswered)

    def ask_owner(self, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        self._ask_and_note(lambda: self._engine.owner, answered, unanswered)

    def read(self, after: int, answered: Callable[[LogRead], None], unanswered: Unanswered) -> None:
        begun = self._network.now

        def come_back(read: LogRead) -> None:
            self._note(read.owner, begun)
            answered(read)

        self._ask(lambda: self._engine.read(after), come_back, unanswered)

    def delete(
        self, numbers: Sequence[int], owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        self._ask_and_note(lambda: self._engine.delete(numbers, owner), answered, unanswered)

    def cut(self, upto: int, owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        self._ask_and_note(lambda: self._engine.cut_by(upto, owner), answered, unanswered)

    def doubt(self) -> None:
        self.doubts += 1

    def want_copy(self, wanted: CopyWanted, answered: Callable[[], None], unanswered: Unanswered) -> None:
        put = partial(self._engine.wanted.__setitem__, wanted.receiver, wanted)
        self._ask(put, lambda _: answered(), unanswered)

    def read_wanted(self, answered: Callable[[Sequence[CopyWanted]], None], unanswered: Unanswered) -> None:
        self._ask(lambda: list(self._engine.wanted.values()), answered, unanswered)

    def give_copy(
        self, wanted: CopyWanted, part: CopyPart, answered: Callable[[], None], unanswered: Unanswered
    ) -> None:
        self._ask(lambda: self._engine.give_copy(wanted, part), lambda _: answered(), unanswered)

    def read_copy(self, receiver: int, answered: Callable[[CopyPart | None], None], unanswered: Unanswered) -> None:
        self._ask(lambda: self._engine.copies.get(receiver), answered, unanswered)

    def end_copy(self, receiver: int) -> None:
        self._ask(lambda: self._engine.end_copy(receiver), lambda _: None, lambda: None)

    def report(self, life: int, report: Report) -> None:
        """Tell the engine how the copy is."""
        self._ask(partial(self._engine.report, self._node, life, report), lambda _: None, lambda: None)

    def look(self, answered: Callable[[View], None]) -> None:
        """Look at the others."""
        self._ask(self._engine.view, answered, lambda: None)

    def trim(self, applied: int, seen: View, owner: Owner) -> None:
        """Have the engine cut away what no member needs."""
        self._ask_and_note(lambda: self._engine.trim(applied, seen, owner), lambda _: None, lambda: None)

    def _ask_and_note(
        self, ask: Callable[[], Owner], answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        begun = self._network.now

        def come_back(owner: Owner) -> None:
            self._note(owner, begun)
            answered(owner)

        self._ask(ask, come_back, unanswered)

    def _note(self, owner: Owner, begun: float, *, claims: bool = False) -> None:
        self._seen.append(Seen(begun, self._network.now, owner.epoch, owner.node, claims=claims))

    def _ask(self, ask: Callable[[], object], answered: Callable[..., None], unanswered: Unanswered) -> None:
        def if_alive(act: Callable[..., None]) -> Callable[..., None]:
            return lambda *answer: None if self.over else act(*answer)

        self._network.ask(self._node, ask, if_alive(answered), if_alive(unanswered))
