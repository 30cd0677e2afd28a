"""The log of one group in etcd: each request of the driver is one transaction."""

from collections.abc import Callable, Sequence

from core.cluster.copy_values import decoded_part, decoded_wanted, encoded_part, encoded_wanted
from core.cluster.etcd import Etcd
from core.cluster.etcd_messages import (
    Message,
    deleting,
    found,
    has_value,
    is_absent,
    putting,
    range_of,
    reading,
    transaction,
)
from core.cluster.keys import NUMBER, GroupKeys, decoded_owner, encoded_owner
from core.cluster.log_engine import Unanswered
from core.cluster.parts import PartsHead, decoded_head, encoded_head
from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.copying import CopyPart, CopyWanted
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogBroken, LogRead, Owner, PutAnswer

READ_MAX = 8
"""The most batches in one answer: 4 MiB, unless single messages are larger."""
ASK_S = 0.5
"""How long a small request may take. A leader that has heard nothing for a second serves no more, so this leaves room
for a second try."""
PUT_S = 1.0
"""How long a batch may take. Under load, etcd takes up to 0.5 s for one; a batch that is late is put again."""
REQUEST_BYTES_MAX = 1 << 20
"""The most bytes of a request: etcd itself takes 1.5 MiB, unless its operator says otherwise."""
REQUEST_OVERHEAD = 4096
"""More than what a request has besides a batch: keys, of which the name of the cluster has at most 64 bytes, and
lengths."""
NO_SPACE = "database space exceeded"
"""In what etcd says when its quota is used up."""
TOO_LARGE = "too large", "larger than max"
"""In what etcd, and gRPC before it, say about a request that is too large."""


