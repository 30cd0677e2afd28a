"""The answering side: the requests that are in hand.

A handler is an async function or a plain one; its return value is the answer. An async one may call other services
meanwhile, without blocking a thread. A plain one runs in a thread, unless it is declared quick. What a handler raises
is logged here, with its traceback, because the caller gets only the text. A request is settled only when the broker has
taken its answer, so a host that dies leaves its requests to others. This module does not know what a handler gets: the
service makes that of a request.

A request that may have been delivered before is executed again only when that does no harm: its command or its call was
declared idempotent. Otherwise its caller gets CommandUncertain. No request is uncertain where the window of duplicates
knows all requests that were executed: see :mod:`amqp10.services.markers`.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from amqp10.client.receiver import Delivery
from amqp10.client.settings import Backoff
from amqp10.errors import DecodeError
from amqp10.services.counts import CommandCounts
from amqp10.services.duplicates import DuplicateWindow, Seen
from amqp10.services.envelope import Envelope
from amqp10.services.errors import BadBody, RemoteError, ServiceError
from amqp10.services.markers import QueueMarker
from amqp10.services.options import ServiceOptions
from amqp10.wire.messaging import Error

RequestT = TypeVar("RequestT")
"""What a handler gets."""
HandledT = TypeVar("HandledT", contravariant=True)
"""What a handler takes: a part of what it gets is enough."""

LOG = logging.getLogger("amqp10.services")
LOGGED_EVERY_S = 1.0
"""Failures of one command are logged at most once in this time; the next line says how many were not logged."""

BAD_BODY = "services:bad-body"
BUSY = "services:busy"
FAILED = "services:failed"
NO_SUCH_COMMAND = "services:no-such-command"
UNCERTAIN = "services:uncertain"


class RequestInHand:
    """A request that was received and is not over."""

    __slots__ = ("body", "deliveries", "envelope", "later", "of_type", "over", "running")

    def __init__(self, envelope: Envelope, delivery: Delivery, *, of_type: bool) -> None:
        self.envelope = envelope
        self.deliveries = [delivery]
        """The messages that are settled with it: the first one, and any duplicates that came meanwhile."""
        self.of_type = of_type
        """It was sent to any host of the type."""
        self.body: object = None
        self.later = False
        """The handler's return value is not the answer."""
        self.running = False
        self.over = False


@dataclass(frozen=True, slots=True)
class Command(Generic[HandledT]):
    """How a command is executed."""

    handler: Callable[[HandledT], object]
    """Its return value is the answer; if ``is_async``, the value that awaiting it gives."""
    is_async: bool
    idempotent: bool
    in_thread: bool = False
    """It is a plain function that may take long."""
    retries: Backoff | None = None
    """The delays before it is called again after it raised. None: it is not."""


