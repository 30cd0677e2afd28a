"""The rows that the control plane shows of a broker in this process, without a server around it."""

from collections.abc import Iterator

from core.interface import Snapshot
from tests.kit.wire import InProcessBroker

OF_CONNECTIONS = ("connections", "sessions", "links", "channels")


class Looker:
    """A :class:`core.row_walks.RowSource` over a broker in this process. With ``ledger`` False there are no rows of
    stalls."""

    def __init__(self, broker: InProcessBroker, *, ledger: bool = True) -> None:
        self._broker = broker
        self._ledger = ledger

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        if kind == "waiting_publishers":
            count = self._broker.stalls.waiting_publishers(identity or "") if self._ledger else 0
            return iter([{"address": identity, "count": count}])
        if kind == "stalls":
            return self._broker.stalls.rows() if self._ledger else iter(())
        if kind not in OF_CONNECTIONS:
            return self._broker.engine.rows(kind, identity)
        return (row for peer in self._broker.peers for row in peer.front_end.snapshot(kind, self._broker.now))
