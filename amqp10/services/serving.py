"""Who answers: the commands of a service, and the requests that are in hand.

A handler is a function or an async function of a :class:`Request`; what it returns is the answer. An async one may call
other services meanwhile; its caller waits, and no thread does. A request is settled only when the broker has taken its
answer, so a host that dies leaves its requests to others.

A request that may have been delivered before is executed again only when that does no harm: its command or its call was
declared idempotent. Otherwise its caller gets Uncertain. Nothing is uncertain where the window of duplicates is the
whole truth: see :mod:`amqp10.services.fences`.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, cast

import trio

from amqp10.client.receiver import Delivery
from amqp10.errors import DecodeError
from amqp10.messaging import Error
from amqp10.services.calls import Answer
from amqp10.services.duplicates import DuplicateWindow, Seen
from amqp10.services.envelope import Envelope
from amqp10.services.errors import RemoteError, ServiceError
from amqp10.services.fences import Fence
from amqp10.services.options import ServiceOptions

if TYPE_CHECKING:
    from amqp10.services.service import Service

BUSY = "services:busy"
FAILED = "services:failed"
NO_SUCH_COMMAND = "services:no-such-command"
UNCERTAIN = "services:uncertain"


class Request:
    """A command that came, and its caller, who may wait for an answer."""

    __slots__ = ("_serving", "body", "deliveries", "envelope", "later", "of_type", "over", "running")

    def __init__(self, serving: "Serving", envelope: Envelope, delivery: Delivery, *, of_type: bool) -> None:
        self._serving = serving
        self.envelope = envelope
        self.deliveries = [delivery]
        """What is settled with it: this one, and any that came again meanwhile."""
        self.of_type = of_type
        """It came to any host of the type."""
        self.body: object = None
        self.later = False
        self.running = False
        self.over = False

    @property
    def command(self) -> str:
        """What is to be done."""
        return self.envelope.command

    @property
    def service(self) -> "Service":
        """The service that has the request in hand, to call others with."""
        return self._serving.service

    @property
    def wants_answer(self) -> bool:
        """Somebody waits for the answer: it is a call and no cast."""
        return self.envelope.reply_to is not None

    def answer_later(self) -> None:
        """What the handler returns is not the answer: :meth:`answer` or :meth:`fail` will be called.

        Until then the request is in hand, and counts.
        """
        self.later = True

    def answer(self, body: object = None) -> None:
        """The answer. Only the first one counts. Raises EncodeError for a body that has no encoding."""
        self._serving.finish(self, body, None)

    def fail(self, condition: str, text: str) -> None:
        """The caller gets RemoteError with this condition and text."""
        self._serving.finish(self, None, RemoteError(condition, text))


Handler = Callable[[Request], object] | Callable[[Request], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Command:
    """How a command is executed."""

    handler: Handler
    is_async: bool
    idempotent: bool


class Commands:
    """What a service can do: handlers by the names of their commands."""

    def __init__(self) -> None:
        self.by_name: dict[str, Command] = {}
        self.answer_taker: Callable[[str, Answer], None] | None = None

    def add(self, name: str, handler: Handler, *, idempotent: bool = False) -> None:
        """Have a command executed by a function. ``idempotent``: executing it twice does no harm."""
        if name in self.by_name:
            raise ValueError(f"the command {name!r} has a handler already")
        self.by_name[name] = Command(handler, iscoroutinefunction(handler), idempotent)

    def take_answers(self, taker: Callable[[str, Answer], None]) -> None:
        """Have a function take the answers that no call of this process waits for, by the message-id of the request.

        They are those of :meth:`Service.ask`, to any host of the type, and such as come too late.
        """
        self.answer_taker = taker

    def command(self, name: str, *, idempotent: bool = False) -> Callable[[Handler], Handler]:
        """The same as a decorator."""

        def take(handler: Handler) -> Handler:
            self.add(name, handler, idempotent=idempotent)
            return handler

        return take


class Serving:
    """The requests in hand of one service."""

    def __init__(
        self,
        service: "Service",
        nursery: trio.Nursery,
        commands: Commands,
        options: ServiceOptions,
        send_answer: Callable[[Request, object, RemoteError | None], None],
    ) -> None:
        self.service = service
        self._nursery = nursery
        self._commands = commands
        self._options = options
        self._send_answer = send_answer
        self.duplicates = DuplicateWindow(ids_max=options.duplicates_max, kept_s=options.duplicates_kept_s)
        self.type_fence = Fence()
        self.host_fence = Fence()
        self._by_identity: dict[bytes, Request] = {}
        self._waiting: deque[Request] = deque()
        self._starting = False
        self.in_hand_of_type = 0
        self.in_hand_of_host = 0
        self.executed = 0
        """Handlers that were begun."""
        self.suppressed = 0
        """Messages that came again and were not executed again."""
        self.uncertain = 0
        """Messages that may have been executed by somebody else, and were not here."""
        self.on_finished: Callable[[], None] = lambda: None
        """Called when a request is over that nobody gets an answer to."""

    @property
    def idle(self) -> bool:
        """Nothing is in hand."""
        return not (self.in_hand_of_type or self.in_hand_of_host or self._waiting)

    def take(self, envelope: Envelope, delivery: Delivery, *, of_type: bool) -> None:
        """A request came."""
        if self._is_duplicate(envelope, delivery):
            self.suppressed += 1
            return
        request = Request(self, envelope, delivery, of_type=of_type)
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

    def finish(self, request: Request, body: object, error: RemoteError | None) -> None:
        """A request is answered, or has failed; :meth:`settle` follows when the broker has taken the answer."""
        if request.over:
            return
        if request.wants_answer:
            self._send_answer(request, body, error)
            request.over = True
        else:
            request.over = True
            self.settle(request, error)
            self.on_finished()

    def _is_duplicate(self, envelope: Envelope, delivery: Delivery) -> bool:
        seen = self.duplicates.look(envelope.identity, trio.current_time()) if envelope.identity else Seen.NEW
        if seen is Seen.RUNNING:
            self._by_identity[envelope.identity].deliveries.append(delivery)
        elif seen is Seen.DONE:
            delivery.accept()
        return seen is not Seen.NEW

    def _refusal(self, request: Request) -> RemoteError | None:
        """Why a request is not executed here; None when it is."""
        envelope, options = request.envelope, self._options
        command = self._commands.by_name.get(envelope.command)
        if command is None:
            return RemoteError(NO_SUCH_COMMAND, f"there is no command {envelope.command!r} here")
        trusted = self.type_fence if request.of_type else self.host_fence
        if envelope.marked and not (trusted.passed or command.idempotent or envelope.idempotent):
            self.uncertain += 1
            text = f"{envelope.command!r} came a second time: a host may have executed it, and did not answer"
            return RemoteError(UNCERTAIN, text)
        full = not request.of_type and self.in_hand_of_host >= options.host_requests_max
        if full and len(self._waiting) >= options.host_requests_waiting_max:
            text = f"{len(self._waiting)} requests wait here, and host_requests_waiting_max allows no more"
            return RemoteError(BUSY, text)
        return None

    def _start(self, request: Request) -> None:
        command = self._commands.by_name[request.command]
        request.running = True
        self.executed += 1
        if request.of_type:
            self.in_hand_of_type += 1
        else:
            self.in_hand_of_host += 1
        try:
            request.body = request.envelope.body
        except DecodeError as error:
            self.finish(request, None, RemoteError(FAILED, f"the body cannot be decoded: {error}"))
            return
        if command.is_async:
            self._nursery.start_soon(self._run, request, command.handler)
        else:
            self._call(request, command.handler)

    def _start_waiting(self) -> None:
        """Start what waits, as far as there is room: in a loop, for a quick command is over before it returns here."""
        if self._starting:
            return
        self._starting = True
        while self._waiting and self.in_hand_of_host < self._options.host_requests_max:
            self._start(self._waiting.popleft())
        self._starting = False

    async def _run(self, request: Request, handler: Handler) -> None:
        try:
            answer = await cast("Awaitable[object]", handler(request))
            if not request.later:
                self.finish(request, answer, None)
        except Exception as error:
            self.finish(request, None, _as_remote(error))

    def _call(self, request: Request, handler: Handler) -> None:
        try:
            answer = handler(request)
            if not request.later:
                self.finish(request, answer, None)
        except Exception as error:
            self.finish(request, None, _as_remote(error))

    def settle(self, request: Request, error: RemoteError | None = None) -> None:
        """A request is over: its messages are accepted, or rejected with an error, and its id is known for done."""
        for delivery in request.deliveries:
            if error is None:
                delivery.accept()
            else:
                delivery.reject(Error(condition=error.condition, description=error.text))
        identity = request.envelope.identity
        if identity:
            self.duplicates.end(identity, trio.current_time())
            del self._by_identity[identity]
        if not request.running:
            return
        if request.of_type:
            self.in_hand_of_type -= 1
        else:
            self.in_hand_of_host -= 1
            self._start_waiting()


def _as_remote(error: Exception) -> RemoteError:
    """What the caller learns of an exception: a refusal as it is meant, anything else by its name and text."""
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, ServiceError):
        return RemoteError(FAILED, str(error))
    return RemoteError(FAILED, f"{type(error).__name__}: {error}")
