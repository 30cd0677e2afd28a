"""The pending output of a session, and the order in which it is sent.

While a batch of input is processed, the work that follows from it is only noted here. :meth:`SessionOutput.flush` then
writes it once per batch: dispositions first, link credit next, then transfers, then the session's own flow. Flows that
answer a consumer go out behind the transfers of its link. Links that have something to send take turns with equal
shares of the window, so that neither a blocked link nor a busy one delays the others.
"""

from typing import Protocol

from amqp10.flow.session_window import SessionWindow
from amqp10.flow.unsettled import DispositionBatch
from amqp10.protocol.link import RECEIVER, SENDER
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.wire import serial
from amqp10.wire.disposition_run import encode_disposition
from amqp10.wire.framing import Piece
from amqp10.wire.messaging import Accepted, DeliveryState, Released
from amqp10.wire.performatives import Disposition


class OutputChannel(Protocol):
    """The part of a session that its output uses."""

    window: SessionWindow
    outgoing_channel: int

    def write_disposition(self, disposition: Disposition) -> None:
        """Put a disposition into the output."""

    def write_frames(self, *pieces: Piece) -> None:
        """Put encoded frames into the output."""

    def send_flow(self) -> None:
        """Send the peer a flow with the session's own state [2.7.4]."""

    def output_room(self) -> int:
        """Bytes that the output may take before deliveries are held back."""


class SessionOutput:
    """The frames that are due on one session."""

    __slots__ = ("_refilled", "as_receiver", "as_sender", "echoes", "flow_due", "refills", "sending")

    def __init__(self, refilled: dict[ReceiverLink, None] | None = None) -> None:
        """``refilled`` gets the links whose rule of link credit was applied."""
        self._refilled = refilled
        self.as_receiver: DispositionBatch[DeliveryState | None] = DispositionBatch()
        """States of deliveries that the peer sent."""
        self.as_sender: DispositionBatch[DeliveryState | None] = DispositionBatch()
        """States of our own deliveries, sent to tell the peer that we have settled them."""
        self.sending: dict[SenderLink, None] = {}
        """The links that have something to send."""
        self.refills: dict[ReceiverLink, None] = {}
        """The links whose link credit may be due for a top-up."""
        self.echoes: dict[ReceiverLink, None] = {}
        """The links for whose state the peer has asked; several such requests get one answer."""
        self.flow_due = False
        """Whether the session's own flow is due: the peer asked for it, or the window changed."""

    @property
    def blocked(self) -> bool:
        """Deliveries wait for the peer's window or for the socket."""
        return bool(self.sending)

    def forget(self, link: SenderLink | ReceiverLink) -> None:
        """Drop the pending output of a link that is over."""
        if isinstance(link, SenderLink):
            self.sending.pop(link, None)
        else:
            self.refills.pop(link, None)
            self.echoes.pop(link, None)

    def clear(self) -> None:
        """Drop the pending output of all links: the session is over."""
        self.sending.clear()
        self.refills.clear()
        self.echoes.clear()

    def flush(self, channel: OutputChannel) -> None:
        """Write everything that is due, as far as the window and the output allow."""
        if self.as_receiver.pending:
            self._write_dispositions(self.as_receiver, channel, role=RECEIVER)
        if self.as_sender.pending:
            self._write_dispositions(self.as_sender, channel, role=SENDER)
        if self.refills or self.echoes:
            self._write_link_flows()
        if self.sending:
            self._transmit(channel)
        window = channel.window
        topped_up = window.incoming_window <= window.top_up_at and window.top_up()
        if topped_up or self.flow_due:
            self.flow_due = False
            channel.send_flow()

    @staticmethod
    def _write_dispositions(
        batch: DispositionBatch[DeliveryState | None], channel: OutputChannel, *, role: bool
    ) -> None:
        for pending in batch.take():
            first, last = pending.first & serial.MASK, pending.last & serial.MASK
            settled, state = pending.settled, pending.state
            if state is None or isinstance(state, Accepted | Released):
                frame = encode_disposition(
                    channel=channel.outgoing_channel,
                    role=role,
                    first=first,
                    last=last,
                    settled=settled,
                    state=state,
                )
                channel.write_frames(frame)
            else:
                channel.write_disposition(
                    Disposition(
                        role=role, first=first, last=None if last == first else last, settled=settled, state=state
                    )
                )

    def _write_link_flows(self) -> None:
        refills, self.refills = self.refills, {}
        for link in refills:
            link.refill()
        if self._refilled is not None:
            self._refilled.update(refills)
        echoes, self.echoes = self.echoes, {}
        for link in echoes:
            if link.end.attached:
                link.write_flow()

    def _transmit(self, channel: OutputChannel) -> None:
        """Give each link that has something to send an equal share of the window, until all of it is used."""
        sending, window = self.sending, channel.window
        progress = True
        while sending and progress:
            progress = False
            share = -(-window.remote_incoming_window // len(sending))
            for link in list(sending):
                del sending[link]
                frames = min(share, window.remote_incoming_window)
                used = link.transmit(frames, channel.output_room())
                progress = progress or used > 0
                if link.pending:
                    sending[link] = None
