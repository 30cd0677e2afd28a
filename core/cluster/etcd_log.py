"""The log of one group in etcd: each request of the driver is one transaction."""

from collections.abc import Callable, Sequence

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
from core.engine.quorum.batches import CommandBatch
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogBroken, LogRead, Owner, PutAnswer

READ_MAX = 8
"""The most batches in one answer: 4 MiB, unless single messages are larger."""
ASK_S = 0.5
"""How long a small request may take. A leader that has heard nothing for a second serves no more, so this leaves room
for a second try."""
PUT_S = 1.0
"""How long a batch may take. Under load, etcd takes up to 0.5 s for one; a batch that is late is put again."""
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
    ) -> None:
        """``broken`` is called when an answer shows that the engine has lost or changed what was committed; without
        it, LogBroken is raised where the answer is taken. ``too_large`` is called with the bytes of a batch that etcd
        does not take because of its size."""
        self._etcd = etcd
        self._broken = broken
        self._too_large = too_large
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
        keys, key = self._keys, self._keys.batch(batch.end.number)
        request = transaction(
            [has_value(keys.owner, encoded_owner(owner)), is_absent(key)],
            [putting(key, batch.data)],
            reading(range_of(keys.owner), range_of(key)),
        )

        def come_back(response: Message) -> None:
            if response.succeeded:
                answered(PutAnswer(owner, None))
                return
            now, existing = found(response)
            answered(PutAnswer(self.owner_in(now), existing[0].value if existing else None))

        def not_put() -> None:
            unanswered()
            if any(text in self._etcd.trouble for text in TOO_LARGE):
                self._too_large(len(batch.data))

        self._ask("KV/Txn", request, come_back, not_put, timeout_s=PUT_S)

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
        self._etcd.ask(
            "KV/Range",
            range_of(self._keys.owner),
            lambda response: answered(self.owner_in(response.kvs)),
            unanswered,
            timeout_s=ASK_S,
        )

    def read(self, after: int, answered: Callable[[LogRead], None], unanswered: Unanswered) -> None:
        keys = self._keys
        ranges = reading(
            range_of(keys.owner),
            range_of(keys.cut),
            range_of(keys.batch(0), keys.log_end, last=True),
            range_of(keys.batch(after + 1), keys.log_end, limit=READ_MAX),
        )

        def come_back(response: Message) -> None:
            owner, cut, last, batches = found(response)
            cut_at = NUMBER.unpack(cut[0].value)[0] if cut else 0
            end = keys.number_of(last[0].key) if last else cut_at
            some = [(keys.number_of(one.key), one.value) for one in batches]
            complete = not response.responses[3].response_range.more
            answered(LogRead(after, self.owner_in(owner), cut_at + 1, end, some, complete))

        self._ask("KV/Txn", transaction([], ranges, []), come_back, unanswered, timeout_s=PUT_S)

    def delete(
        self, numbers: Sequence[int], owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        self._as_owner([deleting(self._keys.batch(number)) for number in numbers], owner, answered, unanswered)

    def cut(self, upto: int, owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered) -> None:
        keys = self._keys
        operations = [putting(keys.cut, NUMBER.pack(upto)), deleting(keys.batch(0), keys.batch(upto + 1))]
        self._as_owner(operations, owner, answered, unanswered)

    def _as_owner(
        self, operations: list[Message], owner: Owner, answered: Callable[[Owner], None], unanswered: Unanswered
    ) -> None:
        key = self._keys.owner
        request = transaction([has_value(key, encoded_owner(owner))], operations, reading(range_of(key)))

        def come_back(response: Message) -> None:
            answered(owner if response.succeeded else self.owner_in(found(response)[0]))

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
            try:
                answered(response)
            except LogBroken as broken:
                if self._broken is None:
                    raise
                self._broken(str(broken))

        self._etcd.ask(method, request, guarded, unanswered, timeout_s=timeout_s)
