"""A link on which we receive: it assembles deliveries, counts link credit, and enforces the rules for the peer.

Whole single-frame deliveries come in runs from the fast path. All other deliveries come frame by frame and are reported
as a run of one. A delivery takes its id at its first frame and uses link credit at its last, and it may not begin
without link credit. An aborted delivery is discarded and thereby settled [2.6.14]; it uses up one link credit, as it
does on the sender's side.

Every breach here is a LinkFault: this link is detached, and the session and its other links go on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.flow.session_window import SessionWindow
from amqp10.flow.unsettled import DispositionBatch, UnsettledLimit, UnsettledMap
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.link import LinkChannel, LinkEnd
from amqp10.wire.framing import Piece
from amqp10.wire.messaging import Coordinator, DeliveryState, Received, Source, Target
from amqp10.wire.performatives import Transfer
from amqp10.wire.transfer_run import TransferRun
from amqp10.wire.types import Described

RANGES_AT_ONCE, RANGES_OF_AN_EVENT = 1_024, 8
"""Ranges that a sender settles in one step, about 2 ms, and of which one event tells: users count work by events."""
UNSETTLED, SETTLED, MIXED = 0, 1, 2
"""Values of snd-settle-mode [2.8.2]."""
SECOND = 1
"""rcv-settle-mode: the receiver settles after the sender [2.8.3]."""
FRAMES_PER_DELIVERY_MAX = 262_144
"""More frames than this for one delivery count as an attack: a maximum message in frames of 64 bytes."""
EMPTY_FRAMES_PER_DELIVERY_MAX = 1024
"""More frames without payload than this for one delivery count as an attack, too. They transport nothing, and no peer
has a reason to send more than one."""
VIEWS_SHARE = 4
"""When all that has come is parsed, an incomplete delivery has views of a read only if they are a quarter of it or
more: so it keeps at most four times its own size in memory. Of a read with the whole delivery nothing is copied but to
join it."""
FRAME_OVERHEAD_BYTES = 64
"""The memory that one kept frame costs besides its payload, counted so that many small frames cannot exceed the limit
unseen: an object of 33 bytes, rounded up to 48, and its place in a list that has room to grow."""
FRAME_SIZE_BYTES = 4
"""Of the size at the beginning of a frame [2.3.1]."""


class DeliveriesReceived(NamedTuple):
    """A run: whole messages of one link with consecutive delivery-ids, alike in settled flag and header bytes."""

    link: "ReceiverLink"
    first: int
    """Extended delivery-id of the first entry; the others count up."""
    entries: list[bytes]
    """Encoded messages without their header section. When ``checked`` is False they are whole, header included."""
    header: bytes
    """The header section as it came, b"" when there was none; meaningless unless ``checked``."""
    settled: bool
    checked: bool
    """True when the fast path has proven each entry to be one opaque body section and nothing else."""
    delivery_tag: Callable[[int], bytes]
    """Gives the tag of the entry with this index. Tags are seldom needed, so they are not kept for every message."""
    even: bool = False
    """Whether all frames of the run are together as long as that many frames like the first, and the last message is as
    long as the first: then all messages are, or the difference is of no account for their sum."""

    def part(self, start: int, stop: int) -> "DeliveriesReceived":
        """The deliveries from one index (inclusive) to another (exclusive)."""
        if stop - start == len(self.entries):
            return self
        tag = self.delivery_tag
        return self._replace(
            first=self.first + start, entries=self.entries[start:stop], delivery_tag=lambda index: tag(start + index)
        )


class IncomingSettled(NamedTuple):
    """The sending peer disposed of deliveries that it sent (extended ids, both inclusive) [2.6.12]."""

    link: "ReceiverLink"
    first: int
    last: int
    state: DeliveryState | None
    ranges: Sequence[tuple[int, int]]
    """The exact deliveries, in order, both ends inclusive; :data:`RANGES_OF_AN_EVENT` at most."""


class IncomingOutcome(NamedTuple):
    """The sending peer gave deliveries an outcome, as above, and has not settled them: it does not wait for ours any
    more, but they are unsettled until we settle them [2.6.12]."""

    link: "ReceiverLink"
    first: int
    last: int
    state: DeliveryState | None
    ranges: Sequence[tuple[int, int]]


class ReceivingChannel(LinkChannel, Protocol):
    """The part of a session that receiving links use besides what all links use."""

    window: SessionWindow
    incoming: "UnsettledMap[ReceiverLink]"
    unsettled_limit: "UnsettledLimit[ReceiverLink]"
    dispositions: "DispositionBatch[DeliveryState | None]"

    def extend_delivery_id(self, delivery_id: int, n: int) -> int:
        """Take ``n`` consecutive delivery-ids of the peer's; returns the first, extended."""

    def hold_partial(self, partial: "PartialDelivery", change_bytes: int) -> None:
        """Count bytes of an incomplete delivery; raises LinkFault resource-limit-exceeded above the limit. With less
        bytes it is over. With more, :meth:`PartialDelivery.spare_reads` is called when all that has come is parsed."""

    def refill_later(self, link: "ReceiverLink") -> None:
        """Look at this link's link credit again before the next output."""

    def report(self, event: "DeliveriesReceived | IncomingSettled | IncomingOutcome") -> None:
        """Queue an event for the user of the connection."""