class Serving(Generic[RequestT]):
    """The requests in hand of one service."""

    def __init__(
        self,
        tasks: TaskGroup,
        commands: Mapping[str, Command[RequestT]],
        options: ServiceOptions,
        *,
        place: str,
        shown: Callable[[RequestInHand], RequestT],
        send_answer: Callable[[RequestInHand, object, RemoteError | None], None],
    ) -> None:
        """``place`` is the name of the service, for the log; ``shown`` makes what a handler gets; ``send_answer`` sends
        the answer to a call, or its error."""
        self._place = place
        self._threads = anyio.CapacityLimiter(options.threads_max)
        self.counts = {name: CommandCounts() for name in commands}
        """What was executed, by command."""
        self._tasks = tasks
        self._commands = commands
        self._options = options
        self._shown = shown
        self._send_answer = send_answer
        self.duplicates = DuplicateWindow(ids_max=options.duplicates_max, kept_s=options.duplicates_kept_s)
        self.type_marker = QueueMarker()
        self.host_marker = QueueMarker()
        self._by_identity: dict[bytes, RequestInHand] = {}
        self._waiting: deque[RequestInHand] = deque()
        self._starting = False
        self.in_hand_of_type = 0
        self.in_hand_of_host = 0
        self.executed = 0
        """Handlers that were started."""
        self.suppressed = 0
        """Duplicate messages that were not executed again."""
        self.uncertain = 0
        """Messages that another process may have executed, and that were not executed here."""
        self.on_finished: Callable[[], None] = lambda: None
        """Called when a request without an answer is over."""

    @property
    def idle(self) -> bool:
        """No request is in hand."""
        return not (self.in_hand_of_type or self.in_hand_of_host or self._waiting)

    def take(self, envelope: Envelope, delivery: Delivery, *, of_type: bool) -> None:
        """Process a request that was received."""
        if self._is_duplicate(envelope, delivery):
            self.suppressed += 1
            return
        request = RequestInHand(envelope, delivery, of_type=of_type)
        if envelope.identity:
            self.duplicates.begin(envelope.identity)
            self._by_identity[envelope.identity] = request
        error = self._refusal(request)
        if error is not None:
            self.finish(request, None, error)
        elif of_type or self.in_hand_of_host < self._options.host_requests_max:
            self._start(request)
        else:
            self._waiting.append(request)

    def finish(self, request: RequestInHand, body: object, error: RemoteError | None) -> None:
        """Answer or fail a request; :meth:`settle` follows when the broker has taken the answer."""
        if request.over:
            return
        if request.envelope.reply_to is not None:
            self._send_answer(request, body, error)
            request.over = True
        else:
            request.over = True
            self.settle(request, error)
            self.on_finished()

    def _is_duplicate(self, envelope: Envelope, delivery: Delivery) -> bool:
        seen = self.duplicates.look(envelope.identity, anyio.current_time()) if envelope.identity else Seen.NEW
        if seen is Seen.RUNNING:
            self._by_identity[envelope.identity].deliveries.append(delivery)
        elif seen is Seen.DONE:
            delivery.accept()
        return seen is not Seen.NEW

    def _refusal(self, request: RequestInHand) -> RemoteError | None:
        """The error for a request that is not executed here; None when it is executed."""
        envelope, options = request.envelope, self._options
        command = self._commands.get(envelope.command)
        if command is None:
            return RemoteError(NO_SUCH_COMMAND, f"there is no command {envelope.command!r} here")
        trusted = self.type_marker if request.of_type else self.host_marker
        if envelope.redelivered and not (trusted.passed or command.idempotent or envelope.idempotent):
            self.uncertain += 1
            text = f"{envelope.command!r} came a second time: a host may have executed it, and did not answer"
            return RemoteError(UNCERTAIN, text)
        full = not request.of_type and self.in_hand_of_host >= options.host_requests_max
        if full and len(self._waiting) >= options.host_requests_waiting_max:
            text = f"{len(self._waiting)} requests wait here, and host_requests_waiting_max allows no more"
            return RemoteError(BUSY, text)
        return None

    def _start(self, request: RequestInHand) -> None:
        command = self._commands[request.envelope.command]
        request.running = True
        self.executed += 1
        self.counts[request.envelope.command].begun()
        if request.of_type:
            self.in_hand_of_type += 1
        else:
            self.in_hand_of_host += 1
        try:
            request.body = request.envelope.body
        except DecodeError as error:
            self._failed(request, RemoteError(FAILED, f"the body cannot be decoded: {error}"), anyio.current_time())
            return
        if command.is_async or command.in_thread or command.retries is not None:
            self._tasks.start_soon(self._run, request, command)
        else:
            self._call(request, command)

    def _start_waiting(self) -> None:
        """Start waiting requests as far as there is room.

        It is a loop, because the end of a quick command calls this method again before ``_start`` returns.
        """
        if self._starting:
            return
        self._starting = True
        while self._waiting and self.in_hand_of_host < self._options.host_requests_max:
            self._start(self._waiting.popleft())
        self._starting = False

    async def _run(self, request: RequestInHand, command: Command[RequestT]) -> None:
        """Execute a command, again and again if it may be retried."""
        began, attempt = anyio.current_time(), 0
        while True:
            try:
                answer = await self._execute(request, command)
                break
            except Exception as error:
                delay_s = self._delay_before_retry_s(request, command, error, began, attempt)
                if delay_s is None:
                    self._failed(request, error, began)
                    return
                self._log(request, error, f"is called again in {delay_s:.1f} s")
                self.counts[request.envelope.command].retried += 1
            await anyio.sleep(delay_s)
            attempt += 1
        self._executed(request, answer, began)

    async def _execute(self, request: RequestInHand, command: Command[RequestT]) -> object:
        shown = self._shown(request)
        if command.is_async:
            return await cast("Awaitable[object]", command.handler(shown))
        if command.in_thread:
            return await anyio.to_thread.run_sync(command.handler, shown, limiter=self._threads)
        return command.handler(shown)

    def _call(self, request: RequestInHand, command: Command[RequestT]) -> None:
        began = anyio.current_time()
        try:
            answer = command.handler(self._shown(request))
        except Exception as error:
            self._failed(request, error, began)
        else:
            self._executed(request, answer, began)

    def _delay_before_retry_s(
        self, request: RequestInHand, command: Command[RequestT], error: Exception, began: float, attempt: int
    ) -> float | None:
        """The delay before a command that has raised is called again; None for no further call."""
        retries = command.retries
        if retries is None or isinstance(error, RemoteError | BadBody) or not retries.allows(attempt):
            return None
        delay_s = retries.delay_s(attempt, self._options.client.random_fraction())
        left_s = began + (request.envelope.ttl_s or self._options.time_out_s) - anyio.current_time()
        return delay_s if delay_s < left_s else None

    def _executed(self, request: RequestInHand, answer: object, began: float) -> None:
        """The handler has returned."""
        try:
            if not request.later:
                self.finish(request, answer, None)
        except Exception as error:  # an answer that has no encoding
            self._failed(request, error, began)
        else:
            self.counts[request.envelope.command].ended(anyio.current_time() - began)

    def _failed(self, request: RequestInHand, error: Exception, began: float) -> None:
        """The handler has raised, and is not called again."""
        self.counts[request.envelope.command].failed(anyio.current_time() - began, str(error))
        if not isinstance(error, RemoteError | BadBody):  # those are not mistakes of the handler
            self._log(request, error, "has failed")
        self.finish(request, None, _as_remote(error))

    def _log(self, request: RequestInHand, error: Exception, what: str) -> None:
        command, now = request.envelope.command, anyio.current_time()
        unlogged = self.counts[command].may_log(now, LOGGED_EVERY_S)
        if unlogged is not None:
            others = f"; {unlogged} failures before it were not logged" if unlogged else ""
            LOG.error("the command %r of %s %s%s", command, self._place, what, others, exc_info=error)

    def settle(self, request: RequestInHand, error: RemoteError | None = None) -> None:
        """A request is over: accept its messages, or reject them with an error, and note its id as done."""
        for delivery in request.deliveries:
            if error is None:
                delivery.accept()
            else:
                delivery.reject(Error(condition=error.condition, description=error.text))
        identity = request.envelope.identity
        if identity:
            self.duplicates.end(identity, anyio.current_time())
            del self._by_identity[identity]
        if not request.running:
            return
        if request.of_type:
            self.in_hand_of_type -= 1
        else:
            self.in_hand_of_host -= 1
            self._start_waiting()


def _as_remote(error: Exception) -> RemoteError:
    """The error that the caller gets for an exception: a RemoteError unchanged, any other by its text or name."""
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, BadBody):
        return RemoteError(BAD_BODY, str(error))
    if isinstance(error, ServiceError):
        return RemoteError(FAILED, str(error))
    return RemoteError(FAILED, f"{type(error).__name__}: {error}")