class EtcdLog:
    """The :class:`core.cluster.log_engine.LogEngine` of one group."""

    def __init__(
        self,
        etcd: Etcd,
        cluster: str,
        group: int,
        broken: Callable[[str], None] | None = None,
        too_large: Callable[[int], None] = lambda size: None,
        touched: Callable[[], None] = lambda: None,
        *,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        cut_if: Callable[[], list[Message]] = list,
    ) -> None:
        """``broken`` is called when an answer shows that the engine has lost or changed what was committed; without
        it, LogBroken is raised where the answer is taken. ``too_large`` is called with the bytes of a batch that etcd
        does not take because of its size, ``touched`` after each answer and after each request without one.
        ``cut_if``: further comparisons on which a cut depends."""
        self._etcd = etcd
        self._part_bytes = request_bytes_max - REQUEST_OVERHEAD
        self._touched = touched
        self._broken = broken
        self._too_large = too_large
        self._cut_if = cut_if
        self._keys = GroupKeys(cluster, group)

    @property
    def owner_key(self) -> bytes:
        """The key of the owner."""
        return self._keys.owner

    @staticmethod
    def owner_in(kvs: Sequence[Message]) -> Owner:
        """The owner in what was found under this key."""
        return decoded_owner(kvs[0].value) if kvs else Owner()

    def put(
        self, batch: CommandBatch, owner: Owner, answered: Callable[[PutAnswer], None], unanswered: Unanswered
    ) -> None:
        """See :class:`core.cluster.log_engine.LogEngine`, also for the methods below."""
        if len(batch.data) <= self._part_bytes:
            self._put_value(batch, batch.data, owner, answered, unanswered)
        else:
            self._put_part(batch, 0, owner, answered, unanswered)

    def _put_part(
        self,
        batch: CommandBatch,
        part: int,
        owner: Owner,
        answered: Callable[[PutAnswer], None],
        unanswered: Unanswered,
    ) -> None:
        """Put the parts of a batch from this one on, and then its head."""
        keys, at = self._keys, part * self._part_bytes
        if at >= len(batch.data):
            head = encoded_head(batch.data, batch.end.epoch, self._part_bytes)
            self._put_value(batch, head, owner, answered, unanswered)
            return
        key = keys.part(batch.end.number, batch.end.epoch, part)
        is_owner = has_value(keys.owner, encoded_owner(owner))
        operation = putting(key, batch.data[at : at + self._part_bytes])
        request = transaction([is_owner], [operation], reading(range_of(keys.owner)))

        def come_back(response: Message) -> None:
            if response.succeeded:
                self._put_part(batch, part + 1, owner, answered, unanswered)
            else:
                answered(PutAnswer(self.owner_in(found(response)[0]), None))

        self._ask("KV/Txn", request, come_back, self._not_put(batch, unanswered), timeout_s=PUT_S)

    def _put_value(
        self,
        batch: CommandBatch,
        value: bytes,
        owner: Owner,
        answered: Callable[[PutAnswer], None],
        unanswered: Unanswered,
    ) -> None:
        """Put what stands under the number of a batch: its bytes, or its head."""
        keys, key = self._keys, self._keys.batch(batch.end.number)
        request = transaction(
            [has_value(keys.owner, encoded_owner(owner)), is_absent(key)],
            [putting(key, value)],
            reading(range_of(keys.owner), range_of(key)),
        )

        def come_back(response: Message) -> None:
            if response.succeeded:
                answered(PutAnswer(owner, None))
                return
            now, existing = found(response)
            before = existing[0].value if existing else None
            answered(PutAnswer(self.owner_in(now), batch.data if before == value else before))

        self._ask("KV/Txn", request, come_back, self._not_put(batch, unanswered), timeout_s=PUT_S)

    def _not_put(self, batch: CommandBatch, unanswered: Unanswered) -> Unanswered:
        def not_put() -> None:
            unanswered()
            if any(text in self._etcd.trouble for text in TOO_LARGE):
                self._too_large(len(batch.data))

        return not_put

    def claim(self, claim: Claim, answered: Callable[[ClaimAnswer], None], unanswered: Unanswered) -> None:
        self._ask("KV/Range", range_of(self._keys.owner), self._claim(claim, answered, unanswered), unanswered,
                       timeout_s=ASK_S)  # fmt: skip

    def _claim(
        self, claim: Claim, answered: Callable[[ClaimAnswer], None], unanswered: Unanswered
    ) -> Callable[[Message], None]:
        """What follows when it is known which owner there is: the claim takes the place of exactly this one."""
        key, wanted = self._keys.owner, Owner(claim.epoch, claim.node)

        def claimed(response: Message) -> None:
            won = bool(response.succeeded)
            answered(ClaimAnswer(wanted if won else self.owner_in(found(response)[0]), won))

        def come_back(response: Message) -> None:
            before = self.owner_in(response.kvs)
            if before.epoch != claim.epoch - 1:
                answered(ClaimAnswer(before, False))
                return
            is_same = has_value(key, encoded_owner(before)) if response.kvs else is_absent(key)
            request = transaction([is_same], [putting(key, encoded_owner(wanted))], reading(range_of(key)))
            self._ask("KV/Txn", request, claimed, unanswered, timeout_s=ASK_S)

        return come_back

    def ask_owner(self, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        def come_back(response: Message) -> None:
            answered(self.owner_in(response.kvs))

        self._ask("KV/Range", range_of(self._keys.owner), come_back, unanswered, timeout_s=ASK_S)

    def read(self, after: int, answered: Callable[[LogRead], None], unanswered: Unanswered) -> None:
        keys = self._keys
        ranges = reading(
            range_of(keys.owner),
            range_of(keys.cut),
            range_of(keys.batch(after), keys.log_end, count=True),
            range_of(keys.batch(after + 1), keys.log_end, limit=READ_MAX),
        )

        def come_back(response: Message) -> None:
            owner, cut, _, batches = found(response)
            cut_at = NUMBER.unpack(cut[0].value)[0] if cut else 0
            some = [(keys.number_of(one.key), one.value) for one in batches]
            reaches = after if response.responses[2].response_range.count else 0
            # A repeated request can put a batch again that was cut away meanwhile: the last one is not always the end.
            end = max(cut_at, some[-1][0] if some else reaches)
            complete = not response.responses[3].response_range.more
            whole = LogRead(after, self.owner_in(owner), cut_at + 1, end, some, complete)
            self._read_parts(some, 0, lambda: answered(whole), unanswered)

        self._ask("KV/Txn", transaction([], ranges, []), come_back, unanswered, timeout_s=PUT_S)

    def _read_parts(
        self, batches: list[tuple[int, bytes]], at: int, done: Callable[[], None], unanswered: Unanswered
    ) -> None:
        """Replace the heads from this index on by the bytes of their batches, one after another."""
        for index in range(at, len(batches)):
            number, value = batches[index]
            head = decoded_head(value)
            if head is not None:

                def come_back(data: bytes, index: int = index, number: int = number) -> None:
                    batches[index] = number, data
                    self._read_parts(batches, index + 1, done, unanswered)

                self._read_part(number, head, [], come_back, unanswered)
                return
        done()

    def _read_part(
        self, number: int, head: PartsHead, parts: list[bytes], done: Callable[[bytes], None], unanswered: Unanswered
    ) -> None:
        """Read the parts of a batch that follow these."""
        if len(parts) == head.parts:
            done(b"".join(parts))
            return

        def come_back(response: Message) -> None:
            if response.kvs:
                self._read_part(number, head, [*parts, response.kvs[0].value], done, unanswered)
            else:
                unanswered()  # cut away since the head was read

        key = self._keys.part(number, head.epoch, len(parts))
        self._ask("KV/Range", range_of(key), come_back, unanswered, timeout_s=PUT_S)

    def delete(
        self, numbers: Sequence[int], owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        keys = self._keys
        operations = [deleting(keys.batch(number)) for number in numbers]
        operations += [deleting(keys.part(number), keys.part(number + 1)) for number in numbers]
        self._as_owner([], operations, owner, answered, unanswered)

    def cut(self, upto: int, owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        keys = self._keys
        operations = [putting(keys.cut, NUMBER.pack(upto)), deleting(keys.batch(0), keys.batch(upto + 1))]
        operations.append(deleting(keys.part(0), keys.part(upto + 1)))
        self._as_owner(self._cut_if(), operations, owner, answered, unanswered)

    def _as_owner(
        self,
        also: list[Message],
        operations: list[Message],
        owner: Owner,
        answered: Callable[[Owner], None],
        unanswered: Unanswered,
    ) -> None:
        key = self._keys.owner
        request = transaction([has_value(key, encoded_owner(owner)), *also], operations, reading(range_of(key)))

        def come_back(response: Message) -> None:
            now = owner if response.succeeded else self.owner_in(found(response)[0])
            if now == owner and not response.succeeded:  # one of the other comparisons has failed
                unanswered()
            else:
                answered(now)

        self._ask("KV/Txn", request, come_back, unanswered, timeout_s=PUT_S)

    def _ask(
        self,
        method: str,
        request: Message,
        answered: Callable[[Message], None],
        unanswered: Unanswered,
        timeout_s: float,
    ) -> None:
        def guarded(response: Message) -> None:
            self._touched()
            try:
                answered(response)
            except LogBroken as broken:
                if self._broken is None:
                    raise
                self._broken(str(broken))

        def not_answered() -> None:
            self._touched()
            unanswered()

        self._etcd.ask(method, request, guarded, not_answered, timeout_s=timeout_s)

    def want_copy(self, wanted: CopyWanted, answered: Callable[[], None], unanswered: Unanswered) -> None:
        operation = putting(self._keys.wanted_by(wanted.receiver), encoded_wanted(wanted))
        self._ask("KV/Txn", transaction([], [operation], []), lambda _: answered(), unanswered, timeout_s=ASK_S)

    def read_wanted(self, answered: Callable[[Sequence[CopyWanted]], None], unanswered: Unanswered) -> None:
        keys = self._keys

        def come_back(response: Message) -> None:
            answered([wanted for one in response.kvs if (wanted := decoded_wanted(one.value)) is not None])

        self._ask("KV/Range", range_of(keys.wanted, keys.wanted_end), come_back, unanswered, timeout_s=ASK_S)

    def give_copy(
        self, wanted: CopyWanted, part: CopyPart, answered: Callable[[], None], unanswered: Unanswered
    ) -> None:
        operation = putting(self._keys.copy_for(wanted.receiver), encoded_part(part))
        self._ask("KV/Txn", transaction([], [operation], []), lambda _: answered(), unanswered, timeout_s=PUT_S)

    def read_copy(self, receiver: int, answered: Callable[[CopyPart | None], None], unanswered: Unanswered) -> None:
        def come_back(response: Message) -> None:
            answered(decoded_part(response.kvs[0].value) if response.kvs else None)

        self._ask("KV/Range", range_of(self._keys.copy_for(receiver)), come_back, unanswered, timeout_s=PUT_S)

    def end_copy(self, receiver: int) -> None:
        operations = [deleting(self._keys.wanted_by(receiver)), deleting(self._keys.copy_for(receiver))]
        self._ask("KV/Txn", transaction([], operations, []), lambda _: None, lambda: None, timeout_s=ASK_S)

    def doubt(self) -> None:
        self._etcd.ask_another()
