"""etcd as the engine that puts the changes of definitions in order: each is one transaction, with the keys that it
changes."""

from collections.abc import Callable
from typing import Protocol

from core.cluster.definitions import StateReading, operations
from core.cluster.definitions import encoded as encoded_change
from core.cluster.definitions_engine import EVERYWHERE, KEPT, PAGE, PUT_S, READ_MAX, ChangesRead
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
from core.cluster.keys import NUMBER, ClusterKeys
from core.engine.routing.agreement import AgreedChange
from core.store.order_database import StateKey


class AsksEtcd(Protocol):
    """What is used of :class:`core.cluster.etcd.Etcd`; the simulated one has no more."""

    trouble: str

    def ask(
        self,
        method: str,
        request: Message,
        answered: Callable[[Message], None],
        unanswered: Callable[[], None],
        *,
        timeout_s: float,
    ) -> None: ...


class EtcdDefinitions:
    """The :class:`core.cluster.definitions_engine.DefinitionsEngine` over etcd."""

    name, advice = "etcd", "Try again when headgate cluster status shows no trouble"

    def __init__(self, etcd: AsksEtcd, keys: ClusterKeys) -> None:
        self.everywhere = EVERYWHERE  # other nodes look each quarter of a second, and clients do not wait for it
        self._etcd, self._keys = etcd, keys

    @property
    def trouble(self) -> str:
        """See :class:`core.cluster.definitions_engine.DefinitionsEngine`, also for the methods below."""
        return self._etcd.trouble

    def tell_made(self, number: int) -> None:
        """Nothing waits for it."""

    def put(
        self,
        number: int,
        change: AgreedChange,
        known: int,
        answered: Callable[[ChangesRead | None], None],
        unanswered: Callable[[], None],
    ) -> None:
        keys, value = self._keys, self._keys.topology_number
        changed = [
            deleting(one.key, one.end) if one.value is None else putting(one.key, one.value)
            for one in operations(keys, change)
        ]
        is_next = has_value(value, NUMBER.pack(number - 1)) if number > 1 else is_absent(value)
        order = [putting(value, NUMBER.pack(number)), putting(keys.change(number), encoded_change(change))]
        if number > KEPT:
            order.append(deleting(keys.change(number - KEPT)))
        request = transaction([is_next], [*order, *changed], self._ranges(known))

        def come_back(response: Message) -> None:
            answered(None if response.succeeded else self._taken(response, known))

        self._etcd.ask("KV/Txn", request, come_back, unanswered, timeout_s=PUT_S)

    def read(self, known: int, answered: Callable[[ChangesRead], None], unanswered: Callable[[], None]) -> None:
        def come_back(response: Message) -> None:
            answered(self._taken(response, known))

        self._etcd.ask("KV/Txn", transaction([], self._ranges(known), []), come_back, unanswered, timeout_s=PUT_S)

    def _ranges(self, known: int) -> list[Message]:
        keys = self._keys
        changes = range_of(keys.change(known + 1), keys.change(EVERYWHERE), limit=READ_MAX)
        return reading(range_of(keys.topology_number), changes)

    def _taken(self, response: Message, known: int) -> ChangesRead:
        number, changes = found(response)
        numbered = [(self._keys.number_of_change(one.key), one.value) for one in changes]
        return ChangesRead(_unpacked(number), numbered)

    def read_state(self, answered: Callable[[int, StateReading], None], unanswered: Callable[[], None]) -> None:
        """See :meth:`core.cluster.definitions_engine.DefinitionsEngine.read_state`. It has no answer either where the
        revision has been compacted meanwhile."""
        state = StateReading(self._keys)
        end = self._keys.topology_end

        def page(after: bytes, revision: int) -> None:
            request = range_of(after, end, limit=PAGE, revision=revision)
            number = range_of(self._keys.topology_number, revision=revision)
            asking = transaction([], reading(number, request), [])
            self._etcd.ask("KV/Txn", asking, lambda response: take(response, revision), unanswered, timeout_s=PUT_S)

        def take(response: Message, revision: int) -> None:
            number, keys = found(response)
            state.take([StateKey(one.key, one.value, one.create_revision, one.mod_revision) for one in keys])
            if response.responses[1].response_range.more:
                page(keys[-1].key + b"\0", revision or response.header.revision)
            else:
                answered(_unpacked(number), state)

        page(self._keys.topology, 0)


def _unpacked(number: list[Message]) -> int:
    return int(NUMBER.unpack(number[0].value)[0]) if number else 0
