"""The messages that a service sends, until each is over: requests until they are answered, answers until the broker has
them.

It gives them their message-ids and deadlines, has them sent by the outbox, and lets a task wait for the end of a
request. Encoded forms are kept, because a service sends few different ones.
"""

import secrets
from collections.abc import Callable
from itertools import count
from math import inf

import anyio

from amqp10.services.bodies import plain
from amqp10.services.calls import CallStage, CallTable, InFlight
from amqp10.services.envelope import Envelope, Template, answer_template, encode_answer, request_template
from amqp10.services.errors import CommandUncertain, NotSent, RemoteError, ServiceError
from amqp10.services.options import ServiceOptions
from amqp10.services.outbox import Outbox

INSTANCE_BYTES = 6
"""48 random bits make the message ids of two processes different."""
TEMPLATES_MAX = 1000
"""Encoded forms of requests that are kept; when there are more, all are dropped and made anew."""


class EndOfRequest:
    """The body or the error with which a request ends, and the one task that waits for it."""

    __slots__ = ("_body", "_error", "_has_come")

    def __init__(self) -> None:
        self._body: object = None
        self._error: ServiceError | None = None
        self._has_come = anyio.Event()

    def come(self, body: object, error: ServiceError | None) -> None:
        """The request is over."""
        self._body, self._error = body, error
        self._has_come.set()

    async def wait(self) -> object:
        """Wait for the end. Raises the error if there is one."""
        await self._has_come.wait()
        if self._error is not None:
            raise self._error
        return self._body


class OutgoingMessages:
    """The messages in flight of one service."""

    def __init__(self, address: str, options: ServiceOptions) -> None:
        """``address``: the one for answers to this host."""
        self.table = CallTable(in_flight_max=options.in_flight_max)
        self.outbox: Outbox
        """Sends them; there is one as soon as there is a session."""
        self._address = address
        self._options = options
        self._templates: dict[object, Template] = {}
        self._instance = secrets.token_hex(INSTANCE_BYTES).encode()
        self._numbers = count(1)
        self._sooner = anyio.Event()

    def end(self) -> None:
        """The service ends: end all requests with an error."""
        self.table.end_all(_lost)

    def request(
        self,
        address: str,
        command: str,
        body: object,
        answer_to: str | None,
        time_out_s: float | None,
        idempotent: bool,
    ) -> InFlight:
        """Make a request. It ends with its answer if that comes to our own address, else when the broker has it. Raises
        ValueError for a time-out that leaves no time."""
        limit_s = self._options.time_out_s if time_out_s is None else time_out_s
        if limit_s <= 0:
            raise ValueError(f"a time-out of {limit_s} s leaves no time; it must be above 0")
        form = (command, answer_to, idempotent, limit_s)
        template = self._templates.get(form)
        if template is None:
            durable = self._options.durable
            template = self._learn(
                form,
                request_template(command, reply_to=answer_to, idempotent=idempotent, durable=durable, ttl_s=limit_s),
            )
        identity = self.identity()
        return InFlight(
            identity,
            address,
            template.encode(identity, plain(body)),
            deadline=anyio.current_time() + limit_s,
            answered=answer_to == self._address,
            on_end=_unheard,
        )

    def begin(self, entry: InFlight) -> None:
        """Send a request. Raises Busy."""
        self.table.check_room()
        self._enter(entry)

    async def end_of(self, entry: InFlight) -> object:
        """Begin a request, and wait until it is over. A cancelled task withdraws it before it can be sent."""
        end = EndOfRequest()
        entry.on_end = end.come
        self.begin(entry)
        try:
            return await end.wait()
        finally:
            self.table.withdraw(entry)

    def answer(
        self,
        envelope: Envelope,
        body: object,
        error: RemoteError | None,
        on_end: Callable[[object, ServiceError | None], None],
    ) -> None:
        """Send the answer to a request, or its error. ``on_end`` is called when the broker has it, or when it cannot be
        delivered. Raises Busy."""
        assert envelope.reply_to is not None
        limit_s = envelope.ttl_s or self._options.time_out_s
        condition, content = (None, plain(body)) if error is None else (error.condition, error.text)
        durable = self._options.durable
        if envelope.identity and envelope.message_id is None:
            form = (condition, limit_s)
            template = self._templates.get(form)
            if template is None:
                template = self._learn(form, answer_template(condition=condition, durable=durable, ttl_s=limit_s))
            encoded = template.encode(envelope.identity, content)
        else:
            encoded = encode_answer(envelope.message_id, content, condition=condition, durable=durable, ttl_s=limit_s)
        self._enter(
            InFlight(
                self.identity(),
                envelope.reply_to,
                encoded,
                deadline=anyio.current_time() + limit_s,
                answered=False,
                on_end=on_end,
            )
        )

    def identity(self) -> bytes:
        """A message-id that no other message has."""
        return b"%s%012x" % (self._instance, next(self._numbers))

    async def keep_time(self) -> None:
        """End the messages whose deadline has passed, as long as the service runs."""
        while True:
            deadline = self.table.next_deadline()
            with anyio.CancelScope(deadline=inf if deadline is None else deadline):
                await self._sooner.wait()
            self._sooner = anyio.Event()
            self.table.expire(anyio.current_time(), self.outbox.waiting_reason)

    def _enter(self, entry: InFlight) -> None:
        self.outbox.put(entry)
        if self.table.begin(entry):
            self._sooner.set()

    def _learn(self, form: object, template: Template) -> Template:
        if len(self._templates) >= TEMPLATES_MAX:
            self._templates.clear()
        self._templates[form] = template
        return template


def _unheard(body: object, error: ServiceError | None) -> None:
    """The ``on_end`` of an entry until the caller sets its own."""


def _lost(entry: InFlight) -> ServiceError:
    if entry.stage is CallStage.WAITING and not entry.uncertain:
        return NotSent(f"the service was closed before the message to {entry.target} left")
    return CommandUncertain(f"the service was closed before {entry.target} answered")
