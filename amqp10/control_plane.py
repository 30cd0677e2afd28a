"""What an operator may see and do, put together from the broker and the server for the control requests."""

from collections.abc import Mapping

from core.engine.broker import Broker
from core.errors import PreconditionFailed
from core.interface import Snapshot, Target
from core.observe.stalls import Stalls
from core.server.run import Server
from core.server.sampler import Sampler
from core.store.definitions import PolicyDeclaration

SERVER_KINDS = frozenset({"connections", "sessions", "links", "channels"})
"""Snapshots that the server's connections know; the engine knows the others."""


class BrokerControl:
    """The control plane of one broker process. ``server`` and ``sampler`` are set once there are."""

    def __init__(self, broker: Broker, *, version: str, pid: int, stalls: Stalls) -> None:
        self.server: Server | None = None
        self.sampler: Sampler | None = None
        self._broker = broker
        self._version = version
        self._pid = pid
        self._stalls = stalls

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Everything of a kind, or the one with this identity."""
        if kind in SERVER_KINDS:
            return [] if self.server is None else self.server.snapshot(kind, identity)
        if kind == "stalls":
            return self._stalls.snapshot(identity)
        return self._broker.snapshot(kind, identity)

    def status(self) -> Snapshot:
        """The broker at a glance."""
        status: Snapshot = {"product": "Headgate", "version": self._version, "pid": self._pid}
        if self.server is not None:
            status["listeners"] = self.server.snapshot("listeners")
            for row in self.server.snapshot("descriptors"):
                status["descriptors"] = {key: value for key, value in row.items() if key != "identity"}
            for row in self.server.snapshot("server"):
                status["refused"] = row["refused"]
        status["alarms"] = [row for row in self._broker.snapshot("alarms") if row["level"] == "alarm"]
        return status

    def set_alarm(self, name: str) -> None:
        """Raise an alarm by hand."""
        self._broker.set_alarm(name)

    def clear_alarm(self, name: str) -> None:
        """Clear an alarm that was raised by hand."""
        self._broker.clear_alarm(name)

    def peek_queue(self, queue: str, count: int) -> list[Snapshot]:
        """Look at the first messages of a queue."""
        return self._broker.peek_queue(queue, count)

    def move_messages(self, queue: str, target: Target, count: int | None) -> int:
        """Begin to move messages out of a queue."""
        return self._broker.move_messages(queue, target, count)

    def replay_messages(self, queue: str, count: int | None) -> int:
        """Begin to send messages back to where they died."""
        return self._broker.replay_messages(queue, count)

    def close_connection(self, identity: str, reason: str) -> bool:
        """Close a connection with a reason; False when there is none of that name."""
        return self.server is not None and self.server.close_connection(identity, reason)

    def set_policy(
        self, *, name: str, pattern: str, priority: int, apply_to: str, definition: Mapping[str, object]
    ) -> None:
        """Make or change a policy."""
        self._broker.policies.set(
            PolicyDeclaration(name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=definition)
        )

    def clear_policy(self, name: str) -> None:
        """Remove a policy."""
        self._broker.policies.clear(name)

    def policy(self, name: str) -> Snapshot | None:
        """One policy."""
        return next(iter(self._broker.snapshot("policies", name)), None)

    def explain_policies(self, queue: str) -> Snapshot:
        """Which policy holds for a queue, and why."""
        return self._broker.explain_policies(queue)

    def memory(self) -> Snapshot:
        """The memory alarm, with its figures."""
        return self._measuring().memory()

    def disk(self) -> Snapshot:
        """The disk alarm, with its figures."""
        return self._measuring().disk()

    def set_memory_watermark(self, text: str) -> None:
        """Another watermark, until the next start."""
        self._measuring().set_memory_watermark(text)

    def set_disk_free_limit(self, text: str) -> None:
        """Another limit of free disk space, until the next start."""
        self._measuring().set_disk_free_limit(text)

    def _measuring(self) -> Sampler:
        if self.sampler is None:
            raise PreconditionFailed("this broker does not measure memory and disk space")
        return self.sampler
