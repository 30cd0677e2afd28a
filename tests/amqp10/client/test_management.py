"""Requests of the Trio client to the management node."""

import anyio
import pytest

from amqp10.client import Message, RequestRefused, TimedOut
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import connected


async def test_a_queue_is_made_shown_and_deleted(library):
    async with connected() as (broker, connection):
        assert (await connection.request("PUT", "/queues/new", {"arguments": {"x-max-length": 5}})).status == 201
        shown = (await connection.request("GET", "/queues/new")).body
        assert isinstance(shown, dict)
        assert (shown["name"], shown["arguments"]) == ("new", {"x-max-length": 5})
        assert (await connection.request("DELETE", "/queues/new")).body == {"message_count": 0}
        assert broker.broker.engine.snapshot("queues", "new") == []


async def test_a_refusal_has_a_status_and_the_broker_s_words(library):
    async with connected() as (_, connection):
        with pytest.raises(RequestRefused, match="nope") as caught:
            await connection.request("GET", "/queues/nope")
        assert caught.value.status == 404
        with pytest.raises(RequestRefused) as caught:
            await connection.request("BREW", "/queues/q")
        assert caught.value.status == 405


async def test_requests_of_several_tasks_get_their_own_answers(library):
    async with connected() as (_, connection):
        names = [f"queue-{n}" for n in range(20)]
        shown: dict[str, object] = {}

        async def make(name: str) -> None:
            answer = await connection.request("PUT", f"/queues/{name}", {})
            assert isinstance(answer.body, dict)
            shown[name] = answer.body["name"]

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(make, name)
        assert shown == {name: name for name in names}


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(library):
    async with connected(request_time_out_s=3.0) as (broker, connection):
        await connection.request("GET", "/queues/q")
        broker.make_deaf()
        with pytest.raises(TimedOut, match="was not answered within 3 s"):
            await connection.request("GET", "/headgate/status")
        await broker.hear_again()
        shown = (await connection.request("GET", "/queues/q")).body
        assert isinstance(shown, dict)
        assert shown["name"] == "q"


async def test_an_alarm_does_not_keep_an_operator_out(library):
    """The alarm closes the windows of sessions that publish; requests have a session of their own."""
    async with connected() as (broker, connection):
        sender = await connection.open_sender("/queues/q")
        assert (await connection.request("PUT", "/headgate/alarms/memory")).status == 204
        receipt = await sender.post([Message(b"waits")])
        await settle()
        assert not receipt.done
        assert (await connection.request("DELETE", "/headgate/alarms/memory")).status == 204
        assert len(await receipt.fates()) == 1
        assert broker.broker.ready() == 1


async def test_the_session_of_requests_can_be_ended_and_begins_again(library):
    async with connected() as (broker, connection):
        (served,) = broker.served

        def sessions() -> int:
            return len(served.peer.front_end.snapshot("sessions", broker.broker.now))

        connection.end_management()
        for _ in range(2):
            assert (await connection.request("GET", "/queues/q")).status == 200
            assert sessions() == 1
            connection.end_management()
            await settle()
            assert sessions() == 0
