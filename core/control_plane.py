"""What an operator may see and do: the broker and the server behind the control requests."""

from collections.abc import Callable, Iterator, Mapping

from core.engine.broker import Broker
from core.errors import NotFound, PreconditionFailed
from core.interface import Snapshot, Target
from core.observe.stalls import Stalls
from core.observe.why import why
from core.rows import SERVER_KINDS
from core.server.orders import Order
from core.server.run import Server
from core.server.sampler import Sampler
from core.slices import Walk
from core.store.definitions import PolicyDeclaration


class BrokerControl:
    """The control plane of one broker process. ``server`` and ``sampler`` are set once they exist.

    What ``identity`` means stands in a snapshot under the first of :data:`core.rows.IDENTITY_FIELDS` that it has.
    """

    def __init__(self, broker: Broker, *, version: str, pid: int, stalls: Stalls) -> None:
        self.server: Server | None = None
        self.sampler: Sampler | None = None
        self.settings_text: Callable[[], str] = str
        self.queue_of_address: Callable[[str], str] = str
        """Returns the queue that a client's address names, or that is named without one. Raises Invalid."""
        self._broker = broker
        self._version = version
        self._pid = pid
        self._stalls = stalls

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """All rows of a kind, or the one with this identity. Only for kinds of which there are few rows."""
        if kind in SERVER_KINDS:
            return [] if self.server is None else self.server.snapshot(kind, identity)
        if kind == "stalls":
            return self._stalls.snapshot(identity)
        return self._broker.snapshot(kind, identity)

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        if kind in SERVER_KINDS:
            parts = iter(()) if self.server is None else self.server.connections(kind, identity)
            return (row for rows in parts for row in rows)
        return self._stalls.rows() if kind == "stalls" else self._broker.rows(kind, identity)

    def status(self) -> Snapshot:
        """A summary of the broker's state: version, listeners, alarms, descriptors."""
        status: Snapshot = {"product": "Headgate", "version": self._version, "pid": self._pid}
        if self.server is not None:
            status["listeners"] = self.server.snapshot("listeners")
            for row in self.server.snapshot("descriptors"):
                status["descriptors"] = {key: value for key, value in row.items() if key != "identity"}
            for row in self.server.snapshot("server"):
                status["refused"] = row["refused"]
        status["alarms"] = [row for row in self._broker.snapshot("alarms") if row["level"] == "alarm"]
        return status

    def configuration(self) -> str:
        """The settings in force, as a file without secrets; "" where they are not known."""
        return self.settings_text()

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

    def why(self, kind: str, identity: str) -> Walk[Snapshot | None]:
        """What holds up one of the :data:`core.rows.WHY_KINDS`, by its identity or the name of a queue; None where
        there is none of that name."""
        return why(self, kind, identity)

    def close_connection(self, identity: str, reason: str) -> bool:
        """Close a connection with a reason; False when there is none of that name."""
        return self.server is not None and self.server.close_connection(identity, reason)

    def drain(self, *, wanted: bool) -> Snapshot:
        """Start or end a drain: publishers and consumers stand still, and new connections are refused. Returns its
        progress."""
        self._broker.drain(wanted=wanted)
        if self.server is not None:
            self.server.drain(wanted=wanted)
        return self.draining()

    def draining(self) -> Snapshot:
        """The progress of a drain: ``unsettled`` counts the messages that consumers hold and have not settled."""
        since = None if self.server is None else self.server.drained_since
        return {
            "draining": since is not None,
            "since": None if since is None else since.wall,
            "connections": 0 if self.server is None else self.server.sockets[0],
            "unsettled": self.unsettled,
        }

    @property
    def unsettled(self) -> int:
        """How many messages consumers hold and have not settled."""
        return self._broker.unsettled

    def trace_frames(self, identity: str, *, wanted: bool) -> None:
        """Start or end the frame trace of a connection. Raises NotFound, LimitReached."""
        if self.server is not None:
            self.server.trace_frames(identity, wanted=wanted)

    def traced_frames(self, identity: str, after: int) -> Snapshot:
        """The frames from this number on. Raises NotFound."""
        if self.server is None:
            raise NotFound(f"there is no connection '{identity}'")
        return self.server.traced_frames(identity, after)

    def order(self, order: Order) -> None:
        """Have a link or session carry out an order. Raises NotFound, Invalid."""
        if self.server is None:
            raise NotFound(f"there is no '{order.identity}'")
        self.server.order(order)

    def set_policy(
        self, *, name: str, pattern: str, priority: int, apply_to: str, definition: Mapping[str, object]
    ) -> None:
        """Make or change a policy. Raises Invalid, LimitReached and PreconditionFailed."""
        self._broker.policies.set(
            PolicyDeclaration(name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=definition)
        )

    def clear_policy(self, name: str) -> None:
        """Remove a policy. Raises NotFound and PreconditionFailed."""
        self._broker.policies.clear(name)

    def policy(self, name: str) -> Snapshot | None:
        """The row of a policy; None where there is none of that name."""
        return next(iter(self._broker.snapshot("policies", name)), None)

    def explain_policies(self, queue: str) -> Snapshot:
        """Which policy applies to a queue, and why. Raises NotFound."""
        return self._broker.explain_policies(queue)

    def memory(self) -> Snapshot:
        """The memory alarm with its figures, and ``warning``: what speaks against the watermark.

        This and the next three methods raise PreconditionFailed where nothing is measured.
        """
        return self._measuring().memory()

    def disk(self) -> Snapshot:
        """The disk alarm, with its figures."""
        return self._measuring().disk()

    def set_memory_watermark(self, text: str) -> None:
        """Set another watermark until the next start, in the words of the configuration. Raises Invalid."""
        self._measuring().set_memory_watermark(text)

    def set_disk_free_limit(self, text: str) -> None:
        """Set another limit of free disk space until the next start, in the words of the configuration. Raises
        Invalid."""
        self._measuring().set_disk_free_limit(text)

    def _measuring(self) -> Sampler:
        if self.sampler is None:
            raise PreconditionFailed("this broker does not measure memory and disk space")
        return self.sampler
