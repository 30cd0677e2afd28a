"""A broker in this process and clients that speak to it frame by frame: no socket, no task, no clock.

:class:`InProcessBroker` does what the server does, in the same order: it takes bytes in, then runs engine turns and
flushes until nothing is left. :class:`WirePeer` is a client with no flow control of its own, so that a test can break
every rule; it sends performatives and sees the frames that came back, decoded, in order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol, TypeVar

import structlog
from structlog.testing import LogCapture

from amqp10.conversion.converter import MessageConverter
from amqp10.frontend.front_end import Amqp10FrontEnd
from amqp10.frontend.publisher_windows import PublisherWindows
from amqp10.protocol.connection import Connection
from amqp10.protocol.handshake import ServerHandshake
from amqp10.protocol.sasl import SaslInit, SaslServerMechanism, Success, encode_sasl_frame
from amqp10.serve import connection_settings, management_node
from amqp10.wire.framing import (
    PROTOCOL_HEADER_AMQP,
    PROTOCOL_HEADER_SASL,
    ReceiveBuffer,
    encode_frame,
)
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
    encode_performative,
)
from amqp10.wire.sections import scan
from core.access.checked_engine import CheckedEngine
from core.access.rights import all_rights, no_rights
from core.clock import Now
from core.config.log import LogSettings
from core.config.settings import Settings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.engine.forwarding.nodes import Homes
from core.engine.storage import Storage
from core.interface import Mailbox, QueueDeclaration, QueueTarget
from core.message import Attributes, Run
from core.observe.flow_events.recorder import FlowEvents
from core.observe.flow_events.ring import RecordRing
from core.observe.stall_log import StallLog
from core.observe.stalls import AFTER_S, Stalls
from core.server.frontends import FrontEnd, PeerInfo
from core.server.rounds import ROUND_S, ROUNDS_PER_LOOK
from tests.kit.audited import Audited
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage, work

P = TypeVar("P", bound=Performative)


def data_message(body: bytes) -> bytes:
    """A message of one data section [3.2.6]."""
    if len(body) < 256:
        return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def numbered(n: int, first: int = 0) -> list[bytes]:
    """This many bodies that can be told apart and put in order."""
    return [b"%d" % number for number in range(first, first + n)]


ELSEWHERE: "list[Callable[[InProcessBroker], InProcessBroker]]" = []
"""What makes the node to which clients connect; empty for the same node."""


class _LetIn:
    name = "ANONYMOUS"

    def start(self) -> "_LetIn":
        return self

    def respond(self, response: bytes) -> Success:
        return Success("guest")


class AnyPeer(Protocol):
    """A client of either protocol."""

    @property
    def front_end(self) -> FrontEnd: ...

    def flush(self) -> None:
        """Do what the server does for a touched peer."""


class InProcessBroker:
    """One broker; time stands still until the test moves it."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        durable: bool = False,
        storage: Storage | None = None,
        flow_ring: RecordRing | None = None,
        one_work: bool = False,
        homes: Homes | None = None,
    ) -> None:
        """``durable`` gives the broker storage on a disk in memory, and with it quorum queues and streams. ``storage``
        is the test's own, and the test moves its lanes. ``flow_ring`` receives the flow events of all connections.
        With ``one_work``, the engine's work counts for the turn of the client that asked for it, as in a process.
        ``homes``: where queues live. Within
        :func:`clients_elsewhere`, clients connect to another node, which forwards to this one."""
        self.settings = settings or Settings()
        self.windows = PublisherWindows(self.settings.amqp10)
        self.announced = replace(connection_settings(self.settings.amqp10), properties={})
        self._own_storage = open_storage(MemoryDisk(), KeptDefinitions()) if durable else None
        self.converter = MessageConverter()
        self.engine = Broker(self.settings, self.converter, storage=storage or self._own_storage, homes=homes)
        self.work = self.engine.work if one_work else None
        self.rights = all_rights("guest")
        """The rights of clients that connect from now on."""
        self.audited = Audited()
        """What clients do."""
        self.now = Now(1000.0, 1_700_000_000.0)
        self.log = LogCapture()
        at_once = LogSettings(stall_after=AFTER_S, consumer_stall_after=AFTER_S, stall_pause=0.0)
        self.stall_log = StallLog(structlog.wrap_logger(None, processors=[self.log]), at_once, lambda: self.now)
        self.flow = FlowEvents(
            clock=lambda: self.now, node="test", interval_s=0.01, feed_records_max=100, ring=flow_ring
        )
        self.stalls = Stalls(clock=lambda: self.now, listeners=[self.stall_log, self.flow])
        self.control = BrokerControl(self.engine, version="test", pid=0, stalls=self.stalls)
        self.node = management_node(self.engine, self.control)
        self.traffic = {"amqp10": Traffic(), "amqp091": Traffic()}
        self.peers: list[AnyPeer] = []
        self._touched: list[AnyPeer] = []
        self.beside: list[InProcessBroker] = []
        """Other nodes, which run when this one runs."""
        self.entry = self
        """The node to which clients connect."""
        if ELSEWHERE and homes is None:
            self.entry = ELSEWHERE[-1](self)
        self.leader: Callable[[str | None], dict[str, object]] = lambda home: {}
        """What clients are told of the node that leads their queue."""
        self.rounds_max: int | None = None
        """The most rounds of one :meth:`run`, which leaves the rest to the next call; None for as many as it takes."""

    def queue(self, name: str = "q", **arguments: object) -> str:
        """Declare a queue, ``x_queue_type="quorum"`` for one that is not classic; returns its address."""
        spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.engine.declare_queue(QueueDeclaration(name=name, arguments=spelled), self)
        return f"/queues/{name}"

    def fill(self, bodies: Iterable[bytes], name: str = "q") -> None:
        """Put messages into a queue without the flow control of a publisher."""
        target = QueueTarget(name)
        publisher = self.engine.publisher(Mailbox(lambda: None), self, target, None)
        entries = [data_message(body) for body in bodies]
        if entries:
            self.engine.publish(publisher, target, Run(0, entries, Attributes()), self.now)
        self.engine.retire(publisher)
        self.run()

    def stall(self, name: str = "q") -> None:
        """Make a queue take on no messages: what is published to it waits and is not confirmed."""
        self.engine.set_stage_budget(name, 0)

    def recover(self, name: str = "q") -> None:
        """Let the queue take on messages again."""
        self.engine.set_stage_budget(name, None)
        self.run()

    def raise_alarm(self, name: str = "memory") -> None:
        """Set an alarm."""
        self.engine.set_alarm(name)
        self.run()

    def clear_alarm(self, name: str = "memory") -> None:
        """Clear the alarm."""
        self.engine.clear_alarm(name)
        self.run()

    def ready(self, name: str = "q") -> int:
        """How many messages are ready in a queue."""
        return self.engine.queue_info(name, self).ready

    def unacknowledged(self, name: str = "q") -> int:
        """How many messages of a queue are with consumers."""
        return self.engine.queue_info(name, self).unacknowledged

    def connect(self, **open_fields: object) -> "WirePeer":
        """A client that has authenticated and opened."""
        peer = WirePeer(self.entry)
        peer.handshake()
        peer.open(**open_fields)
        return peer

    def advance(self, seconds: float) -> None:
        """Let time pass; each deadline on the way is kept."""
        end = self.now.monotonic + seconds
        while (deadline := min(self.control.hosts.deadline(), *map(_deadline, self.peers), inf)) <= end:
            self._move(max(deadline, self.now.monotonic))
            for peer in self.peers:
                if _deadline(peer) <= self.now.monotonic:
                    peer.front_end.tick(self.now)
                    self.touch(peer)
            self.run()
        self._move(end)

    def go_round(self, seconds: float) -> None:
        """Let time pass as :meth:`advance` does, and run the periodic work of the ledger of stalls."""
        for number in range(round(seconds / ROUND_S)):
            self.advance(ROUND_S)
            if number % ROUNDS_PER_LOOK == 0:
                deque(self.stalls.look(), maxlen=0)
            deque(self.stalls.tell(), maxlen=0)
            deque(self.stall_log.tell(), maxlen=0)
            self.run()

    def touch(self, peer: "AnyPeer") -> None:
        """Note that this peer has actions or output."""
        if peer not in self._touched:
            self._touched.append(peer)

    def run(self) -> None:
        """Run turns and flushes until nothing is left, as the server's pump does; with storage also writes and
        syncs."""
        for _ in range(1000 if self.rounds_max is None else self.rounds_max):
            worked = [node.step() for node in (self, *self.beside)]  # each of them, also when the first has worked
            if not any(worked):
                return
        assert self.rounds_max is not None, "the broker does not come to rest"

    def step(self) -> bool:
        """Run one turn and its flushes. Returns whether there was something to do."""
        more = self.control.hosts.turn(self.now)
        touched, self._touched = self._touched, []
        for peer in touched:
            peer.flush()
        if self._own_storage is not None:
            more |= work(self._own_storage, self.now.monotonic)
        more |= self.control.hosts.deadline() <= self.now.monotonic
        return bool(touched) or more

    def _move(self, monotonic: float) -> None:
        self.now = Now(monotonic, self.now.wall + monotonic - self.now.monotonic)


