"""Many sends and one wait: a batch of messages, at whose end all of them are accepted, or an error names those that are
not.

    async with SendBatch(sender) as batch:
        for order in orders:
            await batch.send(Message(order))

Messages are gathered and go out in runs of 256. Each run waits for link credit, so a batch is never ahead of the broker
by more than what the broker allows. Messages that were certainly not sent, because the broker took its link credit back
or the connection broke before, are sent again; these may be overtaken by later ones.

Bounds: one run of gathered messages, and the messages without an outcome, at most ``unsettled_max``; of those that were
not accepted the first 100 are kept.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import NamedTuple, Self

import anyio

from amqp10.client.receipt import Receipt
from amqp10.client.sender import RUN_MESSAGES_MAX, Sendable, Sender
from amqp10.client_core.errors import ClientError, MessageTooLarge
from amqp10.client_core.not_accepted import REFUSED_MAX, NotAccepted, RefusedMessage, not_accepted
from amqp10.client_core.outcomes import Fate, Sent, Uncertain, Unsent
from amqp10.wire.messaging import Accepted


class NumberedMessage(NamedTuple):
    """A message with its place in the batch."""

    position: int
    message: Sendable
    encoded: bytes


class BatchRun(NamedTuple):
    """A run of messages that was sent."""

    messages: list[NumberedMessage]
    receipt: Receipt


class SendBatch:
    """Messages whose outcomes are awaited together.

    ``within_s`` limits each wait, for link credit or for outcomes, in seconds; None: as long as it takes. A batch is
    used by one task.
    """

    def __init__(self, sender: Sender, *, within_s: float | None = None) -> None:
        self.accepted = 0
        """Messages that are known to be accepted; on a sender of settled messages, that were sent."""
        self.count = 0
        """Messages that were given to the batch."""
        self._sender = sender
        self._within_s = within_s
        self._gathered: list[NumberedMessage] = []
        self._posting: list[NumberedMessage] = []
        """A run that is being sent. When that is interrupted, how many of its messages were sent is not known."""
        self._runs: deque[BatchRun] = deque()
        self._refused: list[RefusedMessage] = []
        self._refused_count = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.finish()

    async def send(self, message: Sendable) -> None:
        """Add a message, and wait for link credit whenever a run is complete.

        Raises MessageTooLarge, which names the message, and NotAccepted when the wait takes longer than ``within_s`` or
        the sender is over; then the batch is over too.
        """
        entry = self._sender.encoded(message)
        limit = self._sender.max_message_size
        if limit is not None and len(entry) > limit:
            raise MessageTooLarge(f"message {self.count} has {len(entry)} bytes; the broker takes at most {limit}")
        self._gathered.append(NumberedMessage(self.count, message, entry))
        self.count += 1
        if len(self._gathered) >= RUN_MESSAGES_MAX:
            await self._within(self._post)

    async def send_many(self, messages: Iterable[Sendable]) -> None:
        """Add messages, as :meth:`send` does one by one."""
        for message in messages:
            await self.send(message)

    async def finish(self) -> None:
        """Send what is gathered and wait for all outcomes; the end of the block does this.

        Raises NotAccepted, which names the messages that were not accepted.
        """
        await self._within(self._settle)
        if self._refused:
            raise self._error()

    async def _within(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something within the time; otherwise end the batch with NotAccepted."""
        with anyio.move_on_after(self._within_s):
            try:
                await work()
            except ClientError as error:
                self._give_up(str(error))
                raise self._error() from error
            return
        wait = self._sender.wait
        why = "" if wait is None else f"; the broker makes the sender wait: {wait}"
        self._give_up(f"there was no answer within {self._within_s:g} s{why}")
        if self._refused:
            raise self._error()

    async def _post(self) -> None:
        """Send what is gathered."""
        self._posting, self._gathered = self._gathered, []
        if not self._posting:
            return
        receipt = await self._sender.post([one.encoded for one in self._posting])
        self._runs.append(BatchRun(self._posting, receipt))
        self._posting = []
        while self._runs and self._runs[0].receipt.done:
            self._take(self._runs.popleft())

    async def _settle(self) -> None:
        """Wait for all outcomes; send again what was not sent."""
        while self._gathered or self._runs:
            await self._post()
            while self._runs:
                await self._runs[0].receipt.fates()
                self._take(self._runs.popleft())

    def _take(self, run: BatchRun) -> None:
        """Take the outcomes of a run that has all, or no time for more."""
        for first, last, fate in run.receipt.so_far():
            if isinstance(fate, Accepted | Sent):
                self.accepted += last - first + 1
                continue
            for one in run.messages[first - run.receipt.first : last + 1 - run.receipt.first]:
                if isinstance(fate, Unsent) and not self._sender.status.over:
                    self._gathered.append(one)
                else:
                    self._refuse(one, fate)

    def _give_up(self, reason: str) -> None:
        """Wait for no further outcome."""
        for run in self._runs:
            self._take(run)
            for first, last in run.receipt.missing_ranges():
                for one in run.messages[first - run.receipt.first : last + 1 - run.receipt.first]:
                    self._refuse(one, Uncertain(reason))
        self._runs.clear()
        for one in self._posting:
            self._refuse(one, Uncertain(reason))
        self._posting = []
        for one in self._gathered:
            self._refuse(one, Unsent(reason))
        self._gathered.clear()

    def _refuse(self, one: NumberedMessage, fate: Fate) -> None:
        self._refused_count += 1
        if len(self._refused) < REFUSED_MAX:
            self._refused.append(RefusedMessage(one.position, one.message, fate))

    def _error(self) -> NotAccepted:
        return not_accepted(self._refused, count=self._refused_count, accepted=self.accepted)
