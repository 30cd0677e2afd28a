"""Batches: many sends and one wait, and an error that names what was not accepted."""

import anyio
import pytest

from amqp10.client import Backoff, LinkClosed, Message, MessageTooLarge, NotAccepted, SendBatch, Uncertain, Unsent
from amqp10.client_core.not_accepted import REFUSED_MAX
from amqp10.wire.messaging import Released
from amqp10.wire.sections import Properties
from tests.kit.both_libraries import settle
from tests.kit.settings import make_settings
from tests.kit.stream_broker import URL, connect, connected, stream_broker
from tests.kit.wire import numbered


async def test_a_batch_returns_when_all_are_accepted(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        async with SendBatch(sender) as batch:
            await batch.send_many(Message(body) for body in numbered(600))
            assert batch.accepted < batch.count == 600
        assert (batch.accepted, broker.broker.ready()) == (600, 600)
        async with SendBatch(sender) as empty:
            pass
        assert (empty.accepted, empty.count) == (0, 0)


async def test_a_batch_waits_for_link_credit_and_is_never_far_ahead_of_it(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        batch = SendBatch(sender, within_s=60)
        with pytest.raises(NotAccepted, match=r"there was no answer within 60 s; .*unconfirmed-limit") as caught:
            await batch.send_many(Message(body) for body in numbered(2000))
        assert batch.count <= 512, "one run is on its way, and one is gathered"
        assert (caught.value.count, caught.value.accepted) == (batch.count, 0)
        assert isinstance(caught.value.refused[0].fate, Uncertain)


async def test_the_error_names_the_messages(library):
    """The messages go to the anonymous terminus, and two of them to a queue that is not there."""
    async with connected() as (_, connection):
        sender = await connection.open_sender(None)
        messages = [
            Message(body, properties=Properties(to="/queues/q", message_id=f"m{place}"))
            for place, body in enumerate(numbered(300))
        ]
        for place in (7, 280):
            messages[place] = Message(properties=Properties(to="/exchanges/amq.direct/no", message_id=f"m{place}"))
        with pytest.raises(NotAccepted) as caught:
            async with SendBatch(sender) as batch:
                await batch.send_many(messages)
        error = caught.value
        assert [(one.position, one.message, one.fate) for one in error.refused] == [
            (7, messages[7], Released()),
            (280, messages[280], Released()),
        ]
        assert str(error).startswith(
            "2 of 300 messages were not accepted; the first: message 7 (message-id 'm7') was rel"
        )
        assert (error.count, error.accepted) == (2, 298)


async def test_an_error_of_very_many_messages_names_the_first(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender("/exchanges/amq.direct/nowhere")
        with pytest.raises(NotAccepted) as caught:
            async with SendBatch(sender) as batch:
                await batch.send_many(Message(body).encode() for body in numbered(1000))
        assert (caught.value.count, len(caught.value.refused)) == (1000, REFUSED_MAX)


async def test_a_rejected_message_has_the_condition_of_the_broker(library):
    async with connected() as (broker, connection):
        broker.broker.queue("full", x_max_length=1, x_overflow="reject-publish")
        sender = await connection.open_sender("/queues/full")
        with pytest.raises(NotAccepted, match="was rejected") as caught:
            async with SendBatch(sender) as batch:
                await batch.send_many(map(Message, numbered(3)))
        assert caught.value.condition == "amqp:resource-limit-exceeded"


async def test_a_message_that_is_too_large_is_named_at_once_and_the_others_go_on(library):
    async with (
        stream_broker(make_settings(amqp10={"max_message_size": 1000})) as broker,
        connect(URL, broker.settings()) as client,
    ):
        sender = await client.open_sender("/queues/q")
        async with SendBatch(sender) as batch:
            await batch.send(Message(b"small"))
            with pytest.raises(MessageTooLarge, match="message 1 has 1008 bytes; the broker takes at most 1000"):
                await batch.send(Message(bytes(1000)))
            await batch.send(Message(b"small"))
        assert broker.broker.ready() == 2


async def test_what_was_certainly_not_sent_is_sent_again(library):
    """The alarm closes the window, so messages with link credit stay here until the connection breaks."""
    async with connected(reconnect=Backoff(first_s=1.0)) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.raise_alarm("memory")
        broker.pump()
        await settle()
        batch = SendBatch(sender)
        await batch.send_many(Message(body) for body in numbered(100))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batch.finish)
            await anyio.sleep(1)
            assert sender.unsettled == 100
            broker.cut()
            broker.broker.clear_alarm("memory")
            broker.pump()
        assert (batch.accepted, broker.broker.ready()) == (100, 100)


async def test_a_sender_that_is_over_ends_the_batch(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        batch = SendBatch(sender)
        await batch.send(Message(b"too late"))
        await sender.close()
        with pytest.raises(NotAccepted) as caught:
            await batch.finish()
        assert isinstance(caught.value.__cause__, LinkClosed)
        assert isinstance(caught.value.refused[0].fate, Uncertain | Unsent)
        assert broker.broker.ready() == 0


async def test_an_error_in_the_block_comes_out_and_nothing_waits(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        messages = iter([Message(b"gathered, and never sent"), b"no message"])
        with pytest.raises(ValueError, match="an encoded message"):
            async with SendBatch(sender) as batch:
                await batch.send_many(messages)
        assert broker.broker.ready() == 0
