"""A link on which we send: deliveries that wait for the session window, fragmentation, and flows that answer in order.

Deliveries arrive in runs and wait here, as references, until the session allows frames. ``waiting`` counts the
deliveries whose first frame has not been sent. They can still be taken back when the receiver lowers its link credit,
so the link never sends more than the link credit allows. A message larger than a frame is sent in pieces, and may stop
in the middle when the window closes. A flow that answers the receiver (echo, or a finished drain) goes out behind all
waiting deliveries. Invariant: ``waiting <= credit.link_credit`` whenever frames may be sent.
"""

from collections import deque
from collections.abc import Mapping
from operator import add
from struct import Struct
from typing import NamedTuple, Protocol

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import QueueGrant, SenderCredit
from amqp10.flow.session_window import SessionWindow
from amqp10.flow.unsettled import UnsettledMap
from amqp10.protocol.link import SENDER, LinkChannel, LinkEnd
from amqp10.wire import serial
from amqp10.wire.framing import FRAME_HEADER_BYTES, PIECE_BYTES_MIN
from amqp10.wire.messaging import RELEASED, Coordinator, Modified, Released, Source, Target
from amqp10.wire.performatives import Disposition, Transfer, encode_performative
from amqp10.wire.transfer_encoding import bytes_of_tags, encode_run, frame_overhead
from amqp10.wire.types import Described

_FRAME_LEAD = Struct(">IBBH")
"""Size, data offset, type, channel [2.3.1]."""
SETTLED = 1
"""snd-settle-mode: every delivery is sent settled [2.8.2]."""


class DeliveriesSent(NamedTuple):
    """Whole deliveries of a link were written to the output (their numbers, both inclusive)."""

    link: "SenderLink"
    first: int
    last: int


class SendingChannel(LinkChannel, Protocol):
    """The part of a session that sending links use besides what all links use."""

    window: SessionWindow
    outgoing: "UnsettledMap[SenderLink]"
    outgoing_channel: int
    next_delivery_id: int
    """The extended delivery-id of the next delivery; whatever sends it counts on."""

    @property
    def frame_size_max(self) -> int:
        """The largest frame that the peer takes, in bytes."""

    def write_disposition(self, disposition: Disposition) -> None:
        """Send the disposition at once."""

    def wants_to_send(self, link: "SenderLink") -> None:
        """Give the link its turn when the session window and the output allow it."""

    def report(self, event: DeliveriesSent) -> None:
        """Queue an event for the user of the connection."""


class WaitingRun:
    """Deliveries with consecutive numbers that wait to be sent; those before ``position`` have been sent."""

    __slots__ = ("entries", "even", "first", "header", "longest", "position")

    def __init__(self, first: int, entries: list[bytes], header: bytes | list[bytes]) -> None:
        self.first = first
        self.entries = entries
        self.header = header
        """The header section of all messages, or a list with that of each."""
        self.position = 0
        if isinstance(header, list):
            lengths, shared = set(map(add, map(len, header), map(len, entries))), 0
        else:
            lengths, shared = set(map(len, entries)), len(header)
        self.longest = shared + max(lengths)
        """Bytes of the longest message."""
        self.even = len(lengths) == 1
        """Whether all messages are equally long."""

    def header_of(self, index: int) -> bytes:
        """The header section of the message at this index."""
        return self.header[index] if isinstance(self.header, list) else self.header

    def headers_of(self, begin: int, end: int) -> bytes | list[bytes]:
        """The header section of the messages from one index to before another, or a list with that of each."""
        return self.header[begin:end] if isinstance(self.header, list) else self.header

    def drop_last(self, n: int) -> None:
        """Remove this many of the messages at the end."""
        del self.entries[-n:]
        if isinstance(self.header, list):
            del self.header[-n:]

    @property
    def next_number(self) -> int:
        """The delivery number of the first delivery that has not been sent."""
        return self.first + self.position

    @property
    def last_number(self) -> int:
        """The delivery number of the last delivery."""
        return self.first + len(self.entries) - 1

    def __len__(self) -> int:
        return len(self.entries) - self.position

    def without(self, first: int, last: int) -> list["WaitingRun"]:
        """The waiting deliveries without the numbers from ``first`` to ``last``, both inclusive: up to two runs."""
        if first > self.last_number or last < self.next_number:
            return [self]
        numbers = ((self.next_number, first - 1), (last + 1, self.last_number))
        places = [(low - self.first, high + 1 - self.first) for low, high in numbers if low <= high]
        return [
            WaitingRun(self.first + begin, self.entries[begin:end], self.headers_of(begin, end))
            for begin, end in places
        ]


