"""Whether the window of duplicates is the whole truth about a queue: a fence in the queue tells. Sans-IO.

A request that may have been delivered before, and that the window does not know, was executed by somebody else: by
another process of this name, or by the one that ran here before. That is impossible for requests that came into the
queue when nobody but this process consumed it any more. Where those begin no clock can say, but the queue can: the
process sends itself a message, the *fence*. What comes behind it in the queue was never anybody else's.

In front of the fence, a request that comes a second time is executed only when it is idempotent. With ``sole_host`` one
fence at the start is enough; without it another process may have been here while the connection was lost, so there is a
new fence each time. Without ``sole_host`` the queue TYPE has no fence: other hosts consume it all the time.
"""

FENCE = "services:fence"
"""The command of a fence; no handler has it."""


class Fence:
    """The newest fence of one queue, and whether it has come."""

    __slots__ = ("_awaited", "passed")

    def __init__(self) -> None:
        self._awaited = b""
        self.passed = False
        """What comes now came into the queue behind the fence."""

    def put_up(self, identity: bytes) -> None:
        """A new fence is on its way into the queue."""
        self._awaited = identity
        self.passed = False

    def came(self, identity: bytes, *, marked: bool) -> bool:
        """A fence came, perhaps that of another process. True when another one is needed.

        One that comes a second time is worth nothing: whoever had it may have had what comes behind it, too.
        """
        if identity != self._awaited:
            return False
        self.passed = not marked
        return marked
