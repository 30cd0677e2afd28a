"""The log of a group of which several nodes have a copy: batches, numbers, claims, and the committed prefix.

An *engine* (etcd) keeps for each group an *owner*, the node that may append, and batches under ascending numbers. This
class decides which requests to make and what the answers mean; a driver carries them. It does no input and output and
does not ask the time.

The rules on which everything rests:

- A batch is put only if this node is still the owner *and* no batch has its number. Both are one step in the engine. So
  after another node's claim nothing of this node can land any more, however late its requests arrive.
- Requests are out together and may land in any order, or not at all. Only the batches before the first missing number
  are *committed*.
- A new owner reads the log to its end after its claim, deletes everything behind the first missing number, and only
  then appends. So what was committed once stays, and what was not committed when the owner changed never will be.
- An unanswered request may have landed. It is repeated with the same bytes; if the number is taken by these very bytes,
  it had landed.

Commands of a node that has lost the group are *in doubt* until it has read the log as another node owns it. That
reading decides all of them.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from core.engine.quorum.batches import COMMAND_OVERHEAD, BatchDamaged, CommandBatch, OrderEnd, decoded, encoded
from core.store.command_log import CommandPlace, LeaseLost, LocalCommandLog
from core.store.lane import LateWriter

BATCH_BYTES_MAX = 512 << 10
"""The most bytes in a batch; a larger command goes alone. An engine takes requests of 1.5 MiB."""
OUT_MAX = 16
OUT_BYTES_MAX = 4 << 20
"""The most batches, and bytes in them, that are out: measured, more bring nothing."""
FRESH_S = 1.0
"""A leader serves for this long after the sending of its last successful request. An engine gives the group away after
twice as long."""


class Owner(NamedTuple):
    """The owner of a group, as the engine has it."""

    epoch: int = 0
    """How often the group was claimed; 0: never."""
    node: int = 0


class Claim(NamedTuple):
    """A request: make this node the owner, if the group is still in the epoch before."""

    epoch: int
    node: int


class ClaimAnswer(NamedTuple):
    """The answer to a claim."""

    owner: Owner
    """The owner after it."""
    won: bool
    """Whether this very request has changed the owner. Without it, a node could take an epoch for its own that its
    former life has claimed, and whose requests are still under way."""


class PutAnswer(NamedTuple):
    """The answer to a request to put a batch. The batch is in the log if ``owner`` is this node in the batch's epoch
    and nothing had its number."""

    owner: Owner
    existing: bytes | None
    """What had the number before."""


class LogRead(NamedTuple):
    """The answer to a request for the batches after a number, all of one moment."""

    after: int
    owner: Owner
    first: int
    """The lowest number that has not been cut away."""
    end: int
    """The highest number that this answer shows to be there, or to have been there before it was cut away. It is below
    ``after`` only if nothing has a number from that one on."""
    batches: Sequence[tuple[int, bytes]]
    """Ascending, not always all of them."""
    complete: bool
    """Whether no batch follows these."""


class Role(Enum):
    """What this node is in a group."""

    FOLLOWER = "follower"
    CLAIMED = "claimed"
    """It is the owner, and has not read the log to its end yet."""
    LEADER = "leader"


class LogBroken(Exception):
    """The engine has lost or changed what was committed. The group stops on this node."""


@dataclass(slots=True)
class _Out:
    batch: CommandBatch
    position: int
    """The position of its last command."""
    landed: bool = False


class _Noted(NamedTuple):
    number: int
    position: int
    local: int


class SharedLog:
    """One node's view of the log of one group. ``copy`` is this node's copy."""

    def __init__(
        self, copy: LocalCommandLog, *, node: int, group: int, notify: Callable[[], None] = lambda: None
    ) -> None:
        """``notify`` is called when :meth:`take_batch` may return a batch."""
        self.node = node
        self.group = group
        self.role = Role.FOLLOWER
        self.owner = Owner()
        """The latest owner that this node has heard of."""
        self.epoch = 0
        """The epoch of this node's last claim that succeeded."""
        self.must_copy = False
        """The engine has cut away batches that this node has not: it needs the copy of another node."""
        self.has_read = False
        """The engine has answered a read, and nothing that this node needs was cut away."""
        self.damaged = 0
        """How many batches were read that did not fit their checksum."""
        self.bytes_taken = 0
        """How many bytes of batches this node has taken in this life."""
        self.staged = 0
        """The position of the last command that was appended."""
        self._copy = copy
        self._notify = notify
        self._taken = OrderEnd()
        """The committed prefix as this node knows it."""
        self._gathering: list[bytes] = []
        self._late: dict[LateWriter, None] = {}
        self._next = OrderEnd()
        """The end of the order with everything that is out."""
        self._out: dict[int, _Out] = {}
        self._out_bytes = 0
        self._again: list[int] = []
        """Numbers of batches whose requests got no answer."""
        self._doubtful: dict[int, _Out] = {}
        """What was out when this node lost the group."""
        self._doubt: tuple[int, int] | None = None
        """The epoch that was lost, and the position of its last command."""
        self._decided = 0
        """Of the commands up to this position it is known whether they are committed."""
        self._behind: tuple[int, ...] = ()
        self._reads_on = False
        """Whether more may be behind these."""
        self._committed: list[CommandBatch] = []
        self._positions: dict[int, int] = {}
        """The position of the last command of each batch of this node, by number, until it is noted."""
        self._unwritten: deque[_Noted] = deque()
        self._unsynced: deque[_Noted] = deque()
        self._position = 0
        self._synced_number = 0
        self._voids: list[tuple[int, int]] = []
        self._unknown: list[tuple[int, int]] = []
        self._heard_at = -inf

    def begin_after(self, end: OrderEnd, *, synced: bool) -> None:
        """The copy has everything up to this end. Call it at the start, and after :meth:`begin_copy` when the copy of
        another node is there; that is ``synced`` later, see :meth:`copy_done`."""
        self._taken = end
        self._synced_number = end.number if synced else 0
        self.must_copy = False

    def begin_copy(self) -> None:
        """The copy has nothing, and gets everything from another node. Commands in doubt cannot be decided any more,
        because their batches may be cut away."""
        self.step_down()
        self._taken = OrderEnd()
        self._synced_number = 0
        self._unwritten.clear()
        self._unsynced.clear()
        self._committed.clear()
        self._positions.clear()
        if self._doubt is not None:
            self._unknown.append((self._decided + 1, self._doubt[1]))
            self._decided = self._doubt[1]
            self._doubt, self._doubtful = None, {}
        self.has_read, self.must_copy = False, True

    # --- for backings: see ReplicatedLog

    @property
    def committed(self) -> int:
        """All commands up to this position are committed, and written to the copy."""
        written = self._copy.written
        while self._unwritten and self._unwritten[0].local <= written:
            self._position = max(self._position, self._unwritten.popleft().position)
        return self._position

    @property
    def unwritten(self) -> bool:
        """Whether some batches are applied that the copy has not written."""
        return bool(self._unwritten) and self._unwritten[-1].local > self._copy.written

    def append(self, payload: Sequence[bytes], payload_bytes: int, fencing_token: int, *, prompt: bool) -> CommandPlace:
        """See :class:`core.engine.quorum.replicated_log.ReplicatedLog`, also for the methods below."""
        if self.role is not Role.LEADER or fencing_token != self.epoch:
            raise LeaseLost(f"group {self.group}: this node does not lead in epoch {fencing_token}")
        if prompt or not self._gathering:
            self._notify()
        self._gathering.append(payload[0] if len(payload) == 1 else b"".join(payload))
        self.staged += 1
        return CommandPlace(self.staged, 0, 0)

    def later(self, writer: LateWriter) -> None:
        self._late[writer] = None
        self._notify()

    def write_now(self) -> None:
        self._notify()

    def read_bytes(self, file: int, offset: int, length: int) -> bytes:
        return self._copy.read_bytes(file, offset, length)

    # --- the leader's batches

    def take_batch(self) -> CommandBatch | None:
        """Take a batch that is to be put. None if there is nothing to put, or too much is out."""
        if self.role is not Role.LEADER:
            return None
        if self._again:
            return self._out[self._again.pop(0)].batch
        if len(self._out) >= OUT_MAX or self._out_bytes >= OUT_BYTES_MAX:
            return None
        late, self._late = self._late, {}
        for writer in late:
            writer.write_late()
        if not self._gathering:
            return None
        count = self._fitting()
        position = self.staged - len(self._gathering) + count
        batch = encoded(self.group, self.epoch, self._next, self._gathering[:count])
        del self._gathering[:count]
        self._next = batch.end
        self._out[batch.end.number] = _Out(batch, position)
        self._out_bytes += len(batch.data)
        return batch

    def _fitting(self) -> int:
        """Return how many commands go into the next batch, at least one."""
        room = BATCH_BYTES_MAX
        for count, command in enumerate(self._gathering):
            room -= len(command) + COMMAND_OVERHEAD
            if room < 0:
                return max(1, count)
        return len(self._gathering)

    def put_answered(self, batch: CommandBatch, answer: PutAnswer, sent_at: float) -> None:
        """The engine has answered. ``sent_at``: when the request was sent, in monotonic seconds. Raises LogBroken."""
        self._see(answer.owner)
        number = batch.end.number
        out = self._out.get(number)
        if out is None or out.batch.end != batch.end or answer.owner != Owner(self.epoch, self.node):
            return
        if answer.existing is not None and answer.existing != batch.data:
            raise LogBroken(f"group {self.group}: another batch has number {number} of epoch {self.epoch}")
        self._heard(sent_at)
        out.landed = True
        while (first := self._out.get(self._taken.number + 1)) is not None and first.landed:
            del self._out[self._taken.number + 1]
            self._out_bytes -= len(first.batch.data)
            self._take(first.batch, first.position)
        self._notify()

    def put_unanswered(self, batch: CommandBatch) -> None:
        """No answer has come in time: the batch may have landed."""
        number = batch.end.number
        out = self._out.get(number)
        if out is not None and out.batch.end == batch.end and not out.landed and number not in self._again:
            self._again.append(number)
            self._notify()

    # --- who leads

    def fresh(self, now: float) -> bool:
        """Return whether this node leads, and has been heard as the owner so shortly ago that no other one is."""
        return self.role is Role.LEADER and now < self._heard_at + FRESH_S

    @property
    def heard_at(self) -> float:
        """When the last request was sent that has shown that this node is the owner (monotonic seconds)."""
        return self._heard_at

    @property
    def in_doubt(self) -> bool:
        """Whether commands wait for the log to say whether they are committed."""
        return self._doubt is not None or bool(self._voids)

    def claim(self) -> Claim:
        """Return the request that makes this node the owner."""
        return Claim(self.owner.epoch + 1, self.node)

    def claim_answered(self, claim: Claim, answer: ClaimAnswer, sent_at: float) -> None:
        """The engine has answered a claim."""
        self._see(answer.owner)
        if answer.won and self.owner == Owner(claim.epoch, self.node):
            self.epoch = claim.epoch
            self.role = Role.CLAIMED
            self._behind = ()
            self._heard(sent_at)

    def owner_seen(self, owner: Owner, sent_at: float) -> None:
        """The engine has answered a renewal, or a question for the owner."""
        self._see(owner)
        if owner == Owner(self.epoch, self.node):
            self._heard(sent_at)

    def step_down(self) -> None:
        """Lead no more. What is not committed is in doubt until another node's claim is seen."""
        if self.role is Role.LEADER:
            self._gathering.clear()
            self._late.clear()
            if self.staged > self._decided:
                self._doubt = (self.epoch, self.staged)
                self._doubtful = self._out
            self._out = {}
            self._out_bytes = 0
            self._again.clear()
        self.role = Role.FOLLOWER
        self._behind = ()

    def _see(self, owner: Owner) -> None:
        if owner.epoch > self.owner.epoch:
            self.owner = owner
            if self.role is not Role.FOLLOWER and owner.epoch > self.epoch:
                self.step_down()

    def _heard(self, sent_at: float) -> None:
        self._heard_at = max(self._heard_at, sent_at)

    # --- reading what is committed

    @property
    def ends_at(self) -> int:
        """The number of the last batch of the committed prefix, as far as this node knows it."""
        return self._taken.number

    @property
    def end(self) -> OrderEnd:
        """The end of the committed prefix, as far as this node knows it."""
        return self._taken

    @property
    def wants_after(self) -> int | None:
        """The number after which this node wants to read; None while it leads, waits for a deletion, or needs a
        copy."""
        return None if self.role is Role.LEADER or self._behind or self.must_copy else self._taken.number

    def read_answered(self, read: LogRead, sent_at: float) -> None:
        """The engine has answered a read. Raises LogBroken."""
        self._see(read.owner)
        if self.role is Role.LEADER or self.must_copy:
            return
        if read.end < read.after:
            raise LogBroken(f"group {self.group}: the log ends before batch {read.after}, which this node has applied")
        if read.first > self._taken.number + 1:
            self.must_copy = read.after >= self._taken.number
            if self.must_copy:
                self.step_down()
            return
        self.has_read = True
        for number, data in read.batches:
            if number == self._taken.number + 1 and not self._read(number, data):
                return
        behind = tuple(number for number, _ in read.batches if number > self._taken.number)
        if not (read.complete or behind):
            return
        if self._doubt is not None and read.owner.epoch > self._doubt[0]:
            self._decide(self._doubt[1])
        if self.role is Role.CLAIMED and read.owner == Owner(self.epoch, self.node):
            self._heard(sent_at)
            self._behind = behind
            self._reads_on = not read.complete
            if not behind:
                self._lead()

    def _read(self, number: int, data: bytes) -> bool:
        """Take the next batch of the order. Returns False if it is damaged, and has to be read again."""
        try:
            batch = decoded(data)
        except BatchDamaged:
            self.damaged += 1
            return False
        if batch.group != self.group or not batch.follows(self._taken):
            raise LogBroken(f"group {self.group}: batch {number} does not follow batch {self._taken.number}")
        doubtful = self._doubtful.pop(number, None)
        mine = doubtful is not None and doubtful.batch.end == batch.end
        self._take(batch, doubtful.position if doubtful is not None and mine else 0)
        return True

    @property
    def deletion(self) -> Sequence[int]:
        """The numbers behind the first missing one, which the engine is to delete if this node is still the owner."""
        return self._behind

    def deleted(self, owner: Owner, sent_at: float) -> None:
        """The engine has answered a deletion."""
        self._see(owner)
        if self.role is Role.CLAIMED and self._behind and owner == Owner(self.epoch, self.node):
            self._heard(sent_at)
            self._behind = ()
            if not self._reads_on:
                self._lead()

    def _lead(self) -> None:
        self.role = Role.LEADER
        self._next = self._taken
        self._notify()

    def _take(self, batch: CommandBatch, position: int) -> None:
        self._taken = batch.end
        self.bytes_taken += len(batch.data)
        self._committed.append(batch)
        if position:
            self._positions[batch.end.number] = position
            self._decided = position

    def _decide(self, last: int) -> None:
        """Nothing of the epoch that was lost can be committed any more but what is."""
        if last > self._decided:
            self._voids.append((self._decided + 1, last))
        self._decided = last
        self._doubt = None
        self._doubtful = {}

    def take_voids(self) -> list[tuple[int, int]]:
        """Take the positions (first and last) of commands that will never be committed."""
        voids, self._voids = self._voids, []
        return voids

    def take_unknown(self) -> list[tuple[int, int]]:
        """Take the positions (first and last) of commands of which this node will never know whether they are
        committed."""
        unknown, self._unknown = self._unknown, []
        return unknown

    def take_committed(self) -> list[CommandBatch]:
        """Take the batches that are committed, in their order. The caller writes each to the copy, applies it, and
        calls :meth:`noted`."""
        committed, self._committed = self._committed, []
        return committed

    def noted(self, batch: CommandBatch, local: int) -> None:
        """The batch is applied, and staged in the copy at this position of the lane."""
        number = batch.end.number
        noted = _Noted(number, self._positions.pop(number, 0), local)
        self._unwritten.append(noted)
        self._unsynced.append(noted)

    def copy_done(self, number: int, local: int) -> None:
        """The copy of another node goes up to this number, and ends at this position of the lane. A start before that
        is synced begins it again."""
        self._unsynced.append(_Noted(number, 0, local))

    @property
    def synced_number(self) -> int:
        """The copy has synced all batches up to this number."""
        synced = self._copy.committed
        while self._unsynced and self._unsynced[0].local <= synced:
            self._synced_number = self._unsynced.popleft().number
        return self._synced_number


def cut_at(synced: Mapping[int, int], copying: Collection[int] = (), joining: Collection[int] = ()) -> int:
    """Return up to which number the engine may be cut.

    ``synced``: up to which number each member has synced its copy; 0 for one that is not known to have any. Members in
    ``copying`` will copy another node's log and need no batch. What a majority has not synced is never cut; members in
    ``joining`` make no majority.
    """
    numbers = sorted((number for node, number in synced.items() if node not in joining), reverse=True)
    of_majority = numbers[len(numbers) // 2]
    return min([of_majority, *(number for node, number in synced.items() if node not in copying)])
