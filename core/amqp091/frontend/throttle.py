"""Whether a 0.9.1 reader may read: stage credit and alarms together.

Under an alarm a connection is *blocking* until a publish comes, and *blocked* from then on; so a connection that only
consumes goes on. A reader whose channel has used up its stage credit is blocked at once: it was a publish that did it.
"""

from core.credit_flow.diagnosis import ConnectionState, blocked_reason, connection_state
from core.credit_flow.flow import CreditFlow


class Throttle:
    """The reader's brakes."""

    __slots__ = ("_alarms", "_published", "_reader")

    def __init__(self, reader: CreditFlow) -> None:
        self._reader = reader
        self._alarms: frozenset[str] = frozenset()
        self._published = False
        """A publish has come since an alarm was raised."""

    @property
    def alarms(self) -> frozenset[str]:
        """The alarms that are on."""
        return self._alarms

    @alarms.setter
    def alarms(self, alarms: frozenset[str]) -> None:
        self._alarms = alarms
        if not alarms:
            self._published = False

    @property
    def told(self) -> bool:
        """Blocked by an alarm: what a peer is told of."""
        return self._published

    @property
    def blocked(self) -> bool:
        """The socket is not read."""
        return self._published or self._reader.blocked

    def publish_received(self) -> bool:
        """A publish came. True when it is the one that makes an alarm block this connection."""
        if not self._alarms or self._published:
            return False
        self._published = True
        return True

    @property
    def reason(self) -> str:
        """The reason text of connection.blocked."""
        return blocked_reason(self._alarms)

    def state(self, now: float) -> ConnectionState:
        """What an operator is shown. ``now`` is monotonic, in seconds."""
        reader = self._reader
        return connection_state(
            alarms=self._alarms,
            blocked=self._published,
            in_flow=reader.blocked,
            blocked_at=reader.blocked_at,
            now=now,
        )
