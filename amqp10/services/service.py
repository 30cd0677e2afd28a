"""A service: its queues, its calls to others, and the requests that it serves, on one connection and one session.

    commands = Commands()

    @commands.command("find", idempotent=True)
    async def find(request: ServiceRequest) -> object:
        return await request.service.call("STORE", "read", request.body)

    async with Service.open("amqp://guest:guest@localhost", type="REPO", host="host1", commands=commands):
        await anyio.sleep_forever()

Three kinds of links share the session: a receiver from the queue TYPE.HOST, a receiver from the queue TYPE if the
service has commands, and a sender for each destination. Link credit is per link, so none of them delays another.

Durations are seconds of the clock of asyncio or Trio. The options of the connection provide the randomness.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar, overload

import anyio
from anyio.abc import TaskGroup, TaskStatus

from amqp10.client.connection import ClientConnection, connect, single_errors
from amqp10.client.receiver import Delivery, Receiver, ReceiverOptions
from amqp10.client.session import ClientSession
from amqp10.client.settings import Backoff
from amqp10.client_core.errors import ClientError, LinkClosed
from amqp10.client_core.url import Url
from amqp10.errors import DecodeError
from amqp10.services.bodies import read
from amqp10.services.calls import CallResult
from amqp10.services.commands import Commands
from amqp10.services.discovery import DESCRIBE, HOSTS_MAX, HostDescription, as_body, described, hosts_in, problem_found
from amqp10.services.envelope import Envelope, EnvelopeReader, request_template
from amqp10.services.errors import Busy, CallTimedOut, CommandUncertain, RemoteError, ServiceError, Unroutable
from amqp10.services.markers import MARKER_COMMAND, QueueMarker
from amqp10.services.naming import ServiceName, address_of, group_address
from amqp10.services.options import ServiceOptions
from amqp10.services.outbox import Outbox
from amqp10.services.outgoing import OutgoingMessages
from amqp10.services.serving import BUSY, FAILED, UNCERTAIN, Command, RequestInHand, Serving
from amqp10.services.topology import declare
from amqp10.wire.messaging import Error

AnswerT = TypeVar("AnswerT")

BATCH_MAX = 256
"""Deliveries processed before the other tasks get their turn."""
LOOK_AGAIN_S = 0.05
"""Seconds between two checks for unfinished requests during a hand-over: a short delay for the caller, and few flows
for the broker."""


class ServiceRequest:
    """A command that was received, and its caller, which may wait for an answer."""

    __slots__ = ("_in_hand", "body", "service")

    def __init__(self, service: "Service", in_hand: RequestInHand) -> None:
        self.service = service
        """The service that executes the request; a handler can call other services with it."""
        self.body = in_hand.body
        """The body of the call or cast, decoded."""
        self._in_hand = in_hand

    @property
    def envelope(self) -> Envelope:
        """The message, decoded as far as its dispatch needs."""
        return self._in_hand.envelope

    @property
    def of_type(self) -> bool:
        """It was sent to any host of the type, and not to this one."""
        return self._in_hand.of_type

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.envelope.command

    @property
    def wants_answer(self) -> bool:
        """The caller waits for an answer: it is a call and no cast."""
        return self.envelope.reply_to is not None

    def answer_later(self) -> None:
        """Ignore the handler's return value: :meth:`answer` or :meth:`fail` will be called, outside of threads.

        Until then the request is in hand, and counts in the limits.
        """
        self._in_hand.later = True

    def answer(self, body: object = None) -> None:
        """Give the answer. Only the first one counts. Raises EncodeError for a body that has no encoding."""
        self.service.serving.finish(self._in_hand, body, None)

    def fail(self, condition: str, text: str) -> None:
        """Give an error: the caller gets RemoteError with this condition and text."""
        self.service.serving.finish(self._in_hand, None, RemoteError(condition, text))


class Service:
    """One service on one host, made by :meth:`open`."""

    def __init__(
        self, connection: ClientConnection, place: ServiceName, commands: Commands, options: ServiceOptions
    ) -> None:
        self.place = place
        self.address = place.address
        """The address for answers to this host."""
        self.options = options
        self.connection = connection
        self._commands = commands
        self._outgoing = OutgoingMessages(place.address, options)
        self._reader = EnvelopeReader()
        self._declaring = anyio.Lock()
        self._handing_over = False
        self._ended = False
        self._began = anyio.current_time()
        self._asked: dict[bytes, list[object]] = {}
        """Answers to questions of :meth:`discover` in progress, by message-id."""
        self.answers_dropped = 0
        """Answers for which no call waited any more: late ones, and duplicates."""
        self.answers_lost = 0
        """Answers of ours that could not be delivered, because the caller had gone."""
        self._type_receiver: Receiver | None = None
        self._host_receiver: Receiver | None = None
        self._tasks: TaskGroup
        self._session: ClientSession
        self.serving: Serving[ServiceRequest]
        """The requests in hand, with their counters."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str | Url | Sequence[str | Url],
        *,
        type: str,  # noqa: A002 - it is the field's word
        host: str,
        commands: Commands | None = None,
        options: ServiceOptions | None = None,
    ) -> "AsyncIterator[Service]":
        """Connect, declare what is missing, and serve ``commands`` while the block runs.

        Raises BadName, DeclaredDifferently, and the errors of :func:`amqp10.client.connect`. The block raises
        ConnectionLost when the connection is lost for good. Unfinished requests go back to their queue when the block
        ends.
        """
        options = options or ServiceOptions()
        place = ServiceName(type, host)
        async with connect(url, options.client) as connection:
            service = cls(connection, place, commands or Commands(), options)
            with single_errors():
                async with anyio.create_task_group() as tasks:
                    await service._start(tasks)
                    try:
                        yield service
                    finally:
                        service._end()
                        tasks.cancel_scope.cancel()

    # --- calling others --------------------------------------------------------------------------------------------

    @overload
    async def call(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> object: ...

    @overload
    async def call(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        answer: type[AnswerT],
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> AnswerT: ...

    async def call(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        answer: type[AnswerT] | None = None,
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> object:
        """Have a command executed by a host of a type, or by this host, and wait for its answer.

        ``body`` is bytes, any value that AMQP has [1.6], a dataclass or a pydantic model. The answer is bytes or a
        value; with ``answer``, a dataclass or a model, it is an object of that class. ``idempotent``: it may be
        executed again by another host. If the caller is cancelled, a message that has not been sent is withdrawn.

        Raises RemoteError, Unroutable, Busy, NotSent, CallTimedOut and CommandUncertain, see
        :mod:`amqp10.services.errors`, and BadBody for an answer of another form.
        """
        entry = self._outgoing.request(address_of(target, host), command, body, self.address, time_out_s, idempotent)
        came = await self._outgoing.end_of(entry)
        return came if answer is None else read(answer, came)

    def call_back(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        callback: Callable[[CallResult], None],
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> None:
        """Like :meth:`call`, but without waiting: ``callback`` gets the answer, or the error, once.

        An exception in it ends the service. Raises Busy when too many calls are in flight.
        """
        entry = self._outgoing.request(address_of(target, host), command, body, self.address, time_out_s, idempotent)
        entry.on_end = lambda answer, error: callback(CallResult(answer, error))
        self._outgoing.begin(entry)

    async def cast(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> None:
        """Have a command executed by a host of a type, or by this host, without an answer; wait until the broker has
        it.

        Raises Unroutable, Busy, NotSent, CallTimedOut.
        """
        await self._outgoing.end_of(
            self._outgoing.request(address_of(target, host), command, body, None, time_out_s, idempotent)
        )

    async def ask(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        host: str | None = None,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> str:
        """Have a command executed, and its answer sent to any host of our own type; wait until the broker has it.

        The host that gets the answer gives it to the function of :meth:`Commands.take_answers`, with the message-id
        that this returns. Raises what a cast raises.
        """
        answer_to = ServiceName(self.place.type).address
        entry = self._outgoing.request(address_of(target, host), command, body, answer_to, time_out_s, idempotent)
        await self._outgoing.end_of(entry)
        return entry.identity.decode()

    async def multicast(
        self,
        target: str,
        command: str,
        body: object = b"",
        *,
        time_out_s: float | None = None,
        idempotent: bool = False,
    ) -> None:
        """Have a command executed by every host of a type; wait until the broker has it. Raises what a cast raises."""
        address = group_address(ServiceName(target).type)
        await self._outgoing.end_of(self._outgoing.request(address, command, body, None, time_out_s, idempotent))

    async def broadcast(
        self, command: str, body: object = b"", *, time_out_s: float | None = None, idempotent: bool = False
    ) -> None:
        """Have a command executed by every host of every type, this one too. Raises what a cast raises."""
        await self._outgoing.end_of(
            self._outgoing.request(group_address(None), command, body, None, time_out_s, idempotent)
        )

    async def discover(self, target: str | None = None, *, seconds: float = 1.0) -> list[HostDescription]:
        """Ask all hosts of a type, or of all types (None), who they are, and collect their answers for so long.

        The hosts that answer say whether they are well and what they have done, and come sorted by type and host. A
        host that is asked for the first time may be this one. Raises ValueError for no time, and what a cast raises,
        except Unroutable: a type without a host is an empty list.
        """
        address = group_address(None if target is None else ServiceName(target).type)
        entry = self._outgoing.request(address, DESCRIBE, b"", self.address, seconds, True)
        entry.answered = False  # it is over when the broker has it, and its answers are many
        answers = self._asked[entry.identity] = []
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + seconds):
                with suppress(Unroutable):
                    await self._outgoing.end_of(entry)
                    await anyio.sleep_forever()
        finally:
            del self._asked[entry.identity]
        return hosts_in(answers)

    async def describe(self) -> HostDescription:
        """What this host says of itself: health, and what its commands have done."""
        serving = self.serving
        return described(
            self.place,
            serving.counts,
            up_s=anyio.current_time() - self._began,
            problem=await problem_found(self._commands.health_check),
            in_hand=serving.in_hand_of_type + serving.in_hand_of_host,
            in_flight=self.in_flight,
            suppressed=serving.suppressed,
            uncertain=serving.uncertain,
            answers_lost=self.answers_lost,
        )

    async def _describe(self, request: ServiceRequest) -> object:
        return as_body(await self.describe())

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Calls, casts and answers that are not over."""
        return len(self._outgoing.table)

    def waiting(self) -> Mapping[str, tuple[int, str | None]]:
        """By address: how many messages wait for link credit, and the broker's reason for it."""
        return self._outgoing.outbox.waiting()

    # --- handing over ----------------------------------------------------------------------------------------------

    async def hand_over(self, time_out_s: float = 30.0) -> None:
        """Stop taking requests, finish those in hand, and leave the queues to the next process of this name.

        The broker takes back the link credit first, so no message is in flight when the receivers are closed: the next
        process goes on with the next message, and none is lost or overtaken. Answers to calls of our own still come.
        Raises CallTimedOut when requests in hand take longer; they go back to their queue then.
        """
        self._handing_over = True
        with anyio.move_on_after(time_out_s) as scope:
            if self._type_receiver is not None:
                await self._type_receiver.pause(time_out_s)
            await self._finish_in_hand(time_out_s)
        for receiver in (self._type_receiver, self._host_receiver):
            if receiver is not None:
                await receiver.close()
        if scope.cancelled_caught:
            raise CallTimedOut(f"what {self.place} had in hand took longer than {time_out_s:g} s; it went back")

    async def _finish_in_hand(self, time_out_s: float) -> None:
        """Wait until no request is in hand, no call waits for an answer, and no message is in flight.

        An answer comes through the queue of this host, behind its other messages: so each call in flight gets one link
        credit.
        """
        host_receiver = self._host_receiver
        assert host_receiver is not None
        while True:
            await host_receiver.pause(time_out_s)
            waiting = self._outgoing.table.waiting_for_answers()
            untaken = host_receiver.waiting + (0 if self._type_receiver is None else self._type_receiver.waiting)
            if not (waiting or untaken or self._outgoing.table or not self.serving.idle):
                return
            if waiting:
                host_receiver.grant(waiting)
            await anyio.sleep(LOOK_AGAIN_S)

    # --- life ------------------------------------------------------------------------------------------------------

    async def _start(self, tasks: TaskGroup) -> None:
        await declare(self.connection, self.place, self.options)
        self._tasks = tasks
        self._session = await self.connection.begin_session()
        outgoing = self._outgoing
        outgoing.outbox = Outbox(self._session, tasks, outgoing.table, self.options, self._declare_again)
        self.serving = Serving(
            tasks,
            {**self._commands.by_name, DESCRIBE: Command(self._describe, is_async=True, idempotent=True)},
            self.options,
            place=str(self.place),
            shown=partial(ServiceRequest, self),
            send_answer=self._send_answer,
        )
        self.serving.on_finished = outgoing.outbox.on_outcomes = self._grant
        tasks.start_soon(outgoing.keep_time)
        tasks.start_soon(self._watch)
        await tasks.start(self._listen_to_host)
        if self._commands.by_name or self._commands.answer_taker is not None:
            await tasks.start(self._listen_to_type)

    def _end(self) -> None:
        self._ended = True
        self._outgoing.end()

    async def _declare_again(self) -> None:
        """Declare queues and exchanges again: the broker does not know one, because it was deleted or its data is
        lost."""
        async with self._declaring:
            await declare(self.connection, self.place, self.options)

    async def _watch(self) -> None:
        """Raise when the session or the connection is over. The other tasks end without an error then."""
        while True:
            await self._session.status.change()

    # --- incoming messages -----------------------------------------------------------------------------------------

    async def _listen_to_host(self, task_status: TaskStatus[None]) -> None:
        """Receive answers, requests for this host, and copies for a group; link credit is automatic, see the
        options."""
        while not self._over():
            receiver = self._host_receiver = await self._open_receiver(self.place, ReceiverOptions())
            self._begin_marker(self.serving.host_marker, self.place)
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
            with suppress(ClientError):
                await self._take_all(receiver, of_type=False)

    async def _listen_to_type(self, task_status: TaskStatus[None]) -> None:
        """Receive requests for any host of the type; the link credit is what is left of ``type_requests_max``."""
        place = ServiceName(self.place.type)
        while not self._over():
            receiver = self._type_receiver = await self._open_receiver(place, ReceiverOptions(automatic=False))
            if self.options.sole_host:
                self._begin_marker(self.serving.type_marker, place)
            self._grant()
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
            with suppress(ClientError):
                await self._take_all(receiver, of_type=True)

    async def _take_all(self, receiver: Receiver, *, of_type: bool) -> None:
        """Process messages until the link is over."""
        place = ServiceName(self.place.type) if of_type else self.place
        marker = self.serving.type_marker if of_type else self.serving.host_marker
        losses = receiver.status.losses
        looked = of_type and not self.options.sole_host  # such a queue has no marker
        while True:
            batch = await receiver.receive_batch(BATCH_MAX)
            if receiver.status.losses != losses:
                losses = receiver.status.losses
                if not (of_type or self.options.sole_host):
                    self._begin_marker(marker, place)
            for delivery in batch:
                self._take(delivery, of_type=of_type)
            if not (looked or marker.passed):
                # Another process may have consumed the queue when the marker was sent, and taken the marker: so send
                # another.
                self._begin_marker(marker, place)
            looked = True
            if of_type:
                self._grant()

    def _over(self) -> bool:
        """No new receiver is needed."""
        return self._handing_over or self._session.status.over

    def _take_marker(self, envelope: Envelope, *, of_type: bool) -> None:
        place = ServiceName(self.place.type) if of_type else self.place
        marker = self.serving.type_marker if of_type else self.serving.host_marker
        if marker.received(envelope.identity, redelivered=envelope.redelivered):
            self._begin_marker(marker, place)

    def _begin_marker(self, marker: QueueMarker, place: ServiceName) -> None:
        identity = self._outgoing.identity()
        marker.sent(identity)
        self._tasks.start_soon(self._send_marker, identity, place)

    async def _send_marker(self, identity: bytes, place: ServiceName) -> None:
        """Send a marker. Errors are ignored: without its marker a queue only has more uncertain requests."""
        template = request_template(MARKER_COMMAND, reply_to=None, idempotent=False, durable=True, ttl_s=None)
        with suppress(ClientError):
            sender = await self._session.open_sender(place.queue_address)
            await sender.send(template.encode(identity, b""))
            await sender.close()

    async def _open_receiver(self, place: ServiceName, receiver_options: ReceiverOptions) -> Receiver:
        """A receiver from a queue; the queue is declared when the broker finds it missing."""
        attempt, backoff = 0, self.options.client.reconnect or Backoff()
        while True:
            try:
                return await self._session.open_receiver(place.queue_address, options=receiver_options)
            except LinkClosed:
                await self._declare_again()
                await anyio.sleep(backoff.delay_s(attempt, self.options.client.random_fraction()))
                attempt += 1

    def _take(self, delivery: Delivery, *, of_type: bool) -> None:
        try:
            envelope = self._reader.read(delivery.encoded)
        except DecodeError as error:
            delivery.reject(Error(condition="amqp:decode-error", description=str(error)))
            return
        if not envelope.answers:
            if envelope.command == MARKER_COMMAND:
                self._take_marker(envelope, of_type=of_type)
                delivery.accept()
            else:
                self.serving.take(envelope, delivery, of_type=of_type)
            return
        body, refusal = _answer_in(envelope)
        if not self._outgoing.table.answer(envelope.identity, body, refusal):
            if envelope.identity in self._asked:
                if refusal is None and len(self._asked[envelope.identity]) < HOSTS_MAX:
                    self._asked[envelope.identity].append(body)
            elif self._commands.answer_taker is None:
                self.answers_dropped += 1
            else:
                self._commands.answer_taker(envelope.identity.decode(errors="replace"), CallResult(body, refusal))
        delivery.accept()

    def _grant(self) -> None:
        """Raise the link credit when half of the requests that may be in hand are finished."""
        receiver = self._type_receiver
        if receiver is None or self._handing_over or receiver.status.over:
            return
        room = self.options.type_requests_max - self.serving.in_hand_of_type - receiver.waiting
        if room > 0 and receiver.link_credit <= room // 2:
            receiver.grant(room)

    # --- outgoing messages -----------------------------------------------------------------------------------------

    def _send_answer(self, request: RequestInHand, body: object, error: RemoteError | None) -> None:
        """Send an answer or an error. The request is settled when the broker has it, or when it cannot be delivered."""
        try:
            self._outgoing.answer(request.envelope, body, error, partial(self._answered, request))
        except Busy as busy:
            self._answered(request, None, busy)

    def _answered(self, request: RequestInHand, _: object, failure: ServiceError | None) -> None:
        """The broker has the answer, or the answer cannot be delivered: the command was executed either way.

        When this service ends first, the request is left without an outcome, and goes to another process.
        """
        if self._ended:
            return
        self.serving.settle(request)
        if failure is not None:
            self.answers_lost += 1
            self._grant()  # without an error, on_outcomes does it once for a run of answers


def _answer_in(envelope: Envelope) -> tuple[object, ServiceError | None]:
    """Body and error of an answer, as for an :class:`CallResult`, which only few calls need."""
    try:
        body = envelope.body
    except DecodeError as fault:
        return None, RemoteError(FAILED, f"the answer cannot be decoded: {fault}")
    return (None, _from_remote(envelope.command, body)) if envelope.command else (body, None)


def _from_remote(condition: str, text: object) -> ServiceError:
    words = text if isinstance(text, str) else repr(text)
    if condition == UNCERTAIN:
        return CommandUncertain(words)
    if condition == BUSY:
        return Busy(words)
    return RemoteError(condition, words)
