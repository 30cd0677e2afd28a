"""What an operator may see and do, put together from the broker and the server for the control requests."""

from core.engine.broker import Broker
from core.interface import Snapshot
from core.server.run import Server

SERVER_KINDS = frozenset({"connections", "sessions", "links"})
"""Snapshots that the server's connections know; the engine knows the others."""


class BrokerControl:
    """The control plane of one broker process. ``server`` is set once there is one."""

    def __init__(self, broker: Broker, *, version: str, pid: int) -> None:
        self.server: Server | None = None
        self._broker = broker
        self._version = version
        self._pid = pid

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Everything of a kind, or the one with this identity."""
        if kind in SERVER_KINDS:
            return [] if self.server is None else self.server.snapshot(kind, identity)
        return self._broker.snapshot(kind, identity)

    def status(self) -> Snapshot:
        """The broker at a glance."""
        status: Snapshot = {"product": "Headgate", "version": self._version, "pid": self._pid}
        if self.server is not None:
            status["listeners"] = self.server.snapshot("listeners")
            for row in self.server.snapshot("descriptors"):
                status["descriptors"] = {key: value for key, value in row.items() if key != "identity"}
        status["alarms"] = self._broker.snapshot("alarms")
        return status

    def set_alarm(self, name: str) -> None:
        """Raise an alarm by hand."""
        self._broker.set_alarm(name)

    def clear_alarm(self, name: str) -> None:
        """Clear an alarm that was raised by hand."""
        self._broker.clear_alarm(name)

    def close_connection(self, identity: str, reason: str) -> bool:
        """Close a connection with a reason; False when there is none of that name."""
        return self.server is not None and self.server.close_connection(identity, reason)
