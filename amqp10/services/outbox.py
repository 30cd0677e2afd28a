"""Sends messages over one link for each destination, so that a slow destination does not delay the others.

Every destination has a queue of messages that wait for link credit, and two tasks. One sends them in runs, as far as
the link credit goes; the other waits for the outcome of each run. The outcome decides what happens next:

===============================  =====================================================================================
outcome                          what happens
===============================  =====================================================================================
accepted                         casts and answers are over; calls wait for their answer
released                         no queue takes it: Unroutable, or again after ``resend_delay_s`` until its time-out
rejected                         Busy: the queue is full
none, and it was never sent      again, once the link is attached again
none, and it was sent; modified  again, marked ``resent``: the receiver may have it already, and checks its id
===============================  =====================================================================================

Bounds: the table of calls in flight bounds the waiting messages, and ``destinations_max`` bounds the links.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from amqp10.client.receipt import Receipt
from amqp10.client.sender import RUN_MESSAGES_MAX, Sender
from amqp10.client.session import ClientSession
from amqp10.client_core.errors import ConnectionLost, LinkClosed, MessageTooLarge, SessionClosed
from amqp10.client_core.outcomes import Fate, Uncertain, Unsent
from amqp10.services.calls import CallStage, CallTable, InFlight
from amqp10.services.envelope import as_resent
from amqp10.services.errors import Busy, NotSent, Unroutable
from amqp10.services.options import ServiceOptions
from amqp10.wire.messaging import Accepted, Modified, Rejected

Run = tuple[Receipt, list[InFlight]]


class Destination:
    """One address, the link to it, and the messages that wait for it."""

    def __init__(self, outbox: "Outbox", address: str) -> None:
        self.address = address
        self.waiting: deque[InFlight] = deque()
        self.sender: Sender | None = None
        self._outbox = outbox
        self._runs: deque[Run] = deque()
        self._again: list[InFlight] = []
        self._again_at = 0.0
        """No message is sent before this time, because no queue took the last one."""
        self._singly = 0
        """This number of messages are sent in a run each, because one of them is too large."""
        self._changed = anyio.Event()
        self._posted = anyio.Event()
        self.scope = anyio.CancelScope()

    @property
    def idle(self) -> bool:
        """No message waits, and none is without an outcome."""
        return not (self.waiting or self._runs or self._again)

    @property
    def waiting_reason(self) -> str | None:
        """Why the broker makes this link wait."""
        return None if self.sender is None else self.sender.waiting_reason

    def put(self, entry: InFlight) -> None:
        """Send this as soon as there is link credit."""
        self.waiting.append(entry)
        self._changed.set()

    async def run(self) -> None:
        """Send messages and process outcomes, until the destination is closed or the session is over."""
        with self.scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._settle)
                with suppress(SessionClosed, ConnectionLost):
                    while True:
                        await self._something_waits()
                        await anyio.sleep_until(self._again_at)
                        self.sender = await self._outbox.open_sender(self)
                        if self.sender is not None:
                            await self._send(self.sender)
                tasks.cancel_scope.cancel()

    async def _something_waits(self) -> None:
        """Wait until there is a message to send."""
        while True:
            if self._again:
                self.waiting.extendleft(reversed(self._again))
                self._again.clear()
            while self.waiting and self.waiting[0].stage is CallStage.OVER:
                self.waiting.popleft()
            if self.waiting:
                return
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _send(self, sender: Sender) -> None:
        """Send messages until the broker closes the link."""
        try:
            while True:
                await self._something_waits()
                if self._again_at > anyio.current_time():
                    await anyio.sleep_until(self._again_at)
                room = min(sender.room, RUN_MESSAGES_MAX)
                if room <= 0:
                    await sender.status.change()
                else:
                    self._hand_over(sender, room if self._singly == 0 else 1)
        except LinkClosed:
            # The queue behind the address was deleted, or an operator closed the link: wait before the next attempt.
            self._again_at = anyio.current_time() + self._outbox.options.resend_delay_s

    def _hand_over(self, sender: Sender, room: int) -> None:
        """Send the next run, of at most ``room`` messages; there is link credit for it."""
        run = self._take(room)
        if not run:
            return
        try:
            receipt = sender.post_nowait([entry.encoded for entry in run])
        except MessageTooLarge as error:
            # No message of the run was sent. Sending each in a run of its own shows which one is too large.
            if len(run) == 1:
                self._outbox.table.end(run[0], None, NotSent(str(error)))
            else:
                self._singly = len(run)
                for entry in run:
                    self._once_more(entry)
            return
        self._singly = max(0, self._singly - 1)
        self._runs.append((receipt, run))
        self._posted.set()

    def _take(self, room: int) -> list[InFlight]:
        run: list[InFlight] = []
        waiting = self.waiting
        while waiting and len(run) < room:
            entry = waiting.popleft()
            if entry.stage is CallStage.WAITING:
                entry.stage = CallStage.SENT
                run.append(entry)
        return run

    async def _settle(self) -> None:
        """Process the outcomes of the runs, in their order."""
        while True:
            while not self._runs:
                self._posted = anyio.Event()
                await self._posted.wait()
            receipt, run = self._runs[0]
            for first, last, fate in await receipt.fates():
                for entry in run[first - receipt.first : last - receipt.first + 1]:
                    self._learn(entry, fate)
            self._runs.popleft()
            self._outbox.on_outcomes()

    def _learn(self, entry: InFlight, fate: Fate) -> None:
        if entry.stage is not CallStage.SENT:
            return
        match fate:
            case Accepted():
                entry.stage = CallStage.ACCEPTED
                if not entry.answered:
                    self._outbox.table.end(entry, None)
            case Rejected():
                why = "" if fate.error is None else f": {fate.error.description}"
                self._outbox.table.end(entry, None, Busy(f"the queue behind {self.address} takes no more{why}"))
            case Unsent():
                self._once_more(entry)
            case Uncertain() | Modified():
                entry.uncertain = True
                if not entry.resent:
                    entry.resent, entry.encoded = True, as_resent(entry.encoded)
                self._once_more(entry)
            case _ if self._outbox.options.unroutable == "resend":
                entry.unroutable = True
                self._again_at = anyio.current_time() + self._outbox.options.resend_delay_s
                self._once_more(entry)
            case _:
                self._outbox.table.end(entry, None, Unroutable(f"no queue takes messages to {self.address}"))

    def _once_more(self, entry: InFlight) -> None:
        entry.stage = CallStage.WAITING
        self._again.append(entry)
        self._changed.set()

    def give_up(self, why: str) -> None:
        """There is no such address, for example because its queue was deleted."""
        if self._outbox.options.unroutable == "resend":
            self._again_at = anyio.current_time() + self._outbox.options.resend_delay_s
            for entry in self.waiting:
                entry.unroutable = True
            return
        waiting, self.waiting = self.waiting, deque()
        for entry in waiting:
            self._outbox.table.end(entry, None, Unroutable(why))


class Outbox:
    """The destinations of one service."""

    def __init__(
        self,
        session: ClientSession,
        tasks: TaskGroup,
        table: CallTable,
        options: ServiceOptions,
        declare_again: Callable[[], Awaitable[None]],
    ) -> None:
        self.table = table
        self.options = options
        self._session = session
        self._tasks = tasks
        self._declare_again = declare_again
        self._destinations: dict[str, Destination] = {}
        self.on_outcomes: Callable[[], None] = lambda: None
        """Called once for each run when its outcomes are known."""

    def put(self, entry: InFlight) -> None:
        """Send this when there is link credit. Raises Busy when ``destinations_max`` destinations are in use."""
        destination = self._destinations.get(entry.target)
        if destination is None:
            destination = self._add(entry.target)
        destination.put(entry)

    def waiting_reason(self, address: str) -> str | None:
        """Why the broker makes messages to an address wait."""
        destination = self._destinations.get(address)
        return None if destination is None else destination.waiting_reason

    def waiting(self) -> Mapping[str, tuple[int, str | None]]:
        """By address: how many messages wait for link credit, and the broker's reason."""
        return {
            address: (len(one.waiting), one.waiting_reason)
            for address, one in self._destinations.items()
            if one.waiting
        }

    async def open_sender(self, destination: Destination) -> Sender | None:
        """A link to the address, or None if the broker refuses it.

        When the broker refuses it first, the queues and exchanges of the service are declared again.
        """
        try:
            return await self._session.open_sender(destination.address)
        except LinkClosed:
            await self._declare_again()
        try:
            return await self._session.open_sender(destination.address)
        except LinkClosed as refused:
            destination.give_up(str(refused))
            return None

    def _add(self, address: str) -> Destination:
        if len(self._destinations) >= self.options.destinations_max:
            self._make_room()
        destination = self._destinations[address] = Destination(self, address)
        self._tasks.start_soon(destination.run)
        return destination

    def _make_room(self) -> None:
        idle = next((one for one in self._destinations.values() if one.idle), None)
        if idle is None:
            raise Busy(
                f"messages wait for {len(self._destinations)} destinations, and destinations_max allows no more: "
                f"wait for some, or allow more"
            )
        del self._destinations[idle.address]
        idle.scope.cancel()
        if idle.sender is not None:
            self._tasks.start_soon(idle.sender.close)
