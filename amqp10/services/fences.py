"""Fences: whether the window of duplicates knows all executed requests of a queue. Sans-IO.

A request that may have been delivered before, and that the window does not know, was executed by another process: by
one that has the same name now, or by one that ran here before. That is impossible for requests that came into the queue
after this process had become its only consumer. No clock can show where these requests begin, but the queue can: the
process sends itself a message, the *fence*. Only this process has consumed the messages behind the fence.

In front of the fence, a request that comes a second time is executed only when it is idempotent. With ``sole_host`` one
fence at the start is enough. Without it another process may have been here while the connection was lost, so there is a
new fence each time. Without ``sole_host`` the queue TYPE has no fence, because other hosts consume it all the time.
"""

FENCE = "services:fence"
"""The command of a fence; there is no handler for it."""


class Fence:
    """The newest fence of one queue, and whether it has been received."""

    __slots__ = ("_awaited", "passed")

    def __init__(self) -> None:
        self._awaited = b""
        self.passed = False
        """Messages received from now on entered the queue behind the fence."""

    def put_up(self, identity: bytes) -> None:
        """A new fence has been sent to the queue."""
        self._awaited = identity
        self.passed = False

    def came(self, identity: bytes, *, marked: bool) -> bool:
        """A fence was received, perhaps one of another process. True when another one is needed.

        A fence that was delivered before proves nothing: its former receiver may have had the messages behind it, too.
        """
        if identity != self._awaited:
            return False
        self.passed = not marked
        return marked
