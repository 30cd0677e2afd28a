"""The flow state of a session: four numbers that say how many transfer frames each side may still send [2.5.6].

The unit is the transfer *frame*: a message cut into five frames takes five. Ids are serial numbers and wrap; windows
are plain counts and do not.

We announce ``incoming_window`` to the peer and count it down; when at most ``top_up_at`` is left it is set (not added)
to its maximum again. Where link credit follows a window of its own, the session's window covers what all links have, so
that it never limits them. An alarm closes the window: we announce 0 and tolerate ``margin`` transfers in flight.
``remote_incoming_window`` is the number of transfers that the peer lets us send. It is recomputed from every flow, and
never below zero, because a peer that shrinks its window while our transfers are in flight would make it negative.

Our own ``next_incoming_id`` follows the ``next-outgoing-id`` of the peer's flows [2.5.6]. The number of transfers that
may come does not depend on it: ``incoming_window`` counts transfers, so a peer whose ids jump gains nothing.

This object knows no handles, no links and no reasons. Invariants: ``remote_incoming_window >= 0``;
``incoming_window >= -margin``; the announced window is never negative.
"""

from amqp10.errors import ErrorCondition, SessionFault
from amqp10.wire import serial

INCOMING_WINDOW_MAX = 2**31 - 1
"""The largest window that link credit asks for: serial numbers compare only over half their range [RFC 1982]. A larger
configured one stays as it is."""
OUTGOING_WINDOW = 0xFFFF_FFFF
"""The outgoing-window that we announce: the largest, since we never hold transfers back by it [2.5.6]."""


class SessionWindow:
    """The flow state of one session: our own, and the peer's as it reported it. Counts are transfer frames."""

    __slots__ = (
        "closed",
        "covered",
        "incoming_window",
        "initial_outgoing_id",
        "margin",
        "maximum",
        "next_incoming_id",
        "next_outgoing_id",
        "remote_incoming_window",
        "remote_outgoing_window",
        "top_up_at",
        "window_before",
    )

    def __init__(self, *, maximum: int, top_up_at: int, initial_outgoing_id: int = 0, closed: bool = False) -> None:
        """A session that the peer has not begun yet. ``closed`` announces 0 from the start and tolerates no
        transfer."""
        assert 0 <= top_up_at < maximum
        self.maximum = maximum
        self.top_up_at = top_up_at
        self.closed = closed
        self.incoming_window = 0 if closed else maximum
        self.margin = 0
        self.window_before = 0
        """While closed: what the peer may have been told before, and so may still send."""
        self.covered = 0
        """Transfers that links have link credit for, beyond what ``maximum`` is for; 0 where link credit is fixed."""
        self.initial_outgoing_id = initial_outgoing_id
        self.next_outgoing_id = initial_outgoing_id
        self.next_incoming_id = 0
        self.remote_incoming_window = 0
        self.remote_outgoing_window = 0

    def begin_received(self, *, next_outgoing_id: int, incoming_window: int, outgoing_window: int) -> None:
        """Take the peer's initial flow state from its begin [2.7.2]."""
        self.next_incoming_id = next_outgoing_id
        self.remote_incoming_window = incoming_window
        self.remote_outgoing_window = outgoing_window

    @property
    def announced(self) -> int:
        """The incoming-window that our frames carry now; 0 while closed."""
        return 0 if self.closed else max(0, self.incoming_window)

    def received(self, n: int) -> None:
        """Count ``n`` transfer frames of the peer. Raises SessionFault window-violation when they exceed the window."""
        self.next_incoming_id = (self.next_incoming_id + n) & serial.MASK
        self.incoming_window -= n
        self.remote_outgoing_window = max(0, self.remote_outgoing_window - n)
        if self.incoming_window < -self.margin:
            raise SessionFault(
                ErrorCondition.WINDOW_VIOLATION,
                f"incoming-window exceeded by {-self.incoming_window - self.margin} transfer frame(s) "
                f"(announced window: {self.announced}, tolerated excess: {self.margin})",
            )

    def flow_received(
        self,
        *,
        next_incoming_id: int | None,
        incoming_window: int,
        next_outgoing_id: int,
        outgoing_window: int,
    ) -> None:
        """Take the session fields of the peer's flow [2.5.6].

        Raises SessionFault window-violation when the peer claims to have received transfers that were not sent.
        """
        seen = self.initial_outgoing_id if next_incoming_id is None else next_incoming_id
        in_flight = serial.diff(self.next_outgoing_id, seen)
        if in_flight < 0:
            raise SessionFault(
                ErrorCondition.WINDOW_VIOLATION,
                f"next-incoming-id {seen} in flow, but the next transfer to be sent is {self.next_outgoing_id}",
            )
        self.next_incoming_id = next_outgoing_id
        self.remote_incoming_window = max(0, incoming_window - in_flight)
        self.remote_outgoing_window = outgoing_window

    def sent(self, n: int) -> None:
        """Count ``n`` transfer frames of ours; the caller has checked ``remote_incoming_window`` before."""
        assert 0 <= n <= self.remote_incoming_window
        self.next_outgoing_id = (self.next_outgoing_id + n) & serial.MASK
        self.remote_incoming_window -= n

    def top_up(self) -> bool:
        """Restore the window when it is due. True: announce it with a flow."""
        if self.closed or self.incoming_window > self.top_up_at:
            return False
        self.incoming_window = self._whole
        return True

    @property
    def _whole(self) -> int:
        return max(self.maximum, min(INCOMING_WINDOW_MAX, self.maximum + self.covered))

    def cover(self, change: int) -> None:
        """Links have link credit for so many transfers more, or fewer. The window that has been announced never
        shrinks; a larger one is announced by the next flow, which is the one that grants the link credit."""
        self.covered += change
        if not self.closed:
            self.incoming_window = max(self.incoming_window, self._whole)

    def close(self, margin: int) -> bool:
        """Announce 0 from now on, and tolerate ``margin`` transfers in flight. True: announce it with a flow."""
        if self.closed:
            return False
        self.closed = True
        self.margin = max(margin, self.incoming_window) if self.incoming_window > self.maximum else margin
        self.window_before = self.incoming_window
        self.incoming_window = 0
        return True

    def open(self) -> bool:
        """Announce the whole window again, or what the peer may have been sending since before the alarm, if that is
        more. True: announce it with a flow."""
        if not self.closed:
            return False
        self.closed = False
        self.incoming_window = max(self._whole, self.window_before + self.incoming_window)
        self.margin = 0
        return True
