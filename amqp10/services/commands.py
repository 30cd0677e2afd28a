"""The commands of a service: handlers by name, and what a handler gets.

A handler is an async function, or a plain one. A plain function runs in a thread, so it may take long and may block;
one that returns at once can be declared ``quick`` and runs without a thread. A handler that has a second parameter gets
the body there, as an object of the class that its annotation names:

    @commands.command("charge", retries=Backoff(attempts_max=3))
    async def charge(request: ServiceRequest, order: Order) -> Receipt:
        ...
"""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Protocol, get_type_hints

from amqp10.client.settings import Backoff
from amqp10.services.bodies import read, readable
from amqp10.services.calls import CallResult
from amqp10.services.serving import Command


class HasBody(Protocol):
    """What a handler gets, as far as this module knows it: a service has its own kind of request."""

    body: object


Handler = Callable[..., object] | Callable[..., Awaitable[object]]
"""A function of a ``ServiceRequest``, and of the body if it has a second parameter."""
HealthCheck = Callable[[], object] | Callable[[], Awaitable[object]]


class Commands:
    """The commands of a service: handlers by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Command[HasBody]] = {}
        self.answer_taker: Callable[[str, CallResult], None] | None = None
        self.health_check: HealthCheck | None = None

    def add(
        self,
        name: str,
        handler: Handler,
        *,
        idempotent: bool = False,
        quick: bool = False,
        retries: Backoff | None = None,
    ) -> None:
        """Register a function as the handler of a command.

        ``idempotent``: executing it twice does no harm. ``quick``: a plain function that returns at once and runs
        without a thread; such handlers are executed in the order of the requests. ``retries``: a handler that raises is
        called again after these delays, at most ``attempts_max`` times and within the time-out of the caller. A
        RemoteError is an answer, so it is never retried.

        Raises ValueError for a second handler of a name, and for a second parameter that is neither a dataclass nor a
        pydantic model.
        """
        if name in self.by_name:
            raise ValueError(f"the command {name!r} has a handler already")
        is_async = iscoroutinefunction(handler)
        self.by_name[name] = Command(
            _with_body(name, handler),
            is_async=is_async,
            idempotent=idempotent,
            in_thread=not (is_async or quick),
            retries=retries,
        )

    def take_answers(self, taker: Callable[[str, CallResult], None]) -> None:
        """Register a function for answers that no call of this process waits for; it gets the message-id of the
        request.

        These are answers to :meth:`Service.ask`, sent to any host of the type, and answers that come too late.
        """
        self.answer_taker = taker

    def check_health(self, check: HealthCheck) -> HealthCheck:
        """Register a function that says whether this host can work; a decorator.

        It is called when another service discovers this one. It is async or returns at once; it raises, or returns a
        text, when something is wrong.
        """
        self.health_check = check
        return check

    def command(
        self, name: str, *, idempotent: bool = False, quick: bool = False, retries: Backoff | None = None
    ) -> Callable[[Handler], Handler]:
        """The same as :meth:`add`, as a decorator."""

        def take(handler: Handler) -> Handler:
            self.add(name, handler, idempotent=idempotent, quick=quick, retries=retries)
            return handler

        return take


def _with_body(name: str, handler: Handler) -> Callable[[HasBody], object]:
    """The handler as a function of the request alone."""
    if not callable(handler):
        raise TypeError(f"the handler of {name!r} is no function, but {handler!r}")
    parameters = list(signature(handler).parameters.values())
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    if len(needed) < 2 or needed[1].kind in (needed[1].VAR_POSITIONAL, needed[1].KEYWORD_ONLY):
        return handler
    inner = handler.func if isinstance(handler, partial) else handler
    wanted = get_type_hints(inner).get(needed[1].name)
    if not isinstance(wanted, type) or not readable(wanted):
        raise ValueError(f"the parameter {needed[1].name!r} of the handler of {name!r} is no dataclass and no model")
    return partial(_call, handler, wanted)


def _call(handler: Handler, wanted: type, request: HasBody) -> object:
    return handler(request, read(wanted, request.body))
