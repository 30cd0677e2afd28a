"""Receiving: link credit set by the user, drain, pause, and outcomes for ranges of deliveries."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.client import Backoff, Delivery, LinkClosed, Message, Receiver, ReceiverOptions, TimedOut
from amqp10.wire.messaging import Error
from tests.kit.both_libraries import LIBRARIES, run, settle
from tests.kit.stream_broker import StreamBroker, connected
from tests.kit.wire import numbered

BY_HAND = ReceiverOptions(automatic=False)


def bodies(deliveries: list[Delivery]) -> list[object]:
    """The bodies of these deliveries."""
    return [delivery.message.body for delivery in deliveries]


def seen_by_the_broker(broker: StreamBroker) -> int:
    """The link credit of the only consumer, as the broker counts it."""
    (link,) = [
        row
        for served in broker.served
        for row in served.peer.front_end.snapshot("links", served.peer.broker.now)
        if row["direction"] == "out"
    ]
    assert isinstance(link["link_credit"], int)
    return link["link_credit"]


async def fill(broker: StreamBroker, n: int, first: int = 0) -> None:
    """Put numbered messages into the queue."""
    broker.broker.fill(numbered(n, first))
    broker.pump()
    await settle()


# --- link credit by hand ---------------------------------------------------------------------------------------------


async def test_nothing_comes_before_it_is_granted_and_not_more_than_that(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        await fill(broker, 10)
        assert (receiver.waiting, receiver.link_credit) == (0, 0)
        receiver.grant(3)
        await settle()
        assert bodies(receiver.receive_nowait(100)) == numbered(3)
        assert (receiver.link_credit, broker.broker.ready()) == (0, 7)


async def test_a_grant_sets_and_does_not_add(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        for n in (5, 5, 2, 7, 0, 4):
            receiver.grant(n)
            await settle()
            assert (receiver.link_credit, seen_by_the_broker(broker)) == (n, n)
        await fill(broker, 10)
        assert receiver.waiting == 4


async def test_link_credit_lowered_while_messages_are_on_their_way(library):
    """Messages that crossed our flow are taken, and no message comes after it."""
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(10)
        await settle()
        broker.broker.fill(numbered(20))
        receiver.grant(2)  # before the client has read the ten messages that have left
        broker.pump()
        await settle()
        assert bodies(receiver.receive_nowait(100)) == numbered(10)
        assert (receiver.link_credit, seen_by_the_broker(broker)) == (0, 0)
        receiver.grant(3)
        assert bodies(await receiver.receive_batch(100)) == numbered(3, 10)
        assert receiver.status.up


async def test_the_largest_link_credit(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(2**32 - 1)
        await fill(broker, 1000)
        assert len(receiver.receive_nowait(2000)) == 1000
        assert receiver.link_credit == seen_by_the_broker(broker) == 2**32 - 1 - 1000
        with pytest.raises(ValueError, match="uint"):
            receiver.grant(2**32)


async def test_an_echo_tells_what_is_available(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        await fill(broker, 10)
        receiver.grant(4, echo=True)
        await settle()
        assert receiver.available == 6


# --- automatic link credit --------------------------------------------------------------------------------------------


async def test_automatic_link_credit_is_200_and_again_below_100(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await settle()
        assert receiver.link_credit == 200
        await fill(broker, 100)
        receiver.receive_nowait(100)
        await settle()
        assert receiver.link_credit == 100
        await fill(broker, 1)
        receiver.receive_nowait(1)
        await settle()
        assert receiver.link_credit == seen_by_the_broker(broker) == 200


async def test_no_automatic_link_credit_while_messages_wait_for_the_user(library):
    """The number of messages that wait for a slow user is bounded: 200 at most, and what was granted before."""
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await fill(broker, 2000)
        stopped_at = receiver.waiting
        assert 200 <= stopped_at < 400
        await fill(broker, 1000)
        assert receiver.waiting == stopped_at
        received = 0
        while received < 3000:
            received += len(await receiver.receive_batch(50))
        assert receiver.waiting == 0


# --- drain, pause ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ready", "granted"), [(0, 10), (4, 10), (10, 10), (25, 10), (1000, 700)])
async def test_drain_brings_what_is_there_and_takes_the_rest_back(ready, granted, library):
    async with connected() as (broker, connection):
        await fill(broker, ready)
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(granted)
        came = min(ready, granted)
        assert await receiver.drain() == granted - came
        assert bodies(receiver.receive_nowait(2000)) == numbered(came)
        assert (receiver.link_credit, seen_by_the_broker(broker)) == (0, 0)
        await fill(broker, 5, first=ready)
        assert receiver.waiting == 0
        receiver.grant(1)
        assert bodies([await receiver.receive()]) == [b"%d" % came]


async def test_drain_without_link_credit_has_nothing_to_wait_for(library):
    async with connected() as (_, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        assert await receiver.drain() == 0


async def test_drain_gives_up_in_time_and_the_receiver_goes_on(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(5)
        await settle()
        broker.make_deaf()
        before = anyio.current_time()
        with pytest.raises(TimedOut, match="did not answer the drain within 2 s"):
            await receiver.drain(time_out_s=2.0)
        assert anyio.current_time() - before == pytest.approx(2.0)
        await broker.hear_again()
        await anyio.sleep(1)
        receiver.grant(5)
        await fill(broker, 1)
        assert bodies([await receiver.receive()]) == [b"0"]


async def test_pause_waits_until_nothing_is_on_its_way(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await settle()
        broker.broker.fill(numbered(50))  # was on its way when the pause began
        await receiver.pause()
        assert (receiver.waiting, receiver.link_credit, seen_by_the_broker(broker)) == (50, 0, 0)
        await fill(broker, 50, first=50)
        receiver.receive_nowait(50)
        await anyio.sleep(60)
        assert (receiver.waiting, receiver.link_credit) == (0, 0)
        receiver.resume()
        assert bodies(await receiver.receive_batch(100)) == numbered(50, 50)


async def test_resume_by_hand_gives_what_the_pause_took(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(7)
        await fill(broker, 3)
        await receiver.pause()
        receiver.resume()
        receiver.resume()
        await settle()
        assert receiver.link_credit == seen_by_the_broker(broker) == 4


async def test_granting_by_hand_ends_automatic_mode_and_any_pause(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await receiver.pause()
        receiver.grant(3)
        await fill(broker, 500)
        assert len(receiver.receive_nowait(500)) == 3
        await settle()
        assert (receiver.link_credit, seen_by_the_broker(broker)) == (0, 0)


async def test_a_broker_that_does_not_answer_a_pause(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        await settle()
        broker.make_deaf()
        with pytest.raises(TimedOut, match="did not answer the pause"):
            await receiver.pause(time_out_s=1.0)


# --- deliveries and outcomes -----------------------------------------------------------------------------------------


async def test_waiting_for_one_delivery_after_another(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        sender = await connection.open_sender("/queues/q")
        received: list[object] = []

        async def receive_three() -> None:
            async for delivery in receiver:
                received.append(delivery.message.body)
                delivery.accept()
                if len(received) == 3:
                    break

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive_three)
            for body in ("a", "b", "c"):
                await anyio.sleep(1)
                await sender.send(Message(body))
        await settle()
        assert received == ["a", "b", "c"]
        assert (broker.broker.ready(), broker.broker.unacknowledged()) == (0, 0)


async def receive_all(broker: StreamBroker, receiver: Receiver, n: int) -> list[Delivery]:
    """Fill the queue, and receive everything."""
    await fill(broker, n)
    return receiver.receive_nowait(n)


async def test_a_range_is_accepted_at_once_and_only_once(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        taken = await receive_all(broker, receiver, 10)
        assert [delivery.number for delivery in taken] == list(range(10))
        assert receiver.accept(2, 5) == 4
        assert receiver.accept(0, 7) == 4
        assert receiver.accept(0, 100) == 2
        assert receiver.accept(0, 100) == 0
        await settle()
        assert (receiver.unsettled, broker.broker.unacknowledged()) == (0, 0)


async def test_a_range_never_reaches_over_to_other_links_of_the_session(library):
    """Delivery-ids belong to the session, numbers to the receiver."""
    async with connected() as (broker, connection):
        broker.broker.queue("other")
        mine = await connection.open_receiver("/queues/q")
        others = await connection.open_receiver("/queues/other")
        for n in range(3):
            broker.broker.fill([b"mine"])
            broker.broker.fill([b"other"], "other")
            broker.pump()
            await settle()
            assert (mine.waiting, others.waiting) == (n + 1, n + 1)
        assert mine.accept(0, 2) == 3
        await settle()
        assert (broker.broker.unacknowledged("q"), broker.broker.unacknowledged("other")) == (0, 3)


async def test_released_messages_come_again_in_their_old_order(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(5)
        taken = await receive_all(broker, receiver, 5)
        assert receiver.release(1, 3) == 3
        receiver.grant(5)
        assert bodies(await receiver.receive_batch(5)) == numbered(3, 1)
        assert receiver.waiting == 0
        assert bodies(taken)[0] == b"0"


async def test_modified_counts_as_failed_and_may_exclude_this_link(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        other = await connection.open_receiver("/queues/q", options=BY_HAND)
        (delivery,) = await receive_all(broker, receiver, 1)
        delivery.modify()
        again = await receiver.receive()
        assert again.message.header is not None
        assert again.message.header.delivery_count == 1
        receiver.modify(again.number, undeliverable_here=True, annotations={"x-why": "not for me"})
        await settle()
        assert receiver.waiting == 0
        other.grant(1)
        elsewhere = await other.receive()
        assert elsewhere.message.annotations["x-why"] == "not for me"
        elsewhere.reject(Error(condition="x:unwanted"))
        await settle()
        assert (broker.broker.ready(), broker.broker.unacknowledged()) == (0, 0)


async def test_single_deliveries_can_be_given_any_outcome(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(3)
        accepted, rejected, released = await receive_all(broker, receiver, 3)
        accepted.accept()
        rejected.reject()
        released.release()
        await settle()
        assert (broker.broker.ready(), receiver.unsettled) == (1, 0)


@given(st.permutations(range(30)), st.data())
@settings(max_examples=15)  # each has a connection of its own
def test_deliveries_accepted_one_by_one_are_settled_in_ranges(order, data):
    """The user accepts in any order, and some deliveries twice, before anything is sent. The client sends as few
    dispositions as there are ranges."""
    taken = order[: data.draw(st.integers(0, 30))]

    async def accept() -> None:
        async with connected() as (broker, connection):
            receiver = await connection.open_receiver("/queues/q")
            deliveries = await receive_all(broker, receiver, 30)
            served = broker.served[0].peer.front_end.connection
            await settle()
            frames = served.frames_received
            for number in [*taken, *taken[:3]]:
                deliveries[number].accept()
            await settle()
            assert (receiver.unsettled, broker.broker.unacknowledged()) == (30 - len(taken), 30 - len(taken))
            gaps = sum(number - 1 not in taken for number in taken)
            assert served.frames_received - frames == gaps

    for library in LIBRARIES:
        run(library, accept)


async def test_an_accepted_delivery_has_its_outcome_before_anything_is_sent(library):
    """The outcome is fixed before anything is sent: no other outcome can be given, and closing anything sends it
    first."""
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        session = await connection.begin_session()
        broker.broker.queue("other")
        another = await session.open_receiver("/queues/other")
        deliveries = await receive_all(broker, receiver, 4)
        broker.broker.fill(numbered(2), "other")
        broker.pump()
        await settle()
        deliveries[1].accept()
        assert (receiver.unsettled, receiver.release(0, 1)) == (3, 1)
        deliveries[2].accept()
        assert receiver.release(2) == 0
        another.receive_nowait(1)[0].accept()
        session.close()
        deliveries[3].accept()
        await connection.close()
        assert broker.broker.unacknowledged() == 0
        assert (broker.broker.ready(), broker.broker.ready("other")) == (1, 1)


async def test_what_was_accepted_and_not_sent_before_the_connection_broke_comes_again(library):
    async with connected(reconnect=Backoff(first_s=0.1)) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        first, _ = await receive_all(broker, receiver, 2)
        first.accept()
        broker.cut()
        with anyio.fail_after(5):
            again = await receiver.receive_batch(2)
        assert bodies(again) == numbered(2)
        first.accept()
        await settle()
        assert receiver.unsettled == 2


async def test_what_came_settled_on_a_former_link_gives_the_present_one_no_link_credit(library):
    """The deliveries are kept, because they are not sent again. When the user takes them later, the client asks for no
    more."""
    options = ReceiverOptions(settled=True)
    async with connected(reconnect=Backoff(first_s=0.1)) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=options)
        await fill(broker, 150)
        broker.cut()
        await anyio.sleep(1)
        await fill(broker, 202, first=150)
        assert (receiver.waiting, receiver.link_credit) == (352, 99)
        assert bodies(receiver.receive_nowait(150)) == numbered(150)
        await settle()
        assert receiver.link_credit == 99, "202 of this link wait here untaken"
        assert bodies(receiver.receive_nowait(1000)) == numbered(202, 150)
        await settle()
        assert receiver.link_credit == 200


async def test_messages_that_come_settled_have_no_outcome(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=ReceiverOptions(settled=True))
        taken = await receive_all(broker, receiver, 3)
        assert all(delivery.settled for delivery in taken)
        assert (receiver.unsettled, receiver.accept(0, 2), broker.broker.unacknowledged()) == (0, 0, 0)


async def test_closing_gives_back_what_has_no_outcome(library):
    async with connected() as (broker, connection):
        receiver = await connection.open_receiver("/queues/q")
        (first, *_) = await receive_all(broker, receiver, 5)
        first.accept()
        await receiver.close()
        assert (broker.broker.ready(), broker.broker.unacknowledged()) == (4, 0)
        with pytest.raises(LinkClosed, match="was closed"):
            await receiver.receive()
        assert receiver.accept(0, 4) == 0


async def test_a_dynamic_node_is_named_by_the_broker(library):
    async with connected() as (_, connection):
        receiver = await connection.open_receiver(None)
        assert receiver.address is not None
        assert receiver.address.startswith("/queues/amq.dyn-")
        sender = await connection.open_sender(receiver.address)
        await sender.send(Message("reply"))
        assert (await receiver.receive()).message.body == "reply"


async def test_a_consumer_asks_for_its_priority(library):
    async with connected() as (broker, connection):
        low = await connection.open_receiver("/queues/q")
        high = await connection.open_receiver("/queues/q", options=ReceiverOptions(priority=5))
        await settle()
        await fill(broker, 20)
        assert (low.waiting, high.waiting) == (0, 20)


async def test_what_is_refused_or_deleted_ends_the_receiver(library):
    async with connected() as (broker, connection):
        with pytest.raises(LinkClosed, match="no queue 'nope'"):
            await connection.open_receiver("/queues/nope")
        receiver = await connection.open_receiver("/queues/q")
        await fill(broker, 3)
        broker.broker.engine.delete_queue("q", broker.broker)
        broker.pump()
        await settle()
        assert receiver.waiting == 0
        with pytest.raises(LinkClosed) as caught:
            await receiver.receive()
        assert caught.value.condition == "amqp:resource-deleted"


@pytest.mark.parametrize("limits", [{"buffered_messages_max": 100}, {"buffered_bytes_max": 100 * 1000}])
async def test_the_window_closes_while_too_much_waits_for_the_user(limits, library):
    """Whatever link credit the user gives, no more messages wait than the limit and one window."""
    async with connected(incoming_window=50, **limits) as (broker, connection):
        receiver = await connection.open_receiver("/queues/q", options=BY_HAND)
        receiver.grant(100_000)
        sent = [b"%04d" % n + b"x" * 996 for n in range(1000)]
        broker.broker.fill(sent)
        broker.pump()
        await settle()
        assert 100 <= receiver.waiting <= 150
        sender = await connection.open_sender("/queues/q", settled=True)
        assert await sender.post([Message(b"others on the session go on")])
        received: list[object] = []
        while len(received) < 1000:
            received += bodies(await receiver.receive_batch(10))
            assert receiver.waiting <= 150
        assert received == sent
