"""What the control plane shows of a broker in this process, without a server around it."""

from core.interface import Snapshot
from tests.kit.wire import InProcessBroker

OF_CONNECTIONS = ("connections", "sessions", "links", "channels", "stages")


class Looker:
    """An :class:`core.interface.Observable`. ``ledger`` False: nobody keeps a ledger of stalls."""

    def __init__(self, broker: InProcessBroker, *, ledger: bool = True) -> None:
        self._broker = broker
        self._ledger = ledger

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """See :class:`core.interface.Observable`."""
        if kind == "stalls":
            return self._broker.stalls.snapshot(identity) if self._ledger else []
        if kind not in OF_CONNECTIONS:
            return self._broker.engine.snapshot(kind, identity)
        rows = [row for peer in self._broker.peers for row in peer.front_end.snapshot(kind, self._broker.now)]
        return [row for row in rows if identity in (None, row["identity"])]
