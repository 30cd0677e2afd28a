"""What a client does when its connection breaks: it connects again, attaches again, and reports what it cannot carry
over."""

import anyio
import pytest

from amqp10.client import (
    Backoff,
    ConnectionLost,
    FateRange,
    Message,
    NotLetIn,
    ReceiverOptions,
    Uncertain,
    Unreachable,
)
from amqp10.wire.messaging import Accepted
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import PATIENT, connected
from tests.kit.wire import numbered

BY_HAND = ReceiverOptions(automatic=False)


async def test_delays_grow_and_a_connection_comes_back(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        broker.down = True
        broker.cut()
        await anyio.sleep(1 + 2 + 4 + 8 + 0.5)
        assert (broker.opened, connection.status.up) == (5, False)
        broker.down = False
        await anyio.sleep(8)
        assert (broker.opened, connection.status.up) == (6, True)


async def test_a_connection_that_lasted_begins_with_the_shortest_delay_again(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        for _ in range(3):
            await anyio.sleep(60)
            broker.cut()
            await anyio.sleep(1.1)
            assert connection.status.up


async def test_attempts_can_be_limited(library):
    backoff = Backoff(first_s=1.0, longest_s=8.0, attempts_max=2)
    async with connected(reconnect=backoff) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.down = True
        broker.cut()
        await settle()
        with pytest.raises(Unreachable):
            await sender.send(Message(b"x"))
        assert broker.opened == 3


async def test_without_reconnect_a_loss_is_the_end(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        broker.cut()
        with pytest.raises(ConnectionLost):
            await receiver.receive()
        with pytest.raises(ConnectionLost):
            await connection.open_receiver("/queues/q")


async def test_a_password_that_is_wrong_now_is_not_tried_again(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        broker.change_users()
        broker.cut()
        await settle()
        with pytest.raises(NotLetIn):
            await (await connection.begin_session()).open_sender("/queues/q")
        assert broker.opened == 2


async def test_open_outcomes_are_uncertain_and_the_sender_goes_on(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        receipt = await sender.post(Message(body) for body in numbered(3))
        await settle()
        broker.cut()
        (fate,) = await receipt.fates()
        assert (fate.first, fate.last) == (0, 2)
        assert isinstance(fate.fate, Uncertain)
        broker.broker.recover()
        assert await sender.send_many([Message(b"3"), Message(b"4")]) == [FateRange(3, 4, Accepted())]


async def test_a_post_under_way_goes_on_with_the_rest(library):
    """255 messages are sent before the connection breaks. The others follow on the new one, each once."""
    async with connected(reconnect=PATIENT) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()

        async def break_soon() -> None:
            await anyio.sleep(1)
            broker.cut()
            broker.broker.recover()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(break_soon)
            fates = await sender.send_many(Message(body) for body in numbered(1000))
        assert [(fate.first, fate.last, type(fate.fate)) for fate in fates] == [
            (0, 254, Uncertain),
            (255, 999, Accepted),
        ]


async def test_a_receiver_gets_again_what_had_no_outcome_and_its_link_credit(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(10)
        broker.broker.fill(numbered(4))
        broker.pump()
        await settle()
        first, second = await receiver.receive_batch(2)
        first.accept()
        await settle()
        broker.cut()
        await settle()
        assert (receiver.waiting, receiver.unsettled) == (0, 0)
        second.accept()  # of a connection that is closed: no effect
        await anyio.sleep(2)
        again = receiver.receive_nowait(10)
        assert [delivery.message.body for delivery in again] == numbered(3, 1)
        assert [delivery.number for delivery in again] == [4, 5, 6]
        # Of the 10, 6 were not used and 2 were dropped here before the user took them; 3 of these 8 are used again.
        assert receiver.link_credit == 5
        assert receiver.accept(4, 6) == 3
        await settle()
        assert broker.broker.unacknowledged() == 0


async def test_an_automatic_receiver_goes_on_by_itself(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        broker.cut()
        await anyio.sleep(2)
        broker.broker.fill(numbered(1000))
        broker.pump()
        received = []
        while len(received) < 1000:
            batch = await receiver.receive_batch(100)
            receiver.accept(batch[0].number, batch[-1].number)
            received += [delivery.message.body for delivery in batch]
        assert received == numbered(1000)


async def test_a_paused_receiver_stays_paused(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await receiver.pause()
        broker.cut()
        await anyio.sleep(2)
        broker.broker.fill(numbered(5))
        broker.pump()
        await anyio.sleep(1)
        assert (receiver.status.up, receiver.waiting) == (True, 0)
        receiver.resume()
        assert len(await receiver.receive_batch(5)) == 5


async def test_a_pause_and_a_drain_that_the_loss_interrupts_say_so(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        for wait in (receiver.pause, receiver.drain):
            await settle()
            broker.make_deaf()

            async def break_soon() -> None:
                await anyio.sleep(1)
                broker.cut()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(break_soon)
                with pytest.raises(ConnectionLost):
                    await wait()
            await anyio.sleep(5)
            receiver.resume()


async def test_what_is_opened_while_the_connection_is_away_waits_for_it(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        broker.cut()
        await settle()
        assert not connection.status.up
        before = anyio.current_time()
        sender = await connection.open_sender("/queues/q")
        assert anyio.current_time() - before == pytest.approx(1.0, abs=0.1)
        assert await sender.send(Message(b"x")) == Accepted()


async def test_settings_granted_while_away_hold_afterwards(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        broker.cut()
        await settle()
        receiver.grant(3)
        await anyio.sleep(2)
        assert receiver.link_credit == 3


async def test_requests_work_again(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        assert (await connection.request("GET", "/queues/q")).status == 200
        broker.cut()
        await settle()  # the client notices the loss, and what follows waits for the next connection
        assert (await connection.request("GET", "/queues/q")).status == 200


async def test_a_request_whose_answer_the_loss_swallowed_is_told(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        await connection.request("GET", "/queues/q")
        broker.make_deaf()

        async def break_soon() -> None:
            await anyio.sleep(1)
            broker.cut()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(break_soon)
            with pytest.raises(ConnectionLost, match="whether DELETE /queues/q was served is not known"):
                await connection.request("DELETE", "/queues/q")


async def test_closing_while_the_connection_is_away(library):
    async with connected(reconnect=PATIENT) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.down = True
        broker.cut()
        await settle()
        await sender.close()
        await connection.close()
    assert broker.opened <= 2
