"""Requests to the management node of another node: to purge or delete a queue that lives there.

They go over a pair of links, which is attached for the first of them, one after another: each waits for the answer to
the one before. The other node gives this one all rights; those of the client are checked here before.
"""

from collections import deque
from typing import NamedTuple

from amqp10.addresses import queue_address
from amqp10.client_core.errors import RequestRefused
from amqp10.client_core.requests import NODE, PAIRED, Requests
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.forwarding.link_host import LinkHost
from amqp10.protocol.events import CreditReceived, DeliveriesSettled, SenderFlowReceived
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome, ReceiverLink
from amqp10.protocol.sender_link import SETTLED, SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Source, Target
from core.declaring import Recording
from core.engine.forwarding.nodes import FarChange
from core.errors import EngineError

FIRST = 0
"""rcv-settle-mode [2.8.3]."""
_PATHS = {FarChange.PURGE: "/messages", FarChange.DELETE: ""}


class _Asked(NamedTuple):
    path: str
    recording: Recording[int]


class FarRequests:
    """The requests of one connection to another node. It is lost with the connection, and another one is made."""

    __slots__ = (
        "_current", "_host", "_leaving", "_made", "_receiver", "_requests", "_sender", "_sent", "_waiting",
    )  # fmt: skip

    def __init__(self, host: LinkHost) -> None:
        self._host = host
        self._made = host.order.made
        self._leaving = False
        self._requests = Requests("node")
        self._waiting: deque[_Asked] = deque()
        self._current: _Asked | None = None
        self._sent = 0
        self._sender: SenderLink | None = None
        self._receiver: ReceiverLink | None = None

    def ask(self, what: FarChange, queue: str, recording: Recording[int]) -> None:
        """Ask for a change of a queue. The recording gets how many messages have gone, or why it was not made."""
        self._waiting.append(_Asked(queue_address(queue) + _PATHS[what], recording))
        self._go_on()

    @property
    def outdated(self) -> bool:
        """Whether definitions have changed since: the attach says which ones the other node needs for a request."""
        return self._made != self._host.order.made

    def leave(self) -> None:
        """Detach the links as soon as all requests are answered."""
        self._leaving = True
        self._go_on()

    # --- what the connection tells -----------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach both links on this session."""
        name, properties = self._host.next_link_name(), PAIRED | self._host.attach_properties
        self._receiver, self._sender = session.new_receiver(name), session.new_sender(name)
        self._receiver.reference = self._sender.reference = self
        self._receiver.attach(
            source=Source(address=NODE),
            target=Target(),
            snd_settle_mode=SETTLED,
            rcv_settle_mode=FIRST,
            credit=ReceiverCredit(),
            properties=properties,
        )
        self._sender.attach(
            source=Source(),
            target=Target(address=NODE),
            snd_settle_mode=SETTLED,
            rcv_settle_mode=FIRST,
            properties=properties,
        )

    def attach_answered(self) -> None:
        """The other node has attached one of them."""
        self._go_on()

    def event_received(
        self, event: CreditReceived | DeliveriesSettled | DeliveriesReceived | SenderFlowReceived | IncomingOutcome
    ) -> None:
        """The other node has given link credit, or an answer."""
        if isinstance(event, DeliveriesReceived):
            for entry in event.entries:
                self._answered(entry)
        self._go_on()

    def lost(self, error: EngineError) -> None:
        """The links are over."""
        self._sender = self._receiver = None
        asked, self._current = [*([] if self._current is None else [self._current]), *self._waiting], None
        self._waiting.clear()
        for one in asked:
            one.recording.fail(str(error))

    # --- inside ------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send the next request, if there is link credit for it and none is being answered."""
        sender, receiver = self._sender, self._receiver
        if self._leaving and self._current is None and not self._waiting:
            self._host.detach(sender)
            self._host.detach(receiver)
            self._host.forget(self)
            return
        if self._current is not None or not self._waiting or sender is None or receiver is None:
            return
        if not (sender.end.attached and receiver.end.attached and sender.credit.link_credit > sender.waiting):
            return
        asked = self._current = self._waiting.popleft()
        request = self._requests.begin("DELETE", asked.path)
        receiver.grant(self._requests.sending())
        sender.send_run(self._sent, [request], b"")
        self._sent += 1
        self._host.touch()

    def _answered(self, entry: bytes) -> None:
        try:
            answer = self._requests.answer(entry)
        except RequestRefused as refused:
            current, self._current = self._current, None
            if current is not None:
                current.recording.fail(str(refused))
            return
        if answer is None or self._current is None:
            return
        current, self._current = self._current, None
        body = answer.body
        count = body.get("message_count") if isinstance(body, dict) else None
        current.recording.finish(count if isinstance(count, int) else 0)