class PartialDelivery:
    """A delivery whose last frame has not come yet."""

    __slots__ = (
        "_spared",
        "chunks",
        "delivery_id",
        "delivery_tag",
        "empty_frames",
        "frames",
        "held",
        "message_format",
        "settled",
        "size",
        "wire_id",
    )

    def __init__(self, transfer: Transfer, delivery_id: int) -> None:
        self.delivery_id = delivery_id
        self.wire_id = transfer.delivery_id
        self.delivery_tag = transfer.delivery_tag
        self.message_format = transfer.message_format
        self.settled = False
        self.chunks: list[Piece] = []
        self.size = 0
        self.frames = 0
        self.empty_frames = 0
        self.held = 0
        """Bytes of memory that have been counted for it."""
        self._spared = 0
        """How many chunks have been looked at."""

    def spare_reads(self) -> None:
        """Copy the chunks since the last call out of reads of which they are little: see :data:`VIEWS_SHARE`."""
        chunks, begin = self.chunks, self._spared
        views = {number: chunk for number, chunk in enumerate(chunks[begin:], begin) if isinstance(chunk, memoryview)}
        viewed: dict[int, int] = {}
        for view in views.values():
            viewed[id(view.obj)] = viewed.get(id(view.obj), 0) + len(view)
        if begin and isinstance(before := chunks[begin - 1], memoryview):
            viewed[id(before.obj)] = len(_read_of(before))  # it is kept anyway
        for number, view in views.items():
            if viewed[id(view.obj)] * VIEWS_SHARE < len(_read_of(view)):
                chunks[number] = bytes(view)
        self._spared = len(chunks)


def _read_of(view: memoryview) -> bytes:
    """The bytes that this is a view of."""
    read = view.obj
    assert isinstance(read, bytes)
    return read


