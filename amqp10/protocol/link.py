"""What both ends of a link share: the name, the handles, and the exchange of attach and detach [2.6].

A sender link or a receiver link holds a :class:`LinkEnd`, which does not know the direction. It sends through
:class:`LinkChannel`, the small part of a session that links may use.

A link is refused with an attach that has null termini and a detach behind it: only so can the reason be given to a peer
that waits for an attach [2.6.3]. After we sent a detach with an error, the end stays and drops what was in flight until
the peer's detach has come.
"""

from collections.abc import Mapping
from typing import NewType, Protocol

from amqp10.errors import AmqpError, ErrorCondition, SessionFault, cut
from amqp10.protocol.lifecycle import LINK, IllegalTransition, Input, LinkState, step
from amqp10.wire.framing import Piece
from amqp10.wire.messaging import Coordinator, Error, Source, Target
from amqp10.wire.performatives import Attach, Detach, Transfer
from amqp10.wire.types import Described

InputHandle = NewType("InputHandle", int)
"""The handle that the peer gave to its end; its frames carry it."""
OutputHandle = NewType("OutputHandle", int)
"""The handle that we gave to our end; our frames carry it."""

SENDER = False
RECEIVER = True
"""Values of role [2.8.1]: which end of the link sends the performative."""


class LinkChannel(Protocol):
    """The part of a session that its links use."""

    def write(self, performative: Attach | Detach | Transfer, payload: bytes = b"") -> None:
        """Put one frame into the output."""

    def write_frames(self, *pieces: Piece) -> None:
        """Put encoded frames into the output."""

    def write_link_flow(
        self,
        *,
        handle: int,
        delivery_count: int,
        link_credit: int,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Send a flow of a link, with the session's own fields filled in [2.7.4]."""


def error_from(fault: AmqpError) -> Error:
    """A fault as the error that close, end and detach carry."""
    info = dict(fault.info) if fault.info else None
    return Error(condition=str(fault.condition), description=cut(fault.description), info=info)


class LinkEnd:
    """Our end of one link: identity, termini and life cycle."""

    __slots__ = ("channel", "handle", "incoming_handle", "local", "name", "remote", "role", "state")

    def __init__(self, channel: LinkChannel, *, name: str, role: bool, handle: OutputHandle) -> None:
        self.channel = channel
        self.name = name
        self.role = role
        self.handle = handle
        self.incoming_handle: InputHandle | None = None
        self.state = LinkState.DETACHED
        self.remote: Attach | None = None
        self.local: Attach | None = None

    @property
    def attached(self) -> bool:
        """Both attaches have been exchanged and no detach has gone or come."""
        return self.state is LinkState.ATTACHED

    def attach_received(self, attach: Attach) -> None:
        """Take the peer's attach."""
        self._step(Input.OPENING_RECEIVED)
        self.remote = attach
        self.incoming_handle = InputHandle(attach.handle)

    def send_attach(
        self,
        *,
        source: Source | Described | None,
        target: Target | Coordinator | Described | None,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        initial_delivery_count: int | None = None,
        max_message_size: int | None = None,
        offered_capabilities: tuple[str, ...] = (),
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Send our attach, as the opening or as the answer [2.7.3]."""
        self._step(Input.OPENING_SENT)
        self.local = Attach(
            name=self.name,
            handle=self.handle,
            role=self.role,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            source=source,
            target=target,
            initial_delivery_count=initial_delivery_count,
            max_message_size=max_message_size,
            offered_capabilities=offered_capabilities,
            properties=dict(properties) if properties else None,
        )
        self.channel.write(self.local)

    def refuse(self, fault: AmqpError) -> None:
        """Answer an attach with null termini, and detach with the reason."""
        self.send_attach(source=None, target=None, initial_delivery_count=None if self.role else 0)
        self.detach(fault)

    def detach(self, fault: AmqpError | None = None, *, closed: bool = True) -> None:
        """Send our detach: because of an error, because we want to, or as the answer to the peer's [2.7.7]."""
        self._step(Input.CLOSING_SENT if fault is None else Input.FAULT)
        error = None if fault is None else error_from(fault)
        self.channel.write(Detach(handle=self.handle, closed=closed, error=error))

    def detach_received(self) -> bool:
        """Take the peer's detach. True: it is the first of the two, and has to be answered."""
        self._step(Input.CLOSING_RECEIVED)
        return self.state is LinkState.DETACH_RCVD

    def _step(self, happened: Input) -> None:
        try:
            self.state = step(LINK, self.state, happened)
        except IllegalTransition as illegal:
            if happened in (Input.OPENING_RECEIVED, Input.CLOSING_RECEIVED):
                raise SessionFault(ErrorCondition.ILLEGAL_STATE, f"link {self.name!r}: {illegal}") from illegal
            raise
