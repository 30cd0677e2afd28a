"""A whole broker behind real sockets, for attacks on it. A bystander publishes and consumes all the time.

The clients here (:class:`SocketPeer`) speak frames, have no flow control and may break every rule.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog
import trio
from structlog.testing import LogCapture

from amqp10.conversion.converter import MessageConverter
from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.serve import amqp10_factory
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, ReceiveBuffer, encode_frame
from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
    encode_performative,
)
from core.access.login import Access
from core.config.server import ServerSettings
from core.config.settings import Settings
from core.control_plane import BrokerControl
from core.engine.broker import Broker
from core.interface import Mailbox, QueueDeclaration, QueueTarget
from core.message import Attributes, Run
from core.observe.stalls import Stalls
from core.server.run import Background, Server, read_clocks
from tests.kit.logins import make_access
from tests.kit.wire import body_of, data_message, numbered

P = TypeVar("P", bound=Performative)


def opening_as(user: str, password: str) -> bytes:
    """What a client of this user sends before its open frame."""
    init = SaslInit(mechanism="PLAIN", initial_response=f"\0{user}\0{password}".encode())
    return PROTOCOL_HEADER_SASL + encode_sasl_frame(init) + PROTOCOL_HEADER_AMQP


PLAIN_INIT = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest"))
OPENING = opening_as("guest", "guest")
PATIENCE_SECONDS = 30.0
"""Longer than any step takes. A test that waits longer has found a bug."""
ROUND = 10
"""How many messages the bystander publishes in one round."""


class SocketPeer:
    """A client at the level of frames, on a socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = ReceiveBuffer()
        self._delivery_id = 0

    async def send(self, *performatives: Performative, payload: bytes = b"", channel: int = 0) -> None:
        """Send frames in one piece, each with the same payload."""
        encoded = (encode_frame(channel, encode_performative(each), payload) for each in performatives)
        await self.stream.send_all(b"".join(encoded))

    async def log_in(self, **open_fields: object) -> None:
        """Go through the handshake up to a session. AMQP frames come afterwards."""
        given: dict[str, object] = {"container_id": "peer", "max_frame_size": 65536} | open_fields
        await self.stream.send_all(OPENING)
        await self.send(
            Open(**given),  # type: ignore[arg-type]
            Begin(next_outgoing_id=0, incoming_window=2**31 - 1, outgoing_window=2**31 - 1),
        )
        await self.skip_handshake()
        await self.expect(Begin)

    async def skip_handshake(self) -> None:
        """Read the answers of the SASL handshake; AMQP frames come next."""
        seen = b""
        while PROTOCOL_HEADER_AMQP not in seen:
            seen += await self._some()
        self._buffer.feed(seen.partition(PROTOCOL_HEADER_AMQP)[2])

    async def attach_sender(self, address: str, *, handle: int = 0) -> None:
        """Attach a publishing link, and wait for its link credit."""
        await self.send(
            Attach(
                name=f"s{handle}",
                handle=handle,
                role=False,
                source=Source(),
                target=Target(address=address),
                initial_delivery_count=0,
            )
        )
        await self.expect(Flow, lambda flow: flow.handle == handle)

    async def attach_receiver(self, address: str, link_credit: int, *, handle: int = 1) -> None:
        """Attach a consuming link and give it link credit."""
        await self.send(
            Attach(name=f"r{handle}", handle=handle, role=True, source=Source(address=address), target=Target()),
            self.grant(link_credit, handle=handle),
        )
        await self.expect(Attach)

    def grant(self, link_credit: int, *, handle: int = 1, delivery_count: int = 0, received: int = 0) -> Flow:
        """Send a flow with link credit; ``received`` is how many transfers the session has received."""
        return Flow(
            next_incoming_id=received,
            incoming_window=2**31 - 1,
            next_outgoing_id=self._delivery_id,
            outgoing_window=2**31 - 1,
            handle=handle,
            delivery_count=delivery_count,
            link_credit=link_credit,
        )

    async def publish(self, bodies: Iterable[bytes], *, handle: int = 0) -> None:
        """Send unsettled deliveries of one frame each, in one piece."""
        frames = []
        for body in bodies:
            tag = self._delivery_id.to_bytes(4)
            transfer = Transfer(handle=handle, delivery_id=self._delivery_id, delivery_tag=tag, message_format=0)
            frames.append(encode_frame(0, encode_performative(transfer), data_message(body)))
            self._delivery_id += 1
        await self.stream.send_all(b"".join(frames))

    async def receive(self) -> tuple[Performative, bytes]:
        """Read the next frame and its payload."""
        while True:
            frame = self._buffer.next_frame(2**32 - 1)
            if frame is None:
                self._buffer.feed(await self._some())
            elif frame.body_start != frame.body_end:
                data = self._buffer.data
                performative, payload = decode_performative(data, frame.body_start, frame.body_end)
                return performative, data[payload : frame.body_end]

    async def expect(self, kind: type[P], where: Callable[[P], bool] = lambda _: True) -> P:
        """Read up to the next frame of this kind; frames before it are discarded."""
        while True:
            performative, _ = await self.receive()
            if isinstance(performative, kind) and where(performative):
                return performative

    async def bodies(self, n: int) -> list[bytes]:
        """Read the bodies of the next ``n`` messages; other frames are discarded."""
        found: list[bytes] = []
        while len(found) < n:
            performative, payload = await self.receive()
            if isinstance(performative, Transfer):
                found.append(body_of(payload))
        return found

    async def rest(self) -> bytes:
        """Read everything until the server closes, whether in order or by a reset."""
        data = b""
        with trio.fail_after(PATIENCE_SECONDS):
            try:
                while more := await self.stream.receive_some():
                    data += more
            except trio.BrokenResourceError:
                pass
        return data

    async def reset(self) -> None:
        """Close without a word to the peer: the kernel sends a reset."""
        self.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await trio.aclose_forcefully(self.stream)

    async def _some(self) -> bytes:
        with trio.fail_after(PATIENCE_SECONDS):
            data = await self.stream.receive_some()
        assert data, "the server has closed"
        return bytes(data)