class ReceiverLink:
    """Our receiving end of a link."""

    __slots__ = (
        "_covered",
        "_frames_max",
        "channel",
        "credit",
        "end",
        "max_message_size",
        "partial",
        "rcv_settle_mode",
        "reference",
        "snd_settle_mode",
    )

    def __init__(self, channel: ReceivingChannel, end: LinkEnd) -> None:
        self.channel = channel
        self.end = end
        self.credit = ReceiverCredit()
        self.max_message_size = 0
        self.snd_settle_mode = MIXED
        self.rcv_settle_mode = 0
        self.reference: object = None
        """For the user of the link; this class does not read it."""
        self.partial: PartialDelivery | None = None
        """The delivery of which the first frames have come, and not the last; None if there is none."""
        self._frames_max = 1
        """Frames of the longest delivery so far."""
        self._covered = 0
        """Frames that the session's window has for this link's link credit."""

    def attach(
        self,
        *,
        source: Source | Described | None,
        target: Target | Coordinator,
        snd_settle_mode: int,
        rcv_settle_mode: int,
        credit: ReceiverCredit,
        max_message_size: int = 0,
        offered_capabilities: tuple[str, ...] = (),
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Attach, or accept the peer's attach [2.6.3]. ``credit`` holds the rule by which the peer gets link credit;
        ``max_message_size`` is in bytes, 0 for no limit."""
        self.snd_settle_mode = snd_settle_mode
        self.rcv_settle_mode = rcv_settle_mode
        self.max_message_size = max_message_size
        self.credit = credit
        self._adopt_initial_delivery_count()
        self.end.send_attach(
            source=source,
            target=target,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            max_message_size=max_message_size or None,
            offered_capabilities=offered_capabilities,
            properties=properties,
        )
        if rcv_settle_mode == SECOND:
            self.count_unsettled()
        self.refill()  # now, so that a transfer pipelined behind the peer's attach has link credit

    def attach_received(self) -> None:
        """The peer attached, or answered our attach."""
        self._adopt_initial_delivery_count()
        self.channel.refill_later(self)

    def follow_rule(self, credit: ReceiverCredit) -> None:
        """Give link credit by another rule from now on."""
        credit.succeed(self.credit)
        self.credit = credit
        self.channel.refill_later(self)

    def grant(self, link_credit: int, *, drain: bool = False, echo: bool = False, covered: bool = False) -> None:
        """Set the link credit without the rule, and tell the peer. ``covered``: the session's window gets room for all
        of it."""
        self.credit.grant(link_credit, drain=drain)
        if covered:
            self._cover(link_credit * self._frames_max)
        self.write_flow(echo=echo)

    def write_flow(self, *, echo: bool = False, properties: Mapping[str, object] | None = None) -> None:
        """Send the peer a flow with the current link credit, and with properties if there are any [2.7.4]."""
        self.channel.write_link_flow(
            handle=self.end.handle,
            delivery_count=self.credit.delivery_count,
            link_credit=self.credit.link_credit,
            drain=self.credit.drain,
            echo=echo,
            properties=properties,
        )

    def run_received(self, run: TransferRun, first: int, begin: int, end: int) -> None:
        """Take the deliveries of a run from index ``begin`` to before ``end``; ``first`` is the id of the one at 0."""
        assert self.partial is None
        settled, credit, count = bool(run.settled), self.credit, end - begin
        if self.snd_settle_mode != MIXED:
            self._check_settled(settled)
        entries = run.entries if count == len(run.entries) else run.entries[begin:end]
        largest = self.max_message_size
        # if the frames are not larger all together, no message is
        if 0 < largest < run.end_position - run.start_position and max(map(len, entries)) > largest:
            raise self._too_large(max(map(len, entries)))
        room = credit.link_credit + credit.margin
        if 0 < room < count:  # those with link credit are taken, as if they had come alone
            self.run_received(run, first, begin, begin + room)
            self.run_received(run, first, begin + room, end)
            return
        credit.received(count)
        if credit.sized is not None:
            credit.sized.bytes_received += (run.end_position - run.start_position) * count // len(run.entries)
        if credit.rate is not None:
            credit.rate.arrived(count, sum(map(len, entries)))
        if not settled:
            self.channel.incoming.add(first + begin, count, self, first + begin)
        tag = run.delivery_tag if begin == 0 else lambda index: run.delivery_tag(begin + index)
        first_frame = int.from_bytes(run.buffer[run.start_position : run.start_position + FRAME_SIZE_BYTES])
        even = run.end_position - run.start_position == first_frame * len(run.entries)
        even = even and len(entries[0]) == len(entries[-1])
        self.channel.report(
            DeliveriesReceived(self, first + begin, entries, run.header, settled, run.checked, tag, even)
        )
        if credit.maximum or credit.window is not None:  # else the user sets the link credit
            self.channel.refill_later(self)

    def transfer_received(self, transfer: Transfer, *payload: Piece) -> None:
        """Take one transfer frame, whose payload may be in several pieces [2.7.5]."""
        if not transfer.aborted:
            self._check_served(transfer)
        partial = self.partial
        if partial is None:
            partial = self._begin(transfer)
        else:
            self._check_continues(partial, transfer)
        if transfer.aborted:
            self._abort(partial)
            return
        partial.frames += 1
        if transfer.settled and not partial.settled:
            partial.settled = True
            self.channel.incoming.settle(partial.delivery_id, partial.delivery_id)
        size = partial.size
        for piece in payload:
            self._keep(partial, piece, complete=not transfer.more)
        if partial.size == size:
            partial.empty_frames += 1
        if self.max_message_size and partial.size > self.max_message_size:
            raise self._too_large(partial.size)
        if partial.frames > FRAMES_PER_DELIVERY_MAX or partial.empty_frames > EMPTY_FRAMES_PER_DELIVERY_MAX:
            raise LinkFault(
                ErrorCondition.TRANSFER_LIMIT_EXCEEDED,
                f"a delivery of more than {FRAMES_PER_DELIVERY_MAX} frames, or more than"
                f" {EMPTY_FRAMES_PER_DELIVERY_MAX} empty ones; send larger frames",
            )
        if not transfer.more:
            self._complete(partial)

    def settle(self, first: int, last: int, state: DeliveryState) -> None:
        """Give deliveries (extended ids, both inclusive) their outcome; those that came settled are skipped.

        With rcv-settle-mode second they stay unsettled until the sender has settled them [2.6.12].
        """
        if self.rcv_settle_mode == SECOND:
            for delivery_ids in self.channel.incoming.overlap(first, last):
                self.channel.dispositions.add(delivery_ids.first, delivery_ids.last, state, settled=False)
            self.count_unsettled()
        else:
            for delivery_ids in self.channel.incoming.settle(first, last):
                self.channel.dispositions.add(delivery_ids.first, delivery_ids.last, state, settled=True)
        self.channel.refill_later(self)

    def count_unsettled(self) -> None:
        """On a link whose rcv-settle-mode is second: hold back link credit if the sender settles too little."""
        unsettled = self.channel.incoming.held_by(self)
        self.credit.unsettled_full = self.channel.unsettled_limit.tell(self, unsettled)

    def disposed_by_sender(
        self, ranges: Sequence[tuple[int, int]], state: DeliveryState | None, *, settled: bool
    ) -> None:
        """The sender has settled deliveries (extended ids, both inclusive), or has only given them an outcome."""
        event = IncomingSettled if settled else IncomingOutcome
        for start in range(0, len(ranges), RANGES_OF_AN_EVENT):
            some = ranges[start : start + RANGES_OF_AN_EVENT]
            self.channel.report(event(self, some[0][0], some[-1][1], state, some))
        if self.rcv_settle_mode == SECOND:
            self.count_unsettled()

    def unsettled_released(self) -> None:
        """The sender has settled enough."""
        self.credit.unsettled_full = False
        self.channel.refill_later(self)

    def confirmed(self, n: int) -> None:
        """The engine has answered for ``n`` deliveries, settled or not."""
        self.credit.confirmed(n)
        self.channel.refill_later(self)

    def refill(self) -> None:
        """Give the peer more link credit if the rule says so."""
        if self.end.state is LinkState.ATTACHED and self.credit.refill():
            if self.credit.sized is not None:
                self._cover(self.credit.link_credit * self._frames_max)
            self.write_flow()
        if self.credit.rate is not None:
            self.credit.rate.looked()

    def abandon(self) -> None:
        """The link is being detached: drop the incomplete delivery."""
        self._drop_partial()
        if self._covered:
            self._cover(0)

    def _cover(self, frames: int) -> None:
        """Let the session's window cover so many frames of this link, from now on."""
        self.channel.window.cover(frames - self._covered)
        self._covered = frames

    def _check_served(self, transfer: Transfer) -> None:
        """Raises LinkFault for fields that would change the delivery's meaning and are not supported."""
        if transfer.resume:
            raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, "deliveries are not resumed; send it as a new one")
        if transfer.state is not None and not isinstance(transfer.state, Received):
            raise LinkFault(
                ErrorCondition.NOT_IMPLEMENTED, "a transfer with a delivery state; there are no transactions"
            )
        mode = transfer.rcv_settle_mode
        if mode == SECOND and self.rcv_settle_mode != SECOND:
            raise self._fault("rcv-settle-mode second on a transfer of a link whose rcv-settle-mode is first")
        if mode is not None and mode != SECOND and self.rcv_settle_mode == SECOND:
            raise LinkFault(
                ErrorCondition.NOT_IMPLEMENTED,
                "rcv-settle-mode first on a transfer of a link whose rcv-settle-mode is second; attach a link for it",
            )

    def _begin(self, transfer: Transfer) -> PartialDelivery:
        if transfer.delivery_id is None:
            raise self._fault("the first transfer of a delivery has no delivery-id")
        if transfer.delivery_tag is None:
            raise self._fault("the first transfer of a delivery has no delivery-tag")
        if self.credit.room == 0:
            self.credit.received(1)  # raises: a delivery may not begin without link credit
        partial = PartialDelivery(transfer, self.channel.extend_delivery_id(transfer.delivery_id, 1))
        self.partial = partial
        if not transfer.settled:
            self.channel.incoming.add(partial.delivery_id, 1, self, partial.delivery_id)
        else:
            partial.settled = True
        return partial

    def _check_continues(self, partial: PartialDelivery, transfer: Transfer) -> None:
        if transfer.delivery_id is not None and transfer.delivery_id != partial.wire_id:
            raise self._fault(
                f"delivery-id {transfer.delivery_id} inside delivery-id {partial.wire_id}: deliveries of one link may "
                "not be interleaved"
            )
        if transfer.delivery_tag is not None and transfer.delivery_tag != partial.delivery_tag:
            raise self._fault("the delivery-tag changed inside a delivery")
        if transfer.message_format is not None and transfer.message_format != (partial.message_format or 0):
            raise self._fault("the message-format changed inside a delivery")
        if transfer.settled is False and partial.settled:
            raise self._fault("settled changed from true to false inside a delivery")

    def _check_settled(self, settled: bool) -> None:
        if self.snd_settle_mode == SETTLED and not settled:
            raise self._fault("an unsettled delivery on a link whose snd-settle-mode is settled")
        if self.snd_settle_mode == UNSETTLED and settled:
            raise self._fault("a settled delivery on a link whose snd-settle-mode is unsettled")

    def _complete(self, partial: PartialDelivery) -> None:
        self._check_settled(partial.settled)
        if partial.message_format:
            raise LinkFault(
                ErrorCondition.NOT_IMPLEMENTED,
                f"message-format {partial.message_format}; only 0 is known [3.2.16]",
            )
        message = b"".join(partial.chunks)
        self._drop_partial()
        self.credit.received(1)
        if self.credit.sized is not None:
            self.credit.sized.bytes_received += partial.size + FRAME_OVERHEAD_BYTES * partial.frames
            self._frames_max = max(self._frames_max, partial.frames)
        if self.credit.rate is not None:
            self.credit.rate.arrived(1, partial.size)
        self.channel.report(
            DeliveriesReceived(
                self,
                partial.delivery_id,
                [message],
                b"",
                partial.settled,
                checked=False,
                delivery_tag=lambda _: partial.delivery_tag or b"",
            )
        )
        self.channel.refill_later(self)

    def _abort(self, partial: PartialDelivery) -> None:
        self.channel.incoming.settle(partial.delivery_id, partial.delivery_id)
        self._drop_partial()
        self.credit.received(1)
        if self.credit.rate is not None:
            self.credit.rate.arrived(1, partial.size)
        self.credit.unpublished += 1
        self.credit.confirmed(1)
        self.channel.refill_later(self)

    def _keep(self, partial: PartialDelivery, piece: Piece, *, complete: bool) -> None:
        if not piece:
            return
        if not complete:
            cost = len(piece) + FRAME_OVERHEAD_BYTES
            self.channel.hold_partial(partial, cost)
            partial.held += cost
        partial.chunks.append(piece)
        partial.size += len(piece)

    def _drop_partial(self) -> None:
        if self.partial is not None:
            self.channel.hold_partial(self.partial, -self.partial.held)
            self.partial = None

    def _adopt_initial_delivery_count(self) -> None:
        if self.end.remote is not None:
            self.credit.delivery_count = self.end.remote.initial_delivery_count or 0

    def _fault(self, description: str) -> LinkFault:
        return LinkFault(ErrorCondition.INVALID_FIELD, f"link {self.end.name!r}: {description}")

    def _too_large(self, size: int) -> LinkFault:
        return LinkFault(
            ErrorCondition.MESSAGE_SIZE_EXCEEDED,
            f"a message of {size} bytes or more; this link takes at most {self.max_message_size}",
        )
