"""The outcomes of the messages of one ``post``, awaited without a task for each message."""

from anyio.lowlevel import checkpoint

from amqp10.client.waiting import Waiters
from amqp10.client_core.outcomes import FateRange, Outcomes


class Receipt:
    """The messages of one ``post``: the sender's numbers ``first`` to before ``end``."""

    __slots__ = ("_outcomes", "_waiters")

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._waiters = Waiters()
        outcomes.when_done = self._waiters.wake_all

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def first(self) -> int:
        """The number of the first message."""
        return self._outcomes.first

    @property
    def end(self) -> int:
        """The number behind the last message."""
        return self._outcomes.end

    @property
    def done(self) -> bool:
        """The fate of every message is known, and no further message will be added."""
        return self._outcomes.done

    async def fates(self) -> list[FateRange]:
        """Wait for the fate of every message; returns all of them, in ranges, in order."""
        if self.done:
            await checkpoint()
        while not self.done:
            await self._waiters.wait()
        return self.so_far()

    def missing_ranges(self) -> list[tuple[int, int]]:
        """The numbers of messages whose fate is not known yet, as ranges, both ends inclusive."""
        return self._outcomes.missing_ranges()

    def so_far(self) -> list[FateRange]:
        """The fates that are known now."""
        return self._outcomes.so_far()
