"""Requests to the broker's management node, over a pair of links on their own session.

A request is a message that looks like HTTP; its answer comes on the other link [HTTP over AMQP, as RabbitMQ 4 has it].
One request is in flight at a time. The session is separate, because an alarm closes the windows of sessions that
publish, and must not keep an operator out.
"""

import anyio

from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.session import ClientSession
from amqp10.client_core.errors import ConnectionLost, TimedOut
from amqp10.client_core.outcomes import Unsent
from amqp10.client_core.requests import NODE, PAIRED, Answer, Requests
from amqp10.wire.messaging import Accepted


class Management:
    """The pair of links, attached with the first request."""

    def __init__(self, session: ClientSession, *, name: str, time_out_s: float) -> None:
        self._session = session
        self._name = name
        self._requests = Requests(name)
        self._time_out_s = time_out_s
        self._turn = anyio.Lock(fast_acquire=True)
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None

    async def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request and wait for its answer; ``path`` is percent-encoded, and may have a query.

        Raises RequestRefused for an error status, TimedOut when no answer comes.
        """
        with anyio.move_on_after(self._time_out_s):
            async with self._turn:
                return await self._exchange(method, path, body)
        raise TimedOut(f"{method} {path} was not answered within {self._time_out_s:g} s")

    def end(self) -> None:
        """End the session with its links. A request in flight raises SessionClosed."""
        self._session.close()

    async def _exchange(self, method: str, path: str, body: object) -> Answer:
        sender, receiver = await self._links()
        request = self._requests.begin(method, path, body)
        while True:
            await receiver.status.usable()
            losses = receiver.status.losses
            receiver.grant(self._requests.sending())
            fate = await sender.send(request)
            if not isinstance(fate, Unsent):
                break
        if not isinstance(fate, Accepted):
            raise ConnectionLost(f"whether {method} {path} was served is not known: {fate}")
        return await self._answer(receiver, losses)

    async def _answer(self, receiver: Receiver, losses: int) -> Answer:
        """Wait for the answer to a request; answers to requests that were given up before are dropped."""
        while True:
            for delivery in receiver.receive_nowait(1):
                if (answer := self._requests.answer(delivery.encoded)) is not None:
                    return answer
            receiver.status.check(losses)
            if not receiver.waiting:
                await receiver.status.change()

    async def _links(self) -> tuple[Sender, Receiver]:
        if self._sender is None or self._receiver is None or self._sender.status.over or self._receiver.status.over:
            self._receiver = await self._session.open_receiver(
                NODE,
                name=self._name,
                options=ReceiverOptions(automatic=False, settled=True, properties=PAIRED),
            )
            self._sender = await self._session.open_sender(NODE, name=self._name, properties=PAIRED)
        return self._sender, self._receiver
