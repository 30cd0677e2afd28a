"""How a connection is opened, kept alive, refused and closed."""

from dataclasses import replace

import anyio
import pytest

from amqp10.client import (
    ClientSettings,
    ConnectionLost,
    Message,
    NotLetIn,
    TimedOut,
    Unreachable,
    connect,
)
from amqp10.errors import ConnectionFault, ErrorCondition
from amqp10.serve import refusal
from amqp10.wire.messaging import Accepted
from tests.kit.both_libraries import settle
from tests.kit.memory_streams import MemoryStream, stream_pair
from tests.kit.stream_broker import URL, connected, stream_broker


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
async def test_a_user_is_let_in_by_each_mechanism(mechanism, library):
    async with connected(mechanisms=(mechanism,)) as (broker, connection):
        assert connection.status.up
        assert broker.served[0].peer.front_end.connection.handshake.identity == "guest"


async def test_without_a_user_the_client_logs_in_without_a_name(library):
    async with stream_broker() as broker, connect("amqp://broker", broker.settings()):
        assert broker.served[0].peer.front_end.connection.handshake.identity == "guest"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
async def test_a_wrong_password_is_told_and_nothing_is_tried_again(mechanism, library):
    async with stream_broker() as broker:
        settings = broker.settings(mechanisms=(mechanism,), reconnect=ClientSettings().reconnect)
        with pytest.raises(NotLetIn, match="wrong credentials"):
            async with connect("amqp://guest:wrong@broker", settings):
                pytest.fail("let in")
        assert broker.opened == 1


async def test_no_broker_listens_at_the_address(library):
    async with stream_broker() as broker:
        broker.down = True
        with pytest.raises(Unreachable, match="cannot connect to broker:5672: Connection refused"):
            async with connect(URL, broker.settings()):
                pytest.fail("connected")


async def test_a_silent_broker_is_given_up(library):
    async with stream_broker() as broker:
        broker.deaf = True
        with pytest.raises(TimedOut, match="no connection to broker:5672 within 3 s"):
            async with connect(URL, broker.settings(connect_time_out_s=3.0)):
                pytest.fail("connected")
        assert anyio.current_time() == pytest.approx(3.0, abs=0.1)


async def test_something_else_listens_there(library):
    async def other_protocol(host: str, port: int) -> MemoryStream:
        near, far = stream_pair()
        await far.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return near

    with pytest.raises(NotLetIn, match=r"the server answered with b'HTTP/1\.1'"):
        async with connect(URL, ClientSettings(open_stream=other_protocol)):
            pytest.fail("connected")


async def test_a_broker_that_refuses_with_a_reason_is_never_connected_to(library):
    """The refusal comes in one piece, open and close together. The client must never take itself for connected."""

    async def full_broker(host: str, port: int) -> MemoryStream:
        near, far = stream_pair()
        async with stream_broker() as broker:
            announced = broker.broker.announced
        await far.send(refusal(announced, "the limit of 3 connections is reached"))
        return near

    with pytest.raises(ConnectionLost, match="the limit of 3 connections is reached") as caught:
        async with connect("amqp://guest:guest@broker", ClientSettings(open_stream=full_broker, mechanisms=("PLAIN",))):
            pytest.fail("connected")
    assert caught.value.condition == ErrorCondition.RESOURCE_LIMIT_EXCEEDED


async def test_a_virtual_host_that_does_not_exist(library):
    async with stream_broker() as broker:
        with pytest.raises(ConnectionLost, match="no virtual host 'other'"):
            async with connect(URL + "/other", broker.settings()):
                pytest.fail("connected")


async def test_what_the_block_raises_comes_out_as_it_is(library):
    async with stream_broker() as broker:
        with pytest.raises(ValueError, match="of the user"):
            async with connect(URL, broker.settings()):
                raise ValueError("of the user")


async def test_leaving_the_block_closes_with_a_close_frame(library):
    async with stream_broker() as broker:
        async with connect(URL, broker.settings()):
            pass
        end = broker.served[0].peer.front_end.connection
        assert end.error is None
        assert end.state.value == "END"


async def test_a_close_does_not_wait_for_ever(library):
    async with stream_broker() as broker:
        async with connect(URL, broker.settings(close_time_out_s=2.0)):
            broker.make_deaf()
            before = anyio.current_time()
        assert anyio.current_time() - before == pytest.approx(2.0, abs=0.1)


async def test_the_reason_of_the_broker_reaches_every_task_that_waits(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        sender = await connection.open_sender("/queues/q")

        async def close_soon() -> None:
            await anyio.sleep(1)
            fault = ConnectionFault(ErrorCondition.CONNECTION_FORCED, "maintenance")
            end = broker.served[0].peer
            end.front_end.connection.close(fault, monotonic=anyio.current_time())
            broker.broker.touch(end)
            broker.pump()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close_soon)
            with pytest.raises(ConnectionLost, match="maintenance") as caught:
                await receiver.receive()
        assert caught.value.condition == ErrorCondition.CONNECTION_FORCED
        with pytest.raises(ConnectionLost, match="maintenance"):
            await sender.send(Message())
        with pytest.raises(ConnectionLost, match="maintenance"):
            await connection.begin_session()


async def test_an_idle_connection_is_kept_alive(library):
    """Both sides announce 30 s and are idle for more than a minute. Empty frames keep the connection."""
    async with connected() as (_, connection):
        await anyio.sleep(600)
        assert connection.status.up
        sender = await connection.open_sender("/queues/q")
        assert await sender.send(Message(b"x")) == Accepted()


async def test_a_broker_that_falls_silent_is_gone_after_twice_the_idle_time_out(library):
    async with connected(idle_time_out_ms=5000) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        for served in broker.served:
            served.peer.stop_reading()
        with pytest.raises(ConnectionLost, match="no frame for 10000 ms"):
            await receiver.receive()


async def test_what_the_broker_says_of_itself(library):
    said = {"product": "Headgate", "cores": 2}
    async with stream_broker() as broker:
        broker.broker.announced = replace(broker.broker.announced, properties=said)
        async with connect(URL, broker.settings()) as connection:
            assert connection.broker == said
        assert connection.broker == {}


async def test_no_more_sessions_than_the_broker_allows(library):
    async with connected() as (broker, connection):
        allowed = broker.broker.announced.channel_max + 1
        sessions = [await connection.begin_session() for _ in range(allowed)]
        with pytest.raises(Exception, match="no channel is free"):
            await connection.begin_session()
        sessions[0].close()
        await settle()
        assert (await connection.begin_session()).status.up
