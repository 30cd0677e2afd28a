"""The effects of an alarm on one connection: sessions that publish close their window; a drain stops deliveries too."""

from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.reasons import BlockWatches, reason_of_alarms
from amqp10.frontend.session_watches import SessionWatches
from amqp10.protocol.connection import Connection
from amqp10.protocol.session import Session
from core.clock import Now
from core.interface import FlowReason


class AlarmEffects:
    """Applies alarms to one connection. ``on`` holds the alarms that the engine reported last."""

    def __init__(self, connection: Connection, sessions: SessionWatches, blocks: BlockWatches) -> None:
        self.on: frozenset[str] = frozenset()
        self._connection = connection
        self._sessions = sessions
        self._blocks = blocks

    def changed(self, alarms: frozenset[str], now: Now) -> None:
        """The alarms changed. An alarm stops publishing: sessions that publish close their window, and no others. A
        drain stops deliveries too."""
        self.on = alarms
        for session in self._connection.sessions:
            self._hold_consumers(session, wanted=FlowReason.DRAIN_MODE in alarms)
            if not alarms:
                session.open_incoming_window()
                self._sessions.observe(session, None, direction="in", now=now)
                continue
            publishers = [link.reference for link in session.links if isinstance(link.reference, PublisherLink)]
            if publishers:
                self.close_window(session, now)
            for publisher in publishers:
                self._blocks.look_at(publisher)

    def close_window(self, session: Session, now: Now) -> None:
        """Close the window of a session that publishes while an alarm is on."""
        session.close_incoming_window()
        self._sessions.observe(session, reason_of_alarms(self.on), direction="in", now=now)

    def _hold_consumers(self, session: Session, *, wanted: bool) -> None:
        for link in session.links:
            user = link.reference
            if isinstance(user, ConsumerLink) and (FlowReason.DRAIN_MODE in user.holds) is not wanted:
                if wanted:
                    user.hold(FlowReason.DRAIN_MODE)
                else:
                    user.let_go(FlowReason.DRAIN_MODE)
                self._blocks.look_at(user)