class AttackedServer:
    """The server, how clients reach it, and what tests can see of it."""

    def __init__(self, server: Server, broker: Broker, log: LogCapture) -> None:
        self.server = server
        self.broker = broker
        self.log = log
        self.rounds = 0
        """How many rounds the bystander has done."""
        self.longest_round = 0.0
        """The longest round of the bystander, in seconds."""
        self._sockets: list[trio.socket.SocketType] = []
        self._stop_bystander = trio.Event()
        self._bystander_stopped = trio.Event()

    async def connect(self, *, receive_buffer: int | None = None) -> SocketPeer:
        """A connection that has sent nothing yet. With a small receive buffer it is soon full."""
        host, port = self.server.listening_on[0]
        sock = trio.socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        self._sockets.append(sock)
        await sock.connect((host, port))
        return SocketPeer(trio.SocketStream(sock))

    async def log_in(self, **open_fields: object) -> SocketPeer:
        """A connection with a session."""
        peer = await self.connect()
        await peer.log_in(**open_fields)
        return peer

    def fill(self, bodies: Iterable[bytes], name: str = "q") -> None:
        """Put messages into a queue."""
        target = QueueTarget(name)
        publisher = self.broker.publisher(Mailbox(lambda: None), self, target, None)
        self.broker.publish(
            publisher, target, Run(0, [data_message(body) for body in bodies], Attributes()), read_clocks()
        )
        self.broker.retire(publisher)
        while self.broker.turn(read_clocks()):
            pass

    def ready(self, name: str = "q") -> int:
        """How many messages are ready in a queue."""
        return self.broker.queue_info(name, self).ready

    def totals(self) -> dict[str, object]:
        """The counters of the server."""
        return self.server.snapshot("server")[0]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition on the server holds."""
        with trio.fail_after(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 - the server does not report its progress
                await trio.sleep(0.005)

    async def bystand(self) -> None:
        """Publish, wait for the confirms, consume and settle in rounds, and check that each message comes once and in
        order."""
        self.broker.declare_queue(QueueDeclaration(name="bystander", arguments={}), self)
        peer = await self.log_in(container_id="bystander")
        await peer.attach_sender("/queues/bystander")
        await peer.attach_receiver("/queues/bystander", 2**31)
        while not self._stop_bystander.is_set():
            began = trio.current_time()
            first = self.rounds * ROUND
            bodies = numbered(ROUND, first)
            await peer.publish(bodies)
            received, confirmed = [], 0
            while len(received) < ROUND or confirmed < ROUND:
                performative, payload = await peer.receive()
                if isinstance(performative, Transfer):
                    received.append(body_of(payload))
                elif isinstance(performative, Disposition):
                    assert performative.state == ACCEPTED
                    confirmed += (performative.last or performative.first) - performative.first + 1
            assert received == bodies
            await peer.send(Disposition(role=True, first=first, last=first + ROUND - 1, settled=True, state=ACCEPTED))
            self.rounds += 1
            self.longest_round = max(self.longest_round, trio.current_time() - began)
            await trio.sleep(0.01)
        await peer.send(Close())
        await peer.expect(Close)
        await peer.stream.aclose()
        assert self.ready("bystander") == 0
        self._bystander_stopped.set()

    async def more_rounds(self, n: int = 3) -> None:
        """Wait until the bystander has done ``n`` more rounds."""
        wanted = self.rounds + n
        await self.until(lambda: self.rounds >= wanted)

    def close_all(self) -> None:
        """Close every socket that a test has left open, also when the test is cancelled."""
        for sock in self._sockets:
            sock.close()

    async def stop_bystander(self) -> None:
        """Let the bystander end after a last round, with everything of it settled."""
        await self.more_rounds()
        self._stop_bystander.set()
        await self._bystander_stopped.wait()


@asynccontextmanager
async def attacked_server(
    front_end: Settings | None = None,
    *,
    access: Access | None = None,
    background: Sequence[Background] = (),
    **settings: object,
) -> AsyncIterator[AttackedServer]:
    """A server with a queue "q" and a bystander. The end of the block checks that the bystander has lost nothing, and
    that no front end failed."""
    converter = MessageConverter()
    broker = Broker(Settings(), converter)
    broker.declare_queue(QueueDeclaration(name="q", arguments={}), None)
    stalls = Stalls(clock=read_clocks)
    control = BrokerControl(broker, version="test", pid=0, stalls=stalls)
    log = LogCapture()
    server = Server(
        settings=ServerSettings.model_validate({"listen": ["127.0.0.1:0"]} | settings),
        engine=broker,
        factories=[
            amqp10_factory(
                settings=front_end or Settings(),
                broker=broker,
                control=control,
                converter=converter,
                access=access or make_access(),
                stalls=stalls,
            )
        ],
        log=structlog.wrap_logger(None, processors=[log]),
        background=background,
    )
    control.server = server
    async with trio.open_nursery() as nursery:
        started = trio.Event()
        nursery.start_soon(server.run, lambda _: started.set())
        await started.wait()
        attacked = AttackedServer(server, broker, log)
        nursery.start_soon(attacked.bystand)
        await attacked.more_rounds()
        try:
            yield attacked
            await attacked.stop_bystander()
            assert attacked.totals()["faults"] == 0
        finally:
            attacked.close_all()
        nursery.cancel_scope.cancel()
