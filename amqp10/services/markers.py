"""Whether the window of duplicates knows all executed requests of a queue: the markers tell. Sans-IO.

A request that may have been delivered before, and that the window does not know, was executed by another process: by
one that has the same name now, or by one that ran here before. That is impossible for requests that came into the queue
after this process had become its only consumer. No clock can show where these requests begin, but the queue can: the
process sends a message to itself, the *marker*. Only this process has consumed the messages behind the marker.

A request in front of the marker that is delivered a second time is executed only when it is idempotent. With
``sole_host`` one marker at the start is enough. Without it another process may have consumed the queue TYPE.HOST while
the connection was lost, so there is a new marker after each loss. Without ``sole_host`` the queue TYPE has no marker,
because other hosts consume it all the time.
"""

MARKER_COMMAND = "services:fence"
"""The command of a marker; there is no handler for it."""


class QueueMarker:
    """The newest marker of one queue, and whether it has been received."""

    __slots__ = ("_awaited", "passed")

    def __init__(self) -> None:
        self._awaited = b""
        self.passed = False
        """Messages received from now on entered the queue behind the marker."""

    def sent(self, identity: bytes) -> None:
        """A new marker has been sent to the queue."""
        self._awaited = identity
        self.passed = False

    def received(self, identity: bytes, *, redelivered: bool) -> bool:
        """A marker was received, perhaps one of another process. True when another one is needed.

        A marker that was delivered before proves nothing: its former receiver may have had the messages behind it, too.
        """
        if identity != self._awaited:
            return False
        self.passed = not redelivered
        return redelivered
