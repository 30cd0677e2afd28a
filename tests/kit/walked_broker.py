"""The calls that three operations cause in a broker with sockets and a data folder: the walks of CONTRIBUTING.md.

The broker is put together from the same parts as in :mod:`core.process`: both protocols, the server on a loopback
port, and the data folder. The tasks beside the connections are left out (lanes, samplers, the admin server), so that
nothing else happens during an operation; the server's turn writes what is staged. While an operation is traced, the
client sends one frame that it has encoded before, and waits for bytes of the answer without reading them. So no call
of the client is among the calls.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import CodeType

import structlog
import trio
from structlog.testing import LogCapture
from trio.testing import wait_all_tasks_blocked

from amqp10.serve import AllProtocols
from amqp10.wire.framing import encode_frame
from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import Attach, Disposition, Flow, Performative, Transfer, encode_performative
from core.config.settings import Settings
from core.engine.broker import Broker
from core.engine.virtual_hosts import VirtualHosts
from core.interface import QueueDeclaration
from core.observe.stalls import Stalls
from core.server.data import OpenData
from core.server.flow_writer import open_flow_events
from core.server.run import Server, read_clocks
from tests.kit.attacked_server import SocketPeer
from tests.kit.call_trace import traced_calls
from tests.kit.logins import make_access
from tests.kit.wire import data_message

QUEUE, ADDRESS = "q", "/queues/q"
BODY = b"hello"
DRAINED_LINK_CREDIT = 10


async def calls_of_walks(root: Path, folder: Path) -> dict[str, list[CodeType]]:
    """The calls of each operation in a tree, by the heading of its walk. ``folder`` is for the data of the broker.

    - A published message: the third one of its link, because the first two fill what is made once for a link and for
      a shape of message. It is not durable, it goes to a classic queue without consumers, and it is accepted.
    - A delivery: link credit 1, the first of a consuming link, at that queue.
    - A flow frame: link credit 10 with drain, at a queue without messages.
    """
    calls: dict[str, list[CodeType]] = {}

    async def trace(heading: str, frame: bytes) -> None:
        await wait_all_tasks_blocked()  # on a busy machine a turn may have left a rest, whose task would read the frame
        with traced_calls(root) as calls[heading]:
            await peer.stream.send_all(frame)
            await trio.lowlevel.wait_readable(peer.stream.socket)

    async with _served(folder) as peer:
        await peer.attach_sender(ADDRESS)
        for delivery_id in range(2):
            await peer.stream.send_all(_transfer(delivery_id))
            await peer.expect(Disposition)
        await trace("A published message", _transfer(2))
        disposition = await peer.expect(Disposition)
        assert (disposition.first, disposition.state) == (2, ACCEPTED)

        await _attach_receiver(peer, handle=1)
        await trace("A delivery", _encoded(_flow(handle=1, link_credit=1)))
        assert await peer.bodies(1) == [BODY]

        await peer.send(_flow(handle=1, link_credit=2, delivery_count=1, received=1))
        assert await peer.bodies(2) == [BODY] * 2
        await _attach_receiver(peer, handle=2)
        frame = _flow(handle=2, link_credit=DRAINED_LINK_CREDIT, received=3)
        frame.drain = True
        await trace("A flow frame", _encoded(frame))
        answer = await peer.expect(Flow)
        assert (answer.delivery_count, answer.link_credit) == (DRAINED_LINK_CREDIT, 0)
    return calls


def _encoded(performative: Performative, payload: bytes = b"") -> bytes:
    return encode_frame(0, encode_performative(performative), payload)


def _transfer(delivery_id: int) -> bytes:
    tag = delivery_id.to_bytes(4)
    transfer = Transfer(handle=0, delivery_id=delivery_id, delivery_tag=tag, message_format=0)
    return _encoded(transfer, data_message(BODY))


def _flow(*, handle: int, link_credit: int, delivery_count: int = 0, received: int = 0) -> Flow:
    """A link flow after the three transfers; ``received`` is how many transfers the session has received."""
    return Flow(
        next_incoming_id=received,
        incoming_window=2**31 - 1,
        next_outgoing_id=3,
        outgoing_window=2**31 - 1,
        handle=handle,
        delivery_count=delivery_count,
        link_credit=link_credit,
    )


async def _attach_receiver(peer: SocketPeer, *, handle: int) -> None:
    source, target = Source(address=ADDRESS), Target()
    await peer.send(Attach(name=f"receiver {handle}", handle=handle, role=True, source=source, target=target))
    await peer.expect(Attach)


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[SocketPeer]:
    """Run the broker, with a queue, until the block ends; yields a client that has begun a session."""
    settings, protocols = Settings(), AllProtocols()
    log = structlog.wrap_logger(None, processors=[LogCapture()])
    identities = count(1)
    data = OpenData(
        folder,
        settings.store,
        clock=read_clocks,
        log=log,
        annotations=protocols.annotations,
        new_identity=lambda: f"{next(identities):032x}",
    )
    try:
        broker = Broker(settings, protocols.converter, storage=data.storage)
        broker.declare_queue(QueueDeclaration(name=QUEUE, arguments={}), None)
        flow = open_flow_events(settings.flow_events, clock=read_clocks, node="test")
        stalls = Stalls(clock=read_clocks, listeners=[flow])
        server = Server(
            settings=settings.server.model_copy(update={"listen": ("127.0.0.1:0",)}),
            engine=broker,
            factories=protocols.front_ends(settings, VirtualHosts(broker), make_access(), stalls, flow),
            log=log,
            store=data.write_inline,
            work=broker.work,
        )
        async with trio.open_nursery() as nursery:
            started = trio.Event()
            nursery.start_soon(server.run, lambda _: started.set())
            await started.wait()
            host, port = server.listening_on[0]
            async with await trio.open_tcp_stream(host, port) as stream:
                peer = SocketPeer(stream)
                await peer.log_in()
                yield peer
            nursery.cancel_scope.cancel()
    finally:
        data.close()
