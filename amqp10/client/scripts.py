"""The client for scripts: the same connections, senders and receivers, without ``await``.

    with connect("amqp://guest:guest@localhost") as connection:
        with connection.open_sender("/queues/orders") as sender:
            sender.send(Message(b"hello"))
        with connection.open_receiver("/queues/orders") as receiver:
            for delivery in receiver:
                print(delivery.message.body)
                delivery.accept()

The connection of :mod:`amqp10.client.connection` runs in an event loop in a thread of its own, so heartbeats are
answered and a lost connection comes back while the script does other work. Each call is carried out there, and the
calling thread waits for it. An interrupt (Ctrl-C) ends the call, and the end of the block ends the thread. Several
threads may use one connection, but a batch, and the loop over a receiver, belong to one thread.

A call costs two changes of threads, so use a batch for many messages, and loop over a receiver or take its messages
with ``receive_batch``. Whatever is not accepted is an error here: :class:`~amqp10.client.NotAccepted`.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import current_thread
from types import TracebackType
from typing import Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from amqp10.client import connection as awaiting
from amqp10.client.batch import SendBatch
from amqp10.client.connection import ClientConnection
from amqp10.client.receiver import Delivery, Receiver, ReceiverOptions
from amqp10.client.sender import RUN_MESSAGES_MAX, Sendable, Sender
from amqp10.client.settings import ClientSettings
from amqp10.client_core.errors import ConnectionLost, TimedOut
from amqp10.client_core.message import Message
from amqp10.client_core.not_accepted import RefusedMessage, not_accepted
from amqp10.client_core.outcomes import Fate, Sent, Unsent
from amqp10.client_core.reasons import LinkWait
from amqp10.client_core.requests import Answer
from amqp10.client_core.url import Url
from amqp10.client_core.view import MessageView
from amqp10.wire.messaging import Accepted, Error

TAKEN_MESSAGES_MAX = 100
"""Deliveries that a loop over a receiver takes in one call: half of the automatic link credit, so that more are on
their way meanwhile."""

T = TypeVar("T")


@contextmanager
def connect(
    url: str | Url | Sequence[str | Url], settings: ClientSettings | None = None
) -> Iterator["ScriptConnection"]:
    """A connection for the block, which is closed at the end of the block. Raises what the connect that awaits does."""
    with start_blocking_portal() as portal:
        portal.call(_name_thread)
        loop = LoopThread(portal)
        opened = portal.wrap_async_context_manager(awaiting.connect(url, settings))
        connection = opened.__enter__()
        try:
            yield ScriptConnection(loop, connection)
        finally:
            loop.over = True
            # The error of the block stays in the calling thread: an interrupt would end the event loop too early.
            opened.__exit__(None, None, None)


def _name_thread() -> None:
    current_thread().name = "AMQP 1.0 connection"


class LoopThread:
    """The thread with the event loop, as the calling threads use it."""

    def __init__(self, portal: BlockingPortal) -> None:
        self.over = False
        """The block of :func:`connect` has ended."""
        self._portal = portal

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have the thread do something, and wait for it. An interrupt of the calling thread cancels it."""
        self._check()
        future = self._portal.start_task_soon(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def tell(self, work: Callable[[], object]) -> None:
        """Have the thread do something that cannot fail, behind what it was told before, and do not wait."""
        self._check()
        self._portal.start_task_soon(work)

    def _check(self) -> None:
        if self.over:
            raise ConnectionLost("the connection was closed: its block has ended")


class ScriptConnection:
    """A connection, made by :func:`connect`."""

    def __init__(self, loop: LoopThread, connection: ClientConnection) -> None:
        self._loop = loop
        self._connection = connection

    @property
    def broker(self) -> Mapping[str, object]:
        """The broker's description of itself: product, version and so on, plain values."""
        return self._connection.broker

    def open_sender(self, address: str | None, *, settled: bool = False) -> "ScriptSender":
        """Attach a sender; see :meth:`amqp10.client.session.ClientSession.open_sender`."""
        sender = self._loop.call(lambda: self._connection.open_sender(address, settled=settled))
        return ScriptSender(self._loop, sender)

    def open_receiver(self, address: str | None, *, options: ReceiverOptions | None = None) -> "ScriptReceiver":
        """Attach a receiver; see :meth:`amqp10.client.session.ClientSession.open_receiver`."""
        receiver = self._loop.call(lambda: self._connection.open_receiver(address, options=options))
        return ScriptReceiver(self._loop, receiver)

    def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request to the management node, and wait for its answer. Raises RequestRefused, TimedOut."""
        return self._loop.call(lambda: self._connection.request(method, path, body))


class ScriptSender:
    """A sender to one address. ``with`` detaches it at the end of the block."""

    def __init__(self, loop: LoopThread, sender: Sender) -> None:
        self._loop = loop
        self._sender = sender

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def wait(self) -> LinkWait | None:
        """Why the broker makes this sender wait; None when it does not, or has given no reason. To be told of each
        change, give the settings a ``when_waiting``."""
        return self._sender.wait

    def send(self, message: Sendable, *, within_s: float | None = None) -> None:
        """Send one message, and wait until the broker has accepted it, as long as link credit and outcome take.

        Raises NotAccepted, and SendTimedOut after ``within_s`` seconds, which tells why the broker makes us wait. A
        message that was certainly not sent, because the connection was lost before, is sent again.
        """

        async def send_it() -> Fate:
            while True:
                fate = await self._sender.send(message, within_s=within_s)
                if not isinstance(fate, Unsent) or self._sender.status.over:
                    return fate

        fate = self._loop.call(send_it)
        if not isinstance(fate, Accepted | Sent):
            raise not_accepted([RefusedMessage(0, message, fate)], count=1, accepted=0)

    def send_many(self, messages: Iterable[Sendable], *, within_s: float | None = None) -> int:
        """Send messages, wait until the broker has accepted all of them, and return how many they are.

        An iterator is read in the calling thread, so it may take its time. Raises as :meth:`batch` does.
        """
        with self.batch(within_s=within_s) as batch:
            batch.send_many(messages)
        return batch.accepted

    def batch(self, *, within_s: float | None = None) -> "ScriptBatch":
        """A batch: many sends and one wait, at the end of its block.

        ``within_s`` limits each wait. Raises NotAccepted, which names the messages that were not accepted.
        """
        return ScriptBatch(self._loop, SendBatch(self._sender, within_s=within_s))

    def close(self) -> None:
        """Detach for good."""
        self._loop.call(self._sender.close)


class ScriptBatch:
    """Messages whose outcomes are awaited together; see :class:`amqp10.client.batch.SendBatch`."""

    def __init__(self, loop: LoopThread, batch: SendBatch) -> None:
        self._loop = loop
        self._batch = batch
        self._gathered: list[Sendable] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._hand_over()
            self._loop.call(self._batch.finish)

    @property
    def accepted(self) -> int:
        """Messages that are known to be accepted."""
        return self._batch.accepted

    def send(self, message: Sendable) -> None:
        """Add a message, and wait for link credit after each 256. Raises MessageTooLarge, NotAccepted."""
        self._gathered.append(message)
        if len(self._gathered) >= RUN_MESSAGES_MAX:
            self._hand_over()

    def send_many(self, messages: Iterable[Sendable]) -> None:
        """Add messages, as :meth:`send` does one by one."""
        for message in messages:
            self.send(message)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._loop.call(lambda: self._batch.send_many(gathered))


class ScriptDelivery:
    """One message that was received. Its outcome is sent without waiting for the broker."""

    __slots__ = ("_delivery", "_loop")

    def __init__(self, loop: LoopThread, delivery: Delivery) -> None:
        self._loop = loop
        self._delivery = delivery

    @property
    def message(self) -> Message:
        """The message, decoded. Raises DecodeError for one that its sender encoded wrongly."""
        return self._delivery.message

    @property
    def view(self) -> MessageView:
        """The message, of which only the parts that are read are decoded."""
        return self._delivery.view

    def accept(self) -> None:
        """Accept it: it has been processed."""
        self._loop.tell(self._delivery.accept)

    def reject(self, error: Error | None = None) -> None:
        """Reject it: no consumer can ever process it."""
        self._loop.tell(lambda: self._delivery.reject(error))

    def release(self) -> None:
        """Release it: it was not processed, and another consumer may get it."""
        self._loop.tell(self._delivery.release)

    def modify(self, *, delivery_failed: bool = True, undeliverable_here: bool = False) -> None:
        """Give it back with the modified outcome: by default, processing it failed."""
        self._loop.tell(
            lambda: self._delivery.modify(delivery_failed=delivery_failed, undeliverable_here=undeliverable_here)
        )


class ScriptReceiver:
    """A receiver from one address. ``with`` detaches it at the end of the block; looping over it gives deliveries as
    they come, without end."""

    def __init__(self, loop: LoopThread, receiver: Receiver) -> None:
        self._loop = loop
        self._receiver = receiver
        self._taken: deque[Delivery] = deque()
        """Deliveries that the loop has taken ahead."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str | None:
        """The address; of a dynamic node, the name that the broker gave it."""
        return self._receiver.address

    @property
    def wait(self) -> LinkWait | None:
        """Why the broker sends no messages; None when it does, or has given no reason."""
        return self._receiver.wait

    def receive(self, *, within_s: float | None = None) -> ScriptDelivery:
        """Wait for the next delivery and take it. Raises TimedOut if none comes within so many seconds."""
        return self.receive_batch(1, within_s=within_s)[0]

    def receive_batch(self, n_max: int, *, within_s: float | None = None) -> list[ScriptDelivery]:
        """Take the next 1 to ``n_max`` deliveries. Raises TimedOut if none comes within so many seconds."""
        taken = self._ahead(n_max) or self._take(n_max, within_s)
        return [ScriptDelivery(self._loop, delivery) for delivery in taken]

    def accept(self, deliveries: Iterable[ScriptDelivery]) -> None:
        """Accept many deliveries at once."""
        accepted = [delivery._delivery for delivery in deliveries]

        def accept_all() -> None:
            for delivery in accepted:
                delivery.accept()

        self._loop.tell(accept_all)

    def __iter__(self) -> Iterator[ScriptDelivery]:
        while True:
            taken = self._ahead(1)
            if not taken:
                self._taken.extend(self._take(TAKEN_MESSAGES_MAX, None))
                continue
            yield ScriptDelivery(self._loop, taken[0])

    def close(self) -> None:
        """Detach for good. Deliveries without an outcome go back to the node that they came from."""
        self._taken.clear()
        self._loop.call(self._receiver.close)

    def _ahead(self, n_max: int) -> list[Delivery]:
        """Deliveries that the loop has taken ahead, without those that were lost since, because these come again."""
        ahead: list[Delivery] = []
        while self._taken and len(ahead) < n_max:
            delivery = self._taken.popleft()
            if self._receiver.holds(delivery):
                ahead.append(delivery)
        return ahead

    def _take(self, n_max: int, within_s: float | None) -> list[Delivery]:
        async def take() -> list[Delivery]:
            with anyio.move_on_after(within_s):
                return await self._receiver.receive_batch(n_max)
            return []

        taken = self._loop.call(take)
        if not taken:
            why = "" if self.wait is None else f"; the broker makes the receiver wait: {self.wait}"
            raise TimedOut(f"no message came from {self.address} within {within_s:g} s{why}")
        return taken