class WirePeer:
    """A client at the level of frames. ``frames`` are those received and not yet taken: (channel, performative,
    payload)."""

    def __init__(
        self,
        broker: InProcessBroker,
        mechanisms: Sequence[SaslServerMechanism] = (_LetIn(),),
        *,
        bare_allowed: bool = False,
    ) -> None:
        """``mechanisms`` and ``bare_allowed`` are what the broker offers to this peer."""
        self.broker = broker
        identity = f"test-{len(broker.peers)}"
        self.front_end = Amqp10FrontEnd(
            PeerInfo(identity, "127.0.0.1", 40000 + len(broker.peers), "127.0.0.1", 5672),
            mailbox=Mailbox(lambda: broker.touch(self)),
            connection=Connection(
                broker.announced,
                ServerHandshake(
                    mechanisms,
                    bare_allowed=bare_allowed,
                    refusal_delay_s=lambda: 1.0,
                    frame_size_max=broker.announced.pre_open_frame_size_max,
                ),
            ),
            engine=CheckedEngine(broker.engine, no_rights(""), broker.audited.peer("amqp-1.0", identity)),
            converter=broker.converter,
            management=broker.node,
            stalls=broker.stalls,
            settings=broker.settings,
            unique=lambda: f"u{len(self.front_end.connection.all_sessions)}",
            wake=lambda: broker.touch(self),
            traffic=broker.traffic["amqp10"],
            flow=broker.flow,
            work=broker.work,
            rights_of=lambda user: broker.rights,
            hosts=broker.control.hosts,
            windows=broker.windows,
            order=broker.engine.machinery.order,
            leader=lambda home: broker.leader(home),
        )
        broker.peers.append(self)
        self.frames: list[tuple[int, Performative, bytes]] = []
        self.raw = b""
        self.carry: Callable[[bytes], None] | None = None
        """What takes the bytes of the broker, where this is the broker's end of another node's connection."""
        self.lost = False
        self._writes_left: int | None = None
        self._buffer = ReceiveBuffer()
        self._in_frames = False
        self._next_outgoing_id = 0
        self._next_delivery_id = 0

    # --- bytes -------------------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Send bytes to the broker, and run everything that follows from them."""
        self.front_end.receive_data(data, self.broker.now)
        self.broker.touch(self)
        self.broker.run()

    def flush(self) -> None:
        """Do what the server does for a touched peer."""
        if self.lost:
            return
        self.front_end.take_actions(self.broker.now)
        while self._writes_left != 0 and (data := b"".join(self.front_end.pieces_to_send(self.broker.now))):
            if self.carry is not None:
                self.carry(data)
                continue
            self.raw += data
            if self._in_frames:
                self._buffer.feed(data)
                self._decode()
            if self._writes_left is not None:
                self._writes_left -= 1
                self.front_end.output_backlog(len(data))
        if self.front_end.finished:
            self.disconnect()

    def stop_reading(self, *, writes: int = 0) -> None:
        """Read no more: the socket takes this many writes of the broker, and is full then."""
        self._writes_left = writes

    def go_on_reading(self) -> None:
        """Read again."""
        self._writes_left = None
        self.front_end.output_backlog(0)
        self.broker.touch(self)
        self.broker.run()

    def disconnect(self) -> None:
        """Close the socket."""
        if not self.lost:
            self.lost = True
            self.front_end.connection_lost(self.broker.now)
            self.broker.run()

    def _decode(self) -> None:
        while (frame := self._buffer.next_frame(2**32 - 1)) is not None:
            if frame.body_start == frame.body_end:
                continue
            data = self._buffer.data
            performative, payload = decode_performative(data, frame.body_start, frame.body_end)
            self.frames.append((frame.channel, performative, data[payload : frame.body_end]))

    # --- frames ------------------------------------------------------------------------------------------------------

    def handshake(self) -> None:
        """Go through the handshake: SASL header, SASL, AMQP header."""
        init = encode_sasl_frame(SaslInit(mechanism="ANONYMOUS", initial_response=b""))
        self.send_bytes(PROTOCOL_HEADER_SASL + init + PROTOCOL_HEADER_AMQP)
        assert self.raw.endswith(PROTOCOL_HEADER_AMQP), self.raw
        self.read_frames()

    def read_frames(self) -> None:
        """Take all that comes from now on as AMQP frames."""
        self._in_frames = True

    def open(self, **fields: object) -> Open:
        """Send an open; returns the broker's open."""
        given: dict[str, object] = {"container_id": "test", "max_frame_size": 65536} | fields
        self.send(Open(**given))  # type: ignore[arg-type]
        return self.expect(Open)

    def send(self, performative: Performative, payload: bytes = b"", channel: int = 0) -> None:
        """Send one frame."""
        self.send_bytes(encode_frame(channel, encode_performative(performative), payload))

    def send_all(self, frames: Iterable[tuple[Performative, bytes]], channel: int = 0) -> None:
        """Send frames in one piece, as from one read of the socket."""
        self.send_bytes(b"".join(encode_frame(channel, encode_performative(each), payload) for each, payload in frames))

    def begin(self, channel: int = 0, *, incoming_window: int = 2**31 - 1, next_outgoing_id: int = 0) -> Begin:
        """Begin a session; returns the broker's begin."""
        self._next_outgoing_id = next_outgoing_id
        self.send(
            Begin(next_outgoing_id=next_outgoing_id, incoming_window=incoming_window, outgoing_window=2**31 - 1),
            channel=channel,
        )
        return self.pick(Begin)

    def attach_sender(
        self, address: str | None, *, handle: int = 0, channel: int = 0, name: str | None = None, **fields: object
    ) -> Attach:
        """Attach a publishing link; returns the broker's attach. The flow with link credit stays in ``frames``."""
        given: dict[str, object] = {
            "name": name or f"sender-{channel}.{handle}",
            "handle": handle,
            "role": False,
            "source": Source(),
            "target": Target(address=address),
            "initial_delivery_count": 0,
        } | fields
        self.send(Attach(**given), channel=channel)  # type: ignore[arg-type]
        return self.pick(Attach)

    def attach_receiver(
        self, address: str | None, *, handle: int = 1, channel: int = 0, name: str | None = None, **fields: object
    ) -> Attach:
        """Attach a consuming link; returns the broker's attach."""
        given: dict[str, object] = {
            "name": name or f"receiver-{channel}.{handle}",
            "handle": handle,
            "role": True,
            "source": Source(address=address),
            "target": Target(),
        } | fields
        self.send(Attach(**given), channel=channel)  # type: ignore[arg-type]
        return self.pick(Attach)

    def transfer(self, body: bytes = b"x", *, handle: int = 0, channel: int = 0, **fields: object) -> int:
        """Send one single-frame delivery; returns its delivery-id."""
        frame, payload = self.transfer_frame(body, handle=handle, **fields)
        self.send(frame, payload, channel=channel)
        assert frame.delivery_id is not None
        return frame.delivery_id

    def transfer_frame(self, body: bytes = b"x", *, handle: int = 0, **fields: object) -> tuple[Transfer, bytes]:
        """The frame of a single-frame delivery, for :meth:`send_all`. ``payload=`` gives the whole payload instead of
        the body."""
        delivery_id = self._next_delivery_id
        self._next_delivery_id += 1
        payload = fields.pop("payload", None)
        given: dict[str, object] = {
            "handle": handle,
            "delivery_id": delivery_id,
            "delivery_tag": delivery_id.to_bytes(4, "big"),
            "message_format": 0,
        } | fields
        frame = Transfer(**given)  # type: ignore[arg-type]
        return frame, payload if isinstance(payload, bytes) else data_message(body)

    def frames_of(
        self, payload: bytes, size: int, *, handle: int = 0, **fields: object
    ) -> list[tuple[Transfer, bytes]]:
        """The frames of one delivery cut into pieces of at most ``size`` bytes. All but the first frame name the link
        only."""
        first, _ = self.transfer_frame(handle=handle, **fields)
        pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
        transfers = [first] + [Transfer(handle=handle) for _ in pieces[1:]]
        for transfer in transfers[:-1]:
            transfer.more = True
        return list(zip(transfers, pieces, strict=True))

    def publish(self, bodies: Iterable[bytes], *, handle: int = 0, **fields: object) -> None:
        """Send single-frame deliveries in one piece."""
        self.send_all([self.transfer_frame(body, handle=handle, **fields) for body in bodies])

    def flow(self, *, channel: int = 0, **fields: object) -> None:
        """Send a flow with the session fields of this peer, unless the test gives others."""
        frame, _ = self.flow_frame(channel=channel, **fields)
        self.send(frame, channel=channel)

    def flow_frame(self, *, channel: int = 0, **fields: object) -> tuple[Flow, bytes]:
        """The frame of a flow, for :meth:`send_all`."""
        session = self.session(channel)
        given: dict[str, object] = {
            "next_incoming_id": session.window.next_outgoing_id if session else 0,
            "incoming_window": 2**31 - 1,
            "next_outgoing_id": session.window.next_incoming_id if session else 0,
            "outgoing_window": 2**31 - 1,
        } | fields
        return Flow(**given), b""  # type: ignore[arg-type]

    def grant(self, link_credit: int | None, *, channel: int = 0, **fields: object) -> None:
        """Send a link flow on a consuming link."""
        frame, _ = self.grant_frame(link_credit, channel=channel, **fields)
        self.send(frame, channel=channel)

    def grant_frame(
        self, link_credit: int | None, *, handle: int = 1, channel: int = 0, **fields: object
    ) -> tuple[Flow, bytes]:
        """The frame of a link flow, for :meth:`send_all`; the delivery-count is the broker's unless it is given."""
        given = {"delivery_count": self.link(handle, channel).credit.delivery_count} | fields
        return self.flow_frame(channel=channel, handle=handle, link_credit=link_credit, **given)

    def dispose(self, first: int, last: int | None = None, *, channel: int = 0, **fields: object) -> None:
        """Send a disposition as the receiver of deliveries."""
        given: dict[str, object] = {"role": True, "first": first, "last": last, "settled": True} | fields
        self.send(Disposition(**given), channel=channel)  # type: ignore[arg-type]

    def detach(self, handle: int, *, closed: bool = True, channel: int = 0) -> None:
        """Detach a link."""
        self.send(Detach(handle=handle, closed=closed), channel=channel)

    def session(self, channel: int = 0):
        """The broker's end of a session."""
        return self.front_end.connection._by_incoming.get(channel)

    def link(self, handle: int, channel: int = 0):
        """The broker's end of a link, by our handle."""
        return self.session(channel)._links_in[handle]

    # --- what came ----------------------------------------------------------------------------------------------------

    def expect(self, kind: type[P]) -> P:
        """Take the next frame, which must be of this kind."""
        assert self.frames, f"no frame came; a {kind.__name__} was expected"
        performative = self.frames.pop(0)[1]
        assert isinstance(performative, kind), f"{performative} came; a {kind.__name__} was expected"
        return performative

    def pick(self, kind: type[P]) -> P:
        """Take the first frame of this kind; there must be one."""
        index = next((index for index, row in enumerate(self.frames) if isinstance(row[1], kind)), None)
        assert index is not None, f"no {kind.__name__} among {[type(row[1]).__name__ for row in self.frames]}"
        performative = self.frames.pop(index)[1]
        assert isinstance(performative, kind)
        return performative

    def take(self, kind: type[P], where: Callable[[P], bool] = lambda _: True) -> list[P]:
        """Take all frames of this kind."""
        taken = [each for _, each, _ in self.frames if isinstance(each, kind) and where(each)]
        self.frames = [row for row in self.frames if not (isinstance(row[1], kind) and where(row[1]))]
        return taken

    def deliveries(self) -> list[tuple[Transfer, bytes]]:
        """Take all transfers with their payload."""
        taken = [(each, payload) for _, each, payload in self.frames if isinstance(each, Transfer)]
        self.frames = [row for row in self.frames if not isinstance(row[1], Transfer)]
        return taken

    def bodies(self) -> list[bytes]:
        """Take all transfers (one data section each); returns their bodies."""
        return [body_of(payload) for _, payload in self.deliveries()]

    def nothing_came(self) -> bool:
        """Check that no frame is left."""
        return not self.frames

    def ended_with(self, condition: str) -> bool:
        """Check that the broker ended the session with this condition."""
        return any(end.error is not None and end.error.condition == condition for end in self.take(End))

    def closed_with(self, condition: str) -> bool:
        """Check that the broker closed the connection with this condition."""
        return any(each.error is not None and each.error.condition == condition for each in self.take(Close))

    def detached_with(self, condition: str) -> bool:
        """Check that the broker detached a link with this condition."""
        return any(each.error is not None and each.error.condition == condition for each in self.take(Detach))


def _deadline(peer: AnyPeer) -> float:
    """When a peer needs its next tick; infinity for never."""
    deadline = None if peer.lost else peer.front_end.deadline()
    return inf if deadline is None else deadline


def body_of(payload: bytes) -> bytes:
    """The content of the data section of a message."""
    bounds = scan(payload)
    assert bounds.body is not None, "a message without a body"
    start, end = bounds.body
    return payload[start + (5 if payload[start + 3] == 0xA0 else 8) : end]