class Fragment(NamedTuple):
    """A delivery of which some frames have been sent."""

    number: int
    delivery_id: int
    header: bytes
    """The header section, b"" when it has been sent or there is none."""
    entry: memoryview
    """What has not been sent of the message behind its header section."""
    middle: bytes
    """The encoded transfer performative with more=true, the same in every frame except the last."""
    last: bytes


class FlowOwed(NamedTuple):
    """A flow owed to the receiver, sent when no delivery waits any more."""

    available: int
    drained: bool


class SenderLink:
    """Our sending end of a link."""

    __slots__ = (
        "_flow_owed",
        "_fragment",
        "_runs",
        "channel",
        "credit",
        "end",
        "grant",
        "reference",
        "settled",
        "unsent",
        "waiting",
    )

    def __init__(self, channel: SendingChannel, end: LinkEnd, *, initial_delivery_count: int = 0) -> None:
        self.channel = channel
        self.end = end
        self.credit = SenderCredit(initial_delivery_count)
        self.grant: QueueGrant | None = None
        self.settled = False
        self.waiting = 0
        self.unsent: list[tuple[int, int]] = []
        """Ranges of delivery numbers that still waited when the link was detached."""
        self.reference: object = None
        """For the user of the link; this class does not read it."""
        self._runs: deque[WaitingRun] = deque()
        self._fragment: Fragment | None = None
        self._flow_owed: FlowOwed | None = None

    def attach(
        self,
        *,
        source: Source,
        target: Target | Coordinator | Described | None,
        snd_settle_mode: int,
        rcv_settle_mode: int,
        max_message_size: int | None = None,
        offered_capabilities: tuple[str, ...] = (),
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Attach, or accept the peer's attach [2.6.3]."""
        self.settled = snd_settle_mode == SETTLED
        self.end.send_attach(
            source=source,
            target=target,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            initial_delivery_count=self.credit.initial_delivery_count,
            max_message_size=max_message_size,
            offered_capabilities=offered_capabilities,
            properties=properties,
        )

    @property
    def pending(self) -> bool:
        """A delivery or an answer waits for the session window, for the socket, or for the link's turn."""
        return bool(self._runs) or self._fragment is not None or self._flow_owed is not None

    @property
    def unsettled(self) -> int:
        """Deliveries that were begun and that the receiver has not settled; 0 for a link that sends them settled."""
        return self.channel.outgoing.held_by(self)

    @property
    def idle(self) -> bool:
        """No delivery waits, whole or in part."""
        return not self._runs and self._fragment is None

    def send_run(self, first: int, entries: list[bytes], header: bytes | list[bytes]) -> None:
        """Send messages with delivery numbers from ``first`` up. ``header`` is the header section of all of them, b""
        for none, or a list with that of each; the lists belong to the link.

        Raises LinkFault message-size-exceeded when one is larger than the receiver takes; nothing is sent then.
        """
        run = WaitingRun(first, entries, header)
        limit = self.end.remote.max_message_size if self.end.remote is not None else None
        if limit and run.longest > limit:
            raise LinkFault(
                ErrorCondition.MESSAGE_SIZE_EXCEEDED,
                f"a message of {run.longest} bytes waits, but this receiver takes at most {limit}",
            )
        self._runs.append(run)
        self.waiting += len(entries)
        self.channel.wants_to_send(self)

    def waiting_entry(self, index: int) -> bytes | None:
        """The waiting message that follows ``index`` others; None if there is none."""
        for run in self._runs:
            if index < len(run):
                return run.entries[run.position + index]
            index -= len(run)
        return None

    def take_back(self, most: int | None = None) -> list[tuple[int, int]]:
        """Withdraw the newest waiting deliveries, so that at most ``most`` of them remain, or as many as the link
        credit allows if ``most`` is None. Returns the ranges of their numbers."""
        ranges: list[tuple[int, int]] = []
        excess = self.waiting - (self.credit.link_credit if most is None else most)
        while excess > 0:
            run = self._runs[-1]
            n = min(excess, len(run))
            last = run.last_number
            ranges.append((last - n + 1, last))
            if n == len(run):
                self._runs.pop()
            else:
                run.drop_last(n)
            self._left(n)
            excess -= n
        return ranges

    def release(self, first: int, last: int, state: Released | Modified = RELEASED) -> list[tuple[int, int]]:
        """Take deliveries back although the receiver has, or will have, them: the range of numbers, both inclusive.

        Deliveries that still wait are not sent; their ranges are returned. For the others a disposition tells the
        receiver that they are released, or modified; they stay unsettled until the receiver has settled them [2.6.12].
        """
        runs, self._runs = self._runs, deque()
        unsent: list[tuple[int, int]] = []
        for run in runs:
            kept = run.without(first, last)
            self._runs += kept
            dropped = len(run) - sum(map(len, kept))
            if dropped:
                low = max(first, run.next_number)
                unsent.append((low, low + dropped - 1))
                self._left(dropped)
        for piece in self.channel.outgoing.ranges():
            low, high = max(first, piece.number), min(last, piece.last_number)
            if piece.owner is self and low <= high:
                self._tell_released(piece.first + low - piece.number, piece.first + high - piece.number, state)
        return unsent

    def _tell_released(self, first: int, last: int, state: Released | Modified) -> None:
        self.channel.write_disposition(
            Disposition(
                role=SENDER,
                first=first & serial.MASK,
                last=None if last == first else last & serial.MASK,
                settled=False,
                state=state,
            )
        )

    def answer_flow(self, *, available: int, drained: bool) -> None:
        """Send a flow behind all waiting deliveries; with ``drained`` the link credit is used up first."""
        self._flow_owed = FlowOwed(available, drained or (self._flow_owed is not None and self._flow_owed.drained))
        self.channel.wants_to_send(self)

    def cancel_drained(self) -> None:
        """The receiver left drain mode before the answer was sent: the answer then reports the link credit
        unchanged."""
        if self._flow_owed is not None:
            self._flow_owed = FlowOwed(self._flow_owed.available, drained=False)

    def write_flow(self, *, available: int | None = None, properties: Mapping[str, object] | None = None) -> None:
        """Send the state of this end, with properties for the receiver [2.7.4]."""
        self.channel.write_link_flow(
            handle=self.end.handle,
            delivery_count=self.credit.delivery_count,
            link_credit=self.credit.link_credit,
            available=available,
            drain=self.credit.drain,
            properties=properties,
        )

    def transmit(self, frames_max: int, bytes_max: int) -> int:
        """Send waiting deliveries, in at most so many frames and about so many bytes. Returns the frames used."""
        used = 0
        while used < frames_max and bytes_max > 0 and (self._runs or self._fragment is not None):
            if self._fragment is None:
                run = self._runs[0]
                n, size = self._send_whole(run, frames_max - used, bytes_max)
                if n == 0:
                    self._begin_fragments(run)
                    continue
            else:
                n, size = self._send_fragment(self._fragment)
            used += n
            bytes_max -= size
        if self._flow_owed is not None and self.idle:
            self._write_owed_flow(self._flow_owed)
        return used

    def abandon(self) -> None:
        """The link is being detached: drop the waiting deliveries, and abort a message that is partly sent [2.6.14].

        The ranges of the dropped deliveries are in ``unsent`` afterwards, so that their queue gets them back as never
        sent.
        """
        self.unsent = [(run.next_number, run.last_number) for run in self._runs]
        if self._fragment is not None and self.channel.window.remote_incoming_window > 0:
            self.channel.window.sent(1)
            self.channel.write(
                Transfer(handle=self.end.handle, delivery_id=self._fragment.delivery_id & serial.MASK, aborted=True)
            )
        self._fragment = None
        self._runs.clear()
        self._flow_owed = None
        self.waiting = 0

    def _send_whole(self, run: WaitingRun, frames_max: int, bytes_max: int) -> tuple[int, int]:
        """Send the deliveries at the head of a run that fit into one frame each; returns their number and size."""
        channel, entries, header = self.channel, run.entries, run.header
        first_number, last_number = run.first + run.position, run.first + len(entries) - 1
        tag_bytes = bytes_of_tags(last_number, self.settled)
        overhead = frame_overhead(self.end.handle, tag_bytes, self.settled)
        room = channel.frame_size_max - overhead
        n = min(last_number + 1 - first_number, frames_max)
        if run.longest > room:
            n = self._fitting(run, n, room)
        n = min(n, max(1, bytes_max // (run.longest + overhead)))
        if n == 0:
            return 0, 0
        first_id = self._begin(first_number, n)
        if n < len(entries):
            end = run.position + n
            entries, header = entries[run.position : end], run.headers_of(run.position, end)
        pieces = encode_run(
            channel=channel.outgoing_channel,
            handle=self.end.handle,
            first_delivery_id=first_id & serial.MASK,
            first_number=first_number,
            entries=entries,
            header=header,
            settled=self.settled,
            tag_bytes=tag_bytes,
            even=run.even,
        )
        if run.longest < PIECE_BYTES_MIN:
            pieces = [b"".join(pieces)]
        channel.window.sent(n)
        channel.write_frames(*pieces)
        self._advance(run, n)
        channel.report(DeliveriesSent(self, first_number, first_number + n - 1))
        return n, sum(map(len, pieces))

    @staticmethod
    def _fitting(run: WaitingRun, n: int, room: int) -> int:
        for index in range(run.position, run.position + n):
            if len(run.header_of(index)) + len(run.entries[index]) > room:
                return index - run.position
        return n

    def _begin(self, number: int, n: int) -> int:
        """Count deliveries whose first frame is sent now. Returns the first one's extended delivery-id."""
        channel = self.channel
        first_id = channel.next_delivery_id
        channel.next_delivery_id += n
        self.credit.sent(n)
        self._left(n)
        if not self.settled:
            channel.outgoing.add(first_id, n, self, number)
        return first_id

    def _left(self, n: int) -> None:
        self.waiting -= n
        if self.grant is not None:
            self.grant.begun(n)

    def _advance(self, run: WaitingRun, n: int) -> None:
        run.position += n
        if run.position == len(run.entries):
            self._runs.popleft()

    def _begin_fragments(self, run: WaitingRun) -> None:
        number = run.next_number
        header, entry = run.header_of(run.position), memoryview(run.entries[run.position])
        delivery_id = self._begin(number, 1)
        self._advance(run, 1)
        tag = b"" if self.settled else number.to_bytes(4 if number <= serial.MASK else 8, "big")
        performative = Transfer(
            handle=self.end.handle,
            delivery_id=delivery_id & serial.MASK,
            delivery_tag=tag,
            message_format=0,
            settled=self.settled,
            more=True,
        )
        middle = encode_performative(performative)
        performative.more = False
        last = encode_performative(performative)
        self._fragment = Fragment(number, delivery_id, header, entry, middle, last)

    def _send_fragment(self, fragment: Fragment) -> tuple[int, int]:
        """Send the next frame of the delivery that is partly sent; returns 1 and the frame's size."""
        room = self.channel.frame_size_max - FRAME_HEADER_BYTES - len(fragment.middle)
        assert room > 0  # max-frame-size is at least 512 [2.7.1]
        prefix = fragment.header[:room]
        end = room - len(prefix)
        header, entry, rest = fragment.header[room:], fragment.entry[:end], fragment.entry[end:]
        more = bool(header or rest)
        performative = fragment.middle if more else fragment.last
        size = FRAME_HEADER_BYTES + len(performative) + len(prefix) + len(entry)
        lead = b"".join((_FRAME_LEAD.pack(size, 2, 0, self.channel.outgoing_channel), performative, prefix))
        self.channel.window.sent(1)
        if len(entry) < PIECE_BYTES_MIN:
            self.channel.write_frames(lead + entry)
        else:
            self.channel.write_frames(lead, entry)
        if more:
            self._fragment = fragment._replace(header=header, entry=rest)
        else:
            self._fragment = None
            self.channel.report(DeliveriesSent(self, fragment.number, fragment.number))
        return 1, size

    def _write_owed_flow(self, owed: FlowOwed) -> None:
        self._flow_owed = None
        if owed.drained:
            self.credit.drained()
        self.write_flow(available=owed.available)
