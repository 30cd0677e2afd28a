"""The network connection itself: a peer that stops reading, closes, or sends what only a client may send."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10.client import ClientConnection, ClientSettings, LinkClosed, Message, SessionClosed, connect
from amqp10.client.wire import Wire
from amqp10.errors import ErrorCondition, SessionFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol.connection import Connection, Event
from amqp10.protocol.events import ConnectionClosed, ConnectionOpened, LinkDetached, SessionBegun, SessionEnded
from amqp10.protocol.handshake import ClientHandshake, ServerHandshake
from amqp10.protocol.lifecycle import SessionState
from amqp10.protocol.settings import ConnectionSettings
from amqp10.serve import Mechanism
from amqp10.wire.messaging import Accepted, Source, Target
from core.access.mechanisms import AnonymousMechanism
from tests.kit.both_libraries import settle
from tests.kit.logins import from_here, make_access
from tests.kit.memory_streams import MemoryStream, stream_pair
from tests.kit.stream_broker import connected


def wire_on(stream: MemoryStream, events: list[Event]) -> Wire:
    """The client's side of a connection that has just been made."""
    engine = Connection(ConnectionSettings(container_id="test"), ClientHandshake([], hostname=None, frame_size_max=512))
    return Wire(
        stream,
        engine,
        take_event=events.append,
        after_events=lambda: None,
        before_output=lambda: None,
        write_time_out_s=2.0,
    )


async def test_a_peer_that_takes_nothing_is_given_up(library):
    near, _ = stream_pair()
    near.takes_all = False
    events: list[Event] = []
    await wire_on(near, events).run()
    assert anyio.current_time() == pytest.approx(2.0)
    assert events == [ConnectionClosed(None, by_peer=True)]


@pytest.mark.parametrize("politely", [True, False])
async def test_a_peer_that_is_gone_is_told_once(politely, library):
    near, far = stream_pair()
    events: list[Event] = []

    async def leave() -> None:
        await anyio.sleep(1)
        if politely:
            await far.send_eof()
        else:
            await far.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await wire_on(near, events).run()
    assert events == [ConnectionClosed(None, by_peer=True)]
    with pytest.raises(anyio.ClosedResourceError):
        await near.send(b"x")


class Puppet:
    """A broker that answers open and begin. The test controls its engine for everything else."""

    def __init__(self) -> None:
        handshake = ServerHandshake(
            [Mechanism(AnonymousMechanism(make_access(), from_here()))],
            bare_allowed=False,
            refusal_delay_s=lambda: 0.0,
            frame_size_max=512,
        )
        self.engine = Connection(ConnectionSettings(container_id="puppet"), handshake)
        self.events: list[Event] = []
        self.near, self.far = stream_pair()

    async def open_stream(self, host: str, port: int) -> MemoryStream:
        await anyio.lowlevel.checkpoint()
        return self.near

    async def serve(self) -> None:
        while True:
            try:
                data = await self.far.receive()
            except anyio.EndOfStream:
                return
            self.engine.receive_data(data, anyio.current_time())
            while (event := self.engine.next_event()) is not None:
                self.events.append(event)
                match event:
                    case ConnectionOpened():
                        self.engine.open()
                    case SessionBegun(session) if session.state is SessionState.BEGIN_RCVD:
                        session.begin()
            await self.say()

    async def say(self) -> None:
        """Send the output of the engine, and let the client read it."""
        await self.far.send(self.engine.data_to_send(anyio.current_time()))


@asynccontextmanager
async def puppet() -> AsyncIterator[tuple[Puppet, ClientConnection]]:
    """A broker under the test's control, and a client that is connected to it."""
    broker = Puppet()
    settings = ClientSettings(open_stream=broker.open_stream, reconnect=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.serve)
        async with connect("amqp://puppet", settings) as connection:
            yield broker, connection
        tasks.cancel_scope.cancel()


async def test_a_session_that_the_broker_begins_is_ended_and_the_connection_goes_on(library):
    async with puppet() as (broker, connection):
        broker.engine.new_session().begin()
        await broker.say()
        await settle()
        (ended,) = [event for event in broker.events if isinstance(event, SessionEnded)]
        assert ended.error is not None
        assert ended.error.condition == ErrorCondition.NOT_ALLOWED
        assert (await connection.begin_session()).status.up


async def test_links_that_the_broker_attaches_are_refused_and_the_session_goes_on(library):
    async with puppet() as (broker, connection):
        session = await connection.begin_session()
        (end,) = broker.engine.sessions
        sender, receiver = end.new_sender("pushing"), end.new_receiver("pulling")
        sender.attach(source=Source(), target=Target(), snd_settle_mode=2, rcv_settle_mode=0)
        receiver.attach(source=Source(), target=Target(), snd_settle_mode=2, rcv_settle_mode=0, credit=ReceiverCredit())
        await broker.say()
        await settle()
        detached = {event.link: event.error for event in broker.events if isinstance(event, LinkDetached)}
        assert set(detached) == {sender, receiver}
        assert all(error is not None and error.condition == ErrorCondition.NOT_ALLOWED for error in detached.values())
        assert session.status.up


async def test_a_session_that_the_broker_ends_takes_its_links_with_the_reason(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        other = await (await connection.begin_session()).open_sender("/queues/q")
        peer = broker.served[0].peer
        peer.front_end.connection.sessions[0].fail(SessionFault(ErrorCondition.WINDOW_VIOLATION, "you sent too much"))
        broker.broker.touch(peer)
        broker.pump()
        await settle()
        with pytest.raises(SessionClosed, match="you sent too much") as caught:
            await sender.send(Message(b"x"))
        assert caught.value.condition == ErrorCondition.WINDOW_VIOLATION
        assert await other.send(Message(b"x")) == Accepted()
        again = await connection.open_sender("/queues/q")
        assert await again.send(Message(b"x")) == Accepted()


async def test_a_link_can_be_closed_twice_and_while_the_answer_is_missing(library):
    async with connected(close_time_out_s=3.0) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.make_deaf()
        before = anyio.current_time()
        await sender.close()
        assert anyio.current_time() - before == pytest.approx(3.0)
        await sender.close()
        with pytest.raises(LinkClosed, match="was closed"):
            await sender.send(Message(b"x"))
        await broker.hear_again()
