"""A session as links see it, with nothing behind it. It keeps for the test what the links write and report."""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.session_window import SessionWindow
from amqp10.flow.unsettled import DispositionBatch, UnsettledLimit, UnsettledMap
from amqp10.protocol.connection import Event
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.wire.framing import Piece, ReceiveBuffer
from amqp10.wire.messaging import DeliveryState
from amqp10.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Performative,
    Transfer,
    decode_performative,
)


def decode_frames(data: bytes) -> list[tuple[Performative, bytes]]:
    """The performatives in these frames, each with its payload. Empty frames are left out."""
    buffer = ReceiveBuffer()
    buffer.feed(data)
    frames = []
    while (bounds := buffer.next_frame(2**32 - 1)) is not None:
        if bounds.body_start < bounds.body_end:
            performative, payload = decode_performative(buffer.data, bounds.body_start, bounds.body_end)
            frames.append((performative, buffer.data[payload : bounds.body_end]))
    return frames


class LinkChannelInMemory:
    """What both kinds of links, and the output of a session, ask of their session."""

    def __init__(
        self, *, frame_size_max: int = 512, remote_window: int = 1000, room: int = 2**20, partial_bytes_max: int = 2**20
    ) -> None:
        self.frame_size_max = frame_size_max
        self.outgoing_channel = 3
        self.window = SessionWindow(maximum=10, top_up_at=5)
        self.window.remote_incoming_window = remote_window
        self.outgoing: UnsettledMap[SenderLink] = UnsettledMap()
        self.incoming: UnsettledMap[ReceiverLink] = UnsettledMap()
        self.unsettled_limit: UnsettledLimit[ReceiverLink] = UnsettledLimit(4096)
        self.dispositions: DispositionBatch[DeliveryState | None] = DispositionBatch()
        self.written: list[tuple[Performative, bytes]] = []
        self.pieces: list[Piece] = []
        """The encoded frames that links wrote."""
        self.events: list[Event] = []
        self.wanting: list[SenderLink] = []
        self.refilling: list[ReceiverLink] = []
        self.room = room
        self.partial_bytes = 0
        self.partial_bytes_max = partial_bytes_max
        self.next_delivery_id = 0
        self.session_flows = 0

    # --- what links write

    def write(self, performative: Attach | Detach | Transfer, payload: bytes = b"") -> None:
        self.written.append((performative, payload))

    def write_frames(self, *pieces: Piece) -> None:
        self.pieces += pieces
        frames = b"".join(pieces)
        assert int.from_bytes(frames[6:8]) == self.outgoing_channel
        self.room -= len(frames)
        self.written += decode_frames(frames)

    def write_disposition(self, disposition: Disposition) -> None:
        self.written.append((disposition, b""))

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
        flow = Flow(
            incoming_window=self.window.announced,
            next_outgoing_id=self.window.next_outgoing_id,
            outgoing_window=0,
            handle=handle,
            delivery_count=delivery_count,
            link_credit=link_credit,
            available=available,
            drain=drain,
            echo=echo,
            properties=None if properties is None else dict(properties),
        )
        self.written.append((flow, b""))

    def send_flow(self) -> None:
        self.session_flows += 1

    def report(self, event: Event) -> None:
        self.events.append(event)

    # --- what links ask for

    def output_room(self) -> int:
        return self.room

    def extend_delivery_id(self, delivery_id: int, n: int) -> int:
        return delivery_id

    def hold_partial(self, partial: object, change_bytes: int) -> None:
        self.partial_bytes += change_bytes
        if self.partial_bytes > self.partial_bytes_max:
            self.partial_bytes -= change_bytes
            raise LinkFault(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, "too much")

    def wants_to_send(self, link: SenderLink) -> None:
        self.wanting.append(link)

    def refill_later(self, link: ReceiverLink) -> None:
        self.refilling.append(link)

    # --- for tests

    def take(self) -> list[tuple[Performative, bytes]]:
        """Take the performatives and payloads that were written since the last call."""
        written, self.written = self.written, []
        return written

    def taken(self, kind: type[Performative]) -> list[Performative]:
        """Take the performatives of one kind that were written since the last call."""
        return [performative for performative, _ in self.take() if isinstance(performative, kind)]
