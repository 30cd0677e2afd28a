"""An etcd in memory, behind a network that delays and loses: what the client of etcd would send is carried out here."""

from collections.abc import Callable
from typing import Any

from core.cluster.etcd_messages import MESSAGES
from tests.cluster.network import Network

Entry = tuple[bytes, int, int]
"""Value, and the revisions in which it was made and last changed."""


class StoredKeys:
    """The keys, and what they were before."""

    def __init__(self) -> None:
        self.revision = 1
        self._states: dict[int, dict[bytes, Entry]] = {1: {}}

    @property
    def keys(self) -> dict[bytes, Entry]:
        """The keys now."""
        return self._states[self.revision]

    def carry_out(self, request: Any) -> Any:
        """Carry out a transaction, at one moment."""
        succeeded = all(map(self._holds, request.compare))
        operations = request.success if succeeded else request.failure
        changed = dict(self.keys)
        responses = [self._operated(one, changed) for one in operations]
        if changed != self.keys:
            self.revision += 1
            self._states[self.revision] = {
                key: (value, made or self.revision, last or self.revision)
                for key, (value, made, last) in changed.items()
            }
        header = MESSAGES["ResponseHeader"](revision=self.revision)
        return MESSAGES["TxnResponse"](header=header, succeeded=succeeded, responses=responses)

    def _holds(self, compare: Any) -> bool:
        there = self.keys.get(compare.key)
        if compare.target == 0:
            assert compare.version == 0
            return there is None
        return there is not None and there[0] == compare.value

    def _operated(self, operation: Any, changed: dict[bytes, Entry]) -> Any:
        kind = operation.WhichOneof("one")
        one = getattr(operation, kind)
        if kind == "request_put":
            before = changed.get(one.key)
            changed[one.key] = (one.value, 0 if before is None else before[1], 0)
            return MESSAGES["ResponseOp"](response_put=MESSAGES["PutResponse"]())
        if kind == "request_delete_range":
            for key in [key for key in changed if _within(key, one)]:
                del changed[key]
            return MESSAGES["ResponseOp"](response_delete_range=MESSAGES["DeleteRangeResponse"]())
        state = self._states[one.revision or self.revision]
        found = sorted(key for key in state if _within(key, one))
        shown = found[: one.limit] if one.limit else found
        kvs = [
            MESSAGES["KeyValue"](
                key=key, value=state[key][0], create_revision=state[key][1], mod_revision=state[key][2]
            )
            for key in shown
        ]
        response = MESSAGES["RangeResponse"](kvs=kvs, more=len(shown) < len(found))
        return MESSAGES["ResponseOp"](response_range=response)


def _within(key: bytes, one: Any) -> bool:
    return one.key <= key < one.range_end if one.range_end else key == one.key


class SimulatedEtcd:
    """What one node has of :class:`core.cluster.etcd.Etcd`."""

    def __init__(self, node: int, stored: StoredKeys, network: Network) -> None:
        self.trouble = ""
        self.over = False
        """The process of the node has ended: it hears nothing more."""
        self._node, self._stored, self._network = node, stored, network

    def ask(
        self,
        method: str,
        request: Any,
        answered: Callable[[Any], None],
        unanswered: Callable[[], None],
        *,
        timeout_s: float,
    ) -> None:
        """See :meth:`core.cluster.etcd.Etcd.ask`."""
        assert method == "KV/Txn"

        def come_back(response: Any) -> None:
            if not self.over:
                self.trouble = ""
                answered(response)

        def give_up() -> None:
            if not self.over:
                self.trouble = "no answer in time"
                unanswered()

        self._network.ask(self._node, lambda: self._stored.carry_out(request), come_back, give_up)
