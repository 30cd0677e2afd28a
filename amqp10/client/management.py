"""Requests to the broker's management node, over a pair of links on their own session.

A request is a message that looks like HTTP; its answer comes on the other link [HTTP over AMQP, as RabbitMQ 4 has it].
One request is in flight at a time. The session is separate, because an alarm closes the windows of sessions that
publish, and must not keep an operator out.
"""

from dataclasses import dataclass
from itertools import count

import trio

from amqp10.client.errors import ConnectionLost, RequestRefused, TimedOut
from amqp10.client.message import Message
from amqp10.client.receipt import Unsent
from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.session import ClientSession
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import AMQP_VALUE, Properties
from amqp10.wire.types import plain

NODE = "/management"
PAIRED = {"paired": True}
"""The link property that makes two links of one name a pair."""
STATUS_REFUSED = 400
"""The lowest status of a request that was not served."""
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status, and a body of plain values."""

    status: int
    body: object


class Management:
    """The pair of links, attached with the first request."""

    def __init__(self, session: ClientSession, *, name: str, time_out_s: float) -> None:
        self._session = session
        self._name = name
        self._time_out_s = time_out_s
        self._turn = trio.StrictFIFOLock()
        self._identities = count(1)
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._unanswered = 0
        """Requests whose answers may still come. After a loss it may be too high, and then too much link credit is
        given."""

    async def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request and wait for its answer; ``path`` is percent-encoded, and may have a query.

        Raises RequestRefused for an error status, TimedOut when no answer comes.
        """
        with trio.move_on_after(self._time_out_s):
            async with self._turn:
                answer = await self._exchange(method, path, body)
            if answer.status >= STATUS_REFUSED:
                text = answer.body if isinstance(answer.body, str) else f"{method} {path} was refused"
                raise RequestRefused(text, status=answer.status)
            return answer
        raise TimedOut(f"{method} {path} was not answered within {self._time_out_s:g} s")

    def end(self) -> None:
        """End the session with its links. A request in flight raises SessionClosed."""
        self._session.close()

    async def _exchange(self, method: str, path: str, body: object) -> Answer:
        sender, receiver = await self._links()
        identity = f"{self._name}-{next(self._identities)}"
        properties = Properties(message_id=identity, to=path, subject=method, reply_to="$me")
        request = Message(body, properties=properties, section=AMQP_VALUE)
        while True:
            await receiver.standing.usable()
            losses = receiver.standing.losses
            self._unanswered += 1
            receiver.grant(self._unanswered)  # a grant sets it, so answers to abandoned requests count too
            fate = await sender.send(request)
            if not isinstance(fate, Unsent):
                break
        if not isinstance(fate, Accepted):
            raise ConnectionLost(f"whether {method} {path} was served is not known: {fate}")
        return await self._answer(receiver, identity, losses)

    async def _answer(self, receiver: Receiver, identity: str, losses: int) -> Answer:
        """Wait for the answer to a request; answers to requests that were given up before are dropped."""
        while True:
            for delivery in receiver.receive_nowait(1):
                self._unanswered = max(0, self._unanswered - 1)
                answer = delivery.message
                if answer.properties is not None and answer.properties.correlation_id == identity:
                    return _read(answer)
            receiver.standing.check(losses)
            if not receiver.waiting:
                await receiver.standing.change()

    async def _links(self) -> tuple[Sender, Receiver]:
        if self._sender is None or self._receiver is None or self._sender.standing.over or self._receiver.standing.over:
            self._receiver = await self._session.open_receiver(
                NODE,
                name=self._name,
                options=ReceiverOptions(automatic=False, settled=True, properties=PAIRED),
            )
            self._sender = await self._session.open_sender(NODE, name=self._name, properties=PAIRED)
        return self._sender, self._receiver


def _read(answer: Message) -> Answer:
    subject = answer.properties.subject if answer.properties is not None else None
    if subject is None or not (subject.isascii() and subject.isdigit() and len(subject) == DIGITS):
        raise RequestRefused(f"the broker's answer has the status {subject!r}, which is none")
    return Answer(int(subject), plain(answer.body))
