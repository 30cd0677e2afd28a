"""Sending: confirms in ranges, link credit, and what becomes of messages when a link, session or connection ends."""

import anyio
import pytest

from amqp10.client import (
    Backoff,
    FateRange,
    LinkClosed,
    Message,
    MessageTooLarge,
    Sent,
    SessionClosed,
    Uncertain,
    Unsent,
)
from amqp10.wire.messaging import Accepted, Rejected, Released
from amqp10.wire.sections import Properties
from tests.kit.both_libraries import settle
from tests.kit.settings import make_settings
from tests.kit.stream_broker import URL, connect, connected, stream_broker
from tests.kit.wire import numbered

ACCEPTED = Accepted()


async def test_one_message(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        assert await sender.send(Message(b"hello")) == ACCEPTED
        assert broker.broker.ready() == 1
        assert (sender.posted, sender.unsettled) == (1, 0)


async def test_many_messages_have_one_range_when_all_are_accepted(library):
    """There are far more messages than the broker's link credit of 170, which is topped up on the way."""
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        assert await sender.send_many(Message(body) for body in numbered(5000)) == [FateRange(0, 4999, ACCEPTED)]
        assert broker.broker.ready() == 5000


async def test_encoded_bytes_are_sent_as_they_are_and_bodies_are_not_mistaken_for_them(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender("/queues/q")
        assert await sender.send(Message(b"hello").encode()) == ACCEPTED
        with pytest.raises(ValueError, match=r"write Message\(b'…'\)"):
            await sender.send(b"hello")


async def test_a_post_waits_for_link_credit_and_no_longer(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        assert sender.link_credit == 170
        broker.broker.stall()
        receipt = await sender.post(Message(body) for body in numbered(255))
        assert (len(receipt), receipt.done, sender.unsettled) == (255, False, 255)
        with anyio.move_on_after(60) as scope:
            await sender.post([Message(b"one more")])
        assert scope.cancelled_caught
        assert sender.posted == 255
        broker.broker.recover()
        broker.pump()
        assert await receipt.fates() == [FateRange(0, 254, ACCEPTED)]
        assert await sender.send(Message(b"one more")) == ACCEPTED


async def test_without_waiting_it_is_all_or_nothing(library):
    async with connected(unsettled_max=200) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        assert sender.room == 170
        with pytest.raises(anyio.WouldBlock):
            sender.post_nowait([Message(b"x")] * 171)
        assert (sender.posted, sender.room) == (0, 170)
        empty, most = sender.post_nowait([]), sender.post_nowait([Message(b"x")] * 169)
        assert (empty.done, len(empty), most.done, len(most)) == (True, 0, False, 169)
        assert (sender.posted, sender.unsettled, sender.room) == (169, 169, 1)
        await settle()
        assert sender.room == 200 - 169, "more link credit came; now unsettled_max is the bound"
        broker.broker.recover()
        broker.pump()
        assert await most.fates() == [FateRange(0, 168, ACCEPTED)]
        assert await empty.fates() == []
        assert await sender.send(Message(b"numbers go on")) == ACCEPTED
        assert sender.posted == 170


async def test_a_post_that_does_not_wait_does_not_overtake_one_that_waits(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.post, [Message(b"many")] * 300)
            await settle()
            broker.broker.recover()
            assert (sender.posting, sender.room) == (True, 0)
            with pytest.raises(anyio.WouldBlock):
                sender.post_nowait([Message(b"one")])
            broker.pump()
        assert len(sender.post_nowait([Message(b"one")])) == 1


async def test_without_waiting_there_is_no_room_while_the_connection_is_away(library):
    async with connected(reconnect=Backoff(first_s=1.0)) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.cut()
        await settle()
        assert sender.room == 0
        with pytest.raises(anyio.WouldBlock):
            sender.post_nowait([Message(b"one")])
        await anyio.sleep(5)
        assert await sender.post_nowait([Message(b"one")]).fates() == [FateRange(0, 0, ACCEPTED)]
        await sender.close()
        with pytest.raises(LinkClosed, match="was closed"):
            sender.post_nowait([])


async def test_without_waiting_a_message_that_is_too_large_takes_nothing_along(library):
    small = make_settings(amqp10={"max_message_size": 1000})
    async with stream_broker(small) as broker, connect(URL, broker.settings()) as connection:
        sender = await connection.open_sender("/queues/q")
        await settle()
        with pytest.raises(MessageTooLarge):
            sender.post_nowait([Message(b"small"), Message(bytes(2000))])
        assert (sender.posted, sender.unsettled) == (0, 0)
        assert await sender.send(Message(b"small")) == ACCEPTED


async def test_the_last_link_credit_is_used_without_waiting_for_more(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        with anyio.fail_after(1):
            await sender.post(Message() for _ in range(169))
            await sender.post([Message()])
            await sender.post([])
        assert sender.link_credit == 0


async def test_posts_of_several_tasks_are_served_in_order(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        firsts: list[int] = []

        async def post(n: int) -> None:
            firsts.append((await sender.post(Message(b"%d" % n) for _ in range(100))).first)

        async with anyio.create_task_group() as tasks:
            for n in range(3):
                tasks.start_soon(post, n)
                await settle()
            broker.broker.recover()
            broker.pump()
        assert firsts == [0, 100, 200]


async def test_the_user_bounds_what_is_unsettled(library):
    async with connected(unsettled_max=5) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.broker.stall()
        with anyio.move_on_after(10):
            await sender.post(Message() for _ in range(6))
        assert (sender.posted, sender.unsettled) == (5, 5)


async def test_the_reason_why_the_broker_makes_us_wait(library):
    """The broker gives the reason once, after 50 ms, and says once that it has ended."""
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        assert sender.waiting_reason is None
        broker.broker.raise_alarm("memory")
        broker.pump()
        await anyio.sleep(2)
        assert sender.waiting_reason == "memory"
        receipt = await sender.post([Message(b"waits")])
        await anyio.sleep(2)
        assert (receipt.done, sender.waiting_reason) == (False, "memory")
        broker.broker.clear_alarm("memory")
        broker.pump()
        assert await receipt.fates() == [FateRange(0, 0, ACCEPTED)]
        await anyio.sleep(2)
        assert sender.waiting_reason is None


async def test_a_message_that_no_queue_wants_is_released(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender("/exchanges/amq.direct/nowhere")
        assert await sender.send(Message(b"x")) == Released()


async def test_the_anonymous_terminus_and_ranges_of_different_outcomes(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender(None)

        def to(address: str) -> Message:
            return Message(b"x", properties=Properties(to=address))

        there, nowhere = to("/queues/q"), to("/exchanges/amq.direct/nowhere")
        fates = await sender.send_many([there, there, nowhere, there])
        assert fates == [FateRange(0, 1, ACCEPTED), FateRange(2, 2, Released()), FateRange(3, 3, ACCEPTED)]
        missing = await sender.send(Message(b"no address"))
        assert isinstance(missing, Rejected)


async def test_a_large_message_travels_in_many_frames(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender("/queues/q")
        receiver = await connection.open_receiver("/queues/q")
        body = bytes(range(256)) * 8192  # 2 MiB: more than the engine lets wait for the stream
        assert await sender.send(Message(body)) == ACCEPTED
        assert (await receiver.receive()).message.body == body


async def test_a_message_that_is_too_large_is_not_sent(library):
    small = make_settings(amqp10={"max_message_size": 1000})
    async with stream_broker(small) as broker, connect(URL, broker.settings()) as connection:
        sender = await connection.open_sender("/queues/q")
        with pytest.raises(MessageTooLarge, match="at most 1000"):
            await sender.send(Message(b"x" * 2000))
        assert await sender.send(Message(b"x" * 900)) == ACCEPTED
        assert broker.broker.ready() == 1


async def test_settled_messages_have_the_fate_of_having_been_sent(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q", settled=True)
        assert await sender.send_many(Message() for _ in range(1000)) == [FateRange(0, 999, Sent())]
        await settle()
        assert broker.broker.ready() == 1000


async def test_an_address_that_does_not_exist_is_refused_with_the_reason(library):
    async with connected() as (_, connection):
        with pytest.raises(LinkClosed, match="no queue 'nope'") as caught:
            await connection.open_sender("/queues/nope")
        assert caught.value.condition == "amqp:not-found"
        assert (await connection.open_sender("/queues/q")).status.up


async def test_a_queue_that_is_deleted_takes_the_sender_with_it(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.stall()
        receipt = await sender.post([Message(b"x")])
        await settle()
        broker.broker.engine.delete_queue("q", broker.broker)
        broker.pump()
        (fate,) = await receipt.fates()
        assert not isinstance(fate.fate, Accepted)
        with pytest.raises(LinkClosed) as caught:
            await sender.send(Message(b"y"))
        assert caught.value.condition == "amqp:resource-deleted"


async def test_closing_with_open_outcomes_leaves_them_uncertain(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.broker.stall()
        receipt = await sender.post([Message(b"x")])
        await settle()
        await sender.close()
        assert await receipt.fates() == [FateRange(0, 0, Uncertain("the sender to /queues/q was closed"))]
        assert broker.broker.engine.snapshot("publishers") == []
        with pytest.raises(LinkClosed, match="was closed"):
            await sender.post([Message()])


async def test_messages_that_never_left_are_unsent_not_uncertain(library):
    """An alarm has closed the window: the client has link credit and cannot send."""
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        broker.broker.raise_alarm()
        broker.pump()
        await settle()
        receipt = await sender.post(Message() for _ in range(3))
        broker.cut()
        (fate,) = await receipt.fates()
        assert (fate.first, fate.last) == (0, 2)
        assert isinstance(fate.fate, Unsent)


async def test_a_session_that_ends_takes_its_links_and_no_others(library):
    async with connected() as (_, connection):
        session = await connection.begin_session()
        inside, outside = await session.open_sender("/queues/q"), await connection.open_sender("/queues/q")
        session.close()
        with pytest.raises(SessionClosed):
            await inside.send(Message())
        with pytest.raises(SessionClosed):
            await session.open_sender("/queues/q")
        assert await outside.send(Message()) == ACCEPTED


async def test_giving_up_while_attaching_gives_up_the_link(library):
    async with connected() as (broker, connection):
        session = await connection.begin_session()
        broker.make_deaf()
        with anyio.move_on_after(1):
            await session.open_sender("/queues/q")
        await broker.hear_again()
        await anyio.sleep(1)
        assert broker.broker.engine.snapshot("publishers") == []
        assert session.status.up


async def test_a_drain_of_ours_is_answered(library):
    """The broker never drains its publishers. A receiver that does gets its answer behind the messages that were
    sent."""
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        await settle()
        end = broker.served[0].peer
        link = next(link for session in end.front_end.connection.sessions for link in session.links)
        link.grant(100, drain=True)
        broker.broker.touch(end)
        broker.pump()
        await settle()
        assert (link.credit.link_credit, sender.link_credit) == (0, 0)


async def test_outcomes_of_an_exchange_with_a_binding(library):
    async with connected() as (broker, connection):
        await connection.request(
            "POST", "/bindings", {"source": "amq.direct", "destination_queue": "q", "binding_key": "k"}
        )
        sender = await connection.open_sender("/exchanges/amq.direct/k")
        assert await sender.send(Message(b"x")) == ACCEPTED
        assert broker.broker.ready() == 1
