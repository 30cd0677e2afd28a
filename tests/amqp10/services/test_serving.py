"""Requests in hand: which of them are executed once, again, on another host, or not at all."""

from functools import partial

import anyio
import pytest

from amqp10.client import Message, connect
from amqp10.services import Busy, CallResult, Commands, CommandUncertain, RemoteError, ServiceRequest
from amqp10.wire.sections import Header, Properties
from tests.kit.both_libraries import settle
from tests.kit.services import Executed, Slow, Together, together
from tests.kit.stream_broker import URL

pytestmark = pytest.mark.slow


async def lose_a_host_with_a_request_in_hand(
    kit: Together, command: str, **chosen: object
) -> tuple[CallResult, Executed]:
    """The first of two hosts has taken a call and dies. Returns what the caller gets, and what the second host
    executes."""
    first, second = Slow(), Executed("host2")
    answers: list[CallResult] = []
    dying = await kit.open("REPO", "host1", first)
    web = await kit.open("WEB", "host1")
    web.call_back("REPO", command, b"x", callback=answers.append, **chosen)  # type: ignore[arg-type]
    await settle()
    assert first.bodies == [b"x"]
    await kit.open("REPO", "host2", second)
    await kit.close(dying)
    return answers[0], second


async def test_of_several_hosts_a_second_one_does_not_execute_again_what_it_should_not(library):
    async with together() as kit:
        answer, second = await lose_a_host_with_a_request_in_hand(kit, "note")
        assert second.bodies == []
        with pytest.raises(CommandUncertain, match="'note' came a second time"):
            answer.get()


async def test_a_command_that_is_idempotent_is_executed_by_the_next_host(library):
    async with together() as kit:
        answer, second = await lose_a_host_with_a_request_in_hand(kit, "safe")
        assert (answer.get(), second.bodies) == (["host2", b"x"], [b"x"])


async def test_a_call_that_is_idempotent_is_executed_by_the_next_host(library):
    async with together() as kit:
        answer, second = await lose_a_host_with_a_request_in_hand(kit, "note", idempotent=True)
        assert (answer.get(), second.bodies) == (["host2", b"x"], [b"x"])


@pytest.mark.parametrize(("host", "sole_host"), [("host1", False), (None, True), (None, False)])
async def test_row_0_12_a_duplicate_is_known_by_its_id(library, host, sole_host):
    """The connection is cut while a request is executed. The request comes again, to the same process."""
    async with together(sole_host=sole_host) as kit:
        slow = Slow()
        await kit.open("REPO", "host1", slow)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", host=host, callback=answers.append)
        await settle()
        kit.broker.cut()
        await anyio.sleep(1.5)
        assert (slow.bodies, answers) == ([b"x"], [])
        slow.may_end.set()
        await settle()
        assert ([answer.get() for answer in answers], slow.bodies) == ([b"x"], [b"x"])
        queue = kit.queue("REPO" if host is None else "REPO.host1")
        assert (queue["returned"], queue["messages_unacknowledged"], queue["messages_ready"]) == (1, 0, 0)


