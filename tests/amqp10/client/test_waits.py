"""Why a link waits: what the client tells of it, and whom."""

import logging

import anyio
import pytest

from amqp10.client import LinkWait, Message, SendTimedOut
from amqp10.client_core.reasons import REMEDIES
from core.interface import FlowReason
from tests.kit.stream_broker import connected

ALARM = LinkWait("memory", "alarm memory", 1_700_000_000.0)


def test_each_reason_that_a_client_is_told_has_a_remedy():
    """The others are known to the broker only (docs/flow-reasons.md, "told to the client")."""
    never = {"stage-credit", "session-window", "link-credit", "socket", "no-message"}
    assert set(REMEDIES) == {reason.value for reason in FlowReason} - never


def test_a_wait_is_a_sentence():
    assert str(ALARM) == (
        "memory (alarm memory) since 22:13:20 UTC; consume what is queued, or give the broker more memory"
    )
    assert str(LinkWait("of-a-newer-broker")) == "of-a-newer-broker"


async def test_a_task_follows_why_a_sender_waits(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        seen: list[LinkWait | None] = []

        async def follow() -> None:
            nonlocal seen
            async for wait in sender.waits():
                seen += [wait]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.sleep(1)
            assert seen == []
            broker.broker.raise_alarm("memory")
            broker.pump()
            await anyio.sleep(2)
            assert seen == [ALARM]
            broker.broker.clear_alarm("memory")
            broker.pump()
            await anyio.sleep(2)
            assert seen[1:] == [None]
            tasks.cancel_scope.cancel()


async def test_the_hook_is_told_of_both_directions_and_of_a_lost_link(library):
    told: list[tuple[str | None, str | None]] = []
    async with connected(when_waiting=lambda address, wait: told.append((address, wait and wait.reason))) as (
        broker,
        connection,
    ):
        broker.broker.queue("one", x_single_active_consumer=True)
        await connection.open_receiver("/queues/one")
        second = await connection.open_receiver("/queues/one")
        await connection.open_sender("/queues/q")
        broker.broker.raise_alarm("disk")
        broker.pump()
        await anyio.sleep(2)
        assert sorted(told) == [("/queues/one", "inactive"), ("/queues/q", "disk")]
        assert second.wait is not None
        assert (second.waiting_reason, second.wait.culprit) == ("inactive", "active consumer of queue one")
        del told[:]
        broker.cut()
        await anyio.sleep(2)
        assert sorted(told) == [("/queues/one", None), ("/queues/q", None)]


async def test_a_hook_that_fails_is_logged_and_the_connection_goes_on(library, caplog: pytest.LogCaptureFixture):
    def fail(address: str | None, wait: LinkWait | None) -> None:
        raise RuntimeError("mine")

    async with connected(when_waiting=fail) as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        with caplog.at_level(logging.ERROR, "amqp10.client"):
            broker.broker.raise_alarm("memory")
            broker.pump()
            await anyio.sleep(2)
        assert "has failed" in caplog.text
        broker.broker.clear_alarm("memory")
        broker.pump()
        await sender.send(Message(b"goes on"))


async def test_a_send_that_takes_too_long_says_whether_it_was_sent_and_why(library):
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        broker.broker.stall()
        with pytest.raises(SendTimedOut, match=r"was sent, and has no outcome within 5 s$") as caught:
            await sender.send(Message(b"x"), within_s=5)
        assert caught.value.sent
        await sender.post([Message(b"x")] * 254)
        with pytest.raises(
            SendTimedOut, match=r"was not sent, .* 5 s; the broker .*: unconfirmed-limit \(queue q\)"
        ) as caught:
            await sender.send(Message(b"x"), within_s=5)
        assert not caught.value.sent
        assert sender.posted == 255
        broker.broker.recover()
        broker.pump()
        await sender.send(Message(b"x"), within_s=5)