async def test_what_was_executed_and_comes_again_is_not_executed_again(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        async with connect(URL, kit.broker.settings()) as other:
            sender = await other.open_sender("/exchanges/services/REPO.host1")
            message = Message(
                b"x", properties=Properties(message_id="mine", subject="note"), header=Header(durable=True)
            )
            for _ in range(3):
                await sender.send(message)
        await settle()
        assert repo.bodies == [b"x"]
        assert kit.queue("REPO.host1")["messages_unacknowledged"] == 0


async def test_any_client_can_call_and_its_message_id_comes_back_as_it_was(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        async with connect(URL, kit.broker.settings()) as other:
            receiver = await other.open_receiver(None)
            sender = await other.open_sender("/exchanges/services/REPO")
            properties = Properties(message_id=b"\x00\x01", subject="note", reply_to=receiver.address)
            await sender.send(Message("x", properties=properties))
            answer = (await receiver.receive()).message
            assert answer.properties is not None
            assert (answer.properties.correlation_id, answer.body) == (b"\x00\x01", ["host1", "x"])


async def test_requests_without_a_message_id_are_answered_each(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        async with connect(URL, kit.broker.settings()) as other:
            receiver = await other.open_receiver(None)
            sender = await other.open_sender("/exchanges/services/REPO")
            properties = Properties(subject="note", reply_to=receiver.address)
            await sender.send_many(Message(number, properties=properties) for number in range(5))
            assert [(await receiver.receive()).message.body for _ in range(5)] == [["host1", n] for n in range(5)]


async def test_row_0_11_a_request_is_settled_only_when_the_broker_has_its_answer(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        kit.broker.broker.stall("WEB.host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", callback=answers.append)
        await settle()
        assert (repo.bodies, answers, kit.queue("REPO")["messages_unacknowledged"]) == ([b"x"], [], 1)
        kit.broker.broker.recover("WEB.host1")
        kit.broker.pump()
        await settle()
        assert ([answer.get() for answer in answers], kit.queue("REPO")["messages_unacknowledged"]) == (
            [["host1", b"x"]],
            0,
        )


async def test_row_0_11_a_host_with_enough_in_hand_gets_no_more_and_the_others_do(library):
    async with together() as kit:
        slow, (quick,) = Slow(), await kit.hosts("REPO", 1)
        await kit.open("REPO", "slow", slow, type_requests_max=2)
        web = await kit.open("WEB", "host1")
        for number in range(20):
            web.call_back("REPO", "note", number, callback=lambda answer: None)
            await settle()
        assert (len(slow.bodies), len(quick.bodies)) == (2, 18)


async def test_a_host_that_is_full_says_so(library):
    async with together(host_requests_max=2, host_requests_waiting_max=1) as kit:
        slow = Slow()
        await kit.open("REPO", "host1", slow)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        for number in range(5):
            web.call_back("REPO", "note", number, host="host1", callback=answers.append)
        await settle()
        assert sorted(slow.bodies) == [0, 1]
        assert [type(answer.error) for answer in answers] == [Busy, Busy]
        assert "host_requests_waiting_max" in str(answers[0].error)
        slow.may_end.set()
        await settle()
        assert sorted(answer.get() for answer in answers[2:]) == sorted(slow.bodies) == [0, 1, 2]


async def test_a_thousand_quick_commands_behind_a_slow_one_are_executed_when_it_ends(library):
    async with together(host_requests_max=1) as kit:
        slow = Slow()
        noted: list[object] = []
        slow.add("quick", lambda request: noted.append(request.body), quick=True)
        await kit.open("REPO", "host1", slow)
        web = await kit.open("WEB", "host1")
        web.call_back("REPO", "note", b"", host="host1", callback=lambda answer: None)
        await settle()
        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(partial(web.cast, "REPO", "quick", number, host="host1"))
        await settle()
        assert noted == []
        slow.may_end.set()
        await settle()
        assert sorted(noted) == list(range(1000))  # the task group began the casts in any order
        assert kit.queue("REPO.host1")["messages_unacknowledged"] == 0


async def test_a_queue_that_is_full_says_so(library):
    async with together(type_queue_length_max=2, type_requests_max=1) as kit:
        slow = Slow()
        await kit.open("REPO", "host1", slow)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        for number in range(4):
            web.call_back("REPO", "note", number, callback=answers.append)
            await settle()
        assert [type(answer.error) for answer in answers] == [Busy]
        slow.may_end.set()
        await settle()
        assert [answer.get() for answer in answers[1:]] == [0, 1, 2]


async def test_a_message_that_cannot_be_decoded_is_rejected(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        async with connect(URL, kit.broker.settings()) as other:
            sender = await other.open_sender("/exchanges/services/REPO.host1")
            number_as_key = b"\x00\x53\x74\xc1\x05\x02\x54\x01\x54\x01"  # in the application properties
            await sender.send(number_as_key + b"\x00\x53\x75\xa0\x00")
        await settle()
        assert kit.queue("REPO.host1")["rejected"] == 1
        assert await web.call("REPO", "note", b"x", host="host1") == ["host1", b"x"]
        assert repo.bodies == [b"x"]


async def test_a_body_that_has_no_encoding_is_told(library):
    async with together() as kit:
        commands = Commands()
        commands.add("odd", lambda request: object(), quick=True)
        await kit.open("REPO", "host1", commands)
        web = await kit.open("WEB", "host1")
        with pytest.raises(RemoteError, match="EncodeError"):
            await web.call("REPO", "odd")


async def test_an_answer_that_comes_too_late_is_dropped(library):
    async with together() as kit:
        slow = Slow()
        await kit.open("REPO", "host1", slow)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", callback=answers.append, time_out_s=1.5)
        await anyio.sleep(1.7)
        slow.may_end.set()
        await settle()
        assert (len(answers), web.answers_dropped) == (1, 1)


async def test_handed_over_the_next_process_goes_on_in_order(library):
    """No call is lost, executed twice or overtaken while a caller keeps calling."""
    async with together() as kit:
        first, second = Executed("first"), Executed("second")
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        leaving = await kit.open("REPO", "host1", first)
        await kit.open("REPO", "host1", second)
        for number in range(300):
            web.call_back("REPO", "note", number, host="host1", callback=answers.append)
            if number == 100:
                await leaving.hand_over()
            await anyio.lowlevel.checkpoint()
        await settle()
        assert [answer.get() for answer in answers] == [
            *(["first", number] for number in first.bodies),
            *(["second", number] for number in second.bodies),
        ]
        assert [*first.bodies, *second.bodies] == list(range(300))
        assert (first.bodies != [], second.bodies != []) == (True, True)


async def test_what_is_in_hand_is_finished_before_the_hand_over(library):
    async with together() as kit:
        commands = Commands()

        @commands.command("chain")
        async def chain(request: ServiceRequest) -> object:
            return await request.service.call("STORE", "note", request.body)

        store = Slow()
        await kit.open("STORE", "host1", store)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        leaving = await kit.open("REPO", "host1", commands)
        async with anyio.create_task_group() as tasks:
            web.call_back("REPO", "chain", b"x", callback=answers.append)
            await settle()
            tasks.start_soon(leaving.hand_over)
            await anyio.sleep(1)
            assert answers == []
            store.may_end.set()
        assert [answer.get() for answer in answers] == [b"x"]
