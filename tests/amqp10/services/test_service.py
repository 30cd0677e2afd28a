"""Which service gets a message, and which answer goes to which caller: the rows of the documents, on a real broker
behind memory streams."""

from dataclasses import replace

import anyio
import pytest

from amqp10.client import Backoff, ConnectionLost
from amqp10.services import (
    Busy,
    CallResult,
    CallTimedOut,
    Commands,
    HostRing,
    NotSent,
    RemoteError,
    ServiceRequest,
    Unroutable,
)
from tests.kit.both_libraries import settle
from tests.kit.services import together

pytestmark = pytest.mark.slow


async def test_row_0_3_a_call_returns_at_once_and_its_answer_comes_to_the_right_host(library):
    async with together() as kit:
        first, second = await kit.hosts("REPO", 2)
        web, _ = await kit.open("WEB", "host1"), await kit.open("WEB", "host2")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", host="host2", callback=answers.append)
        assert (answers, second.bodies) == ([], [])
        await settle()
        assert [answer.get() for answer in answers] == [["host2", b"x"]]
        assert (first.bodies, second.bodies) == ([], [b"x"])
        assert (kit.published("WEB.host1"), kit.published("WEB.host2")) == (1, 0)
        assert kit.published("WEB") == 0


async def test_row_0_4_a_cast_is_executed_once_and_has_no_answer(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        assert await web.cast("REPO", "note", b"x") is None
        await settle()
        assert repo.bodies == [b"x"]
        assert kit.published("WEB.host1") == kit.published("WEB") == 0


async def test_row_0_7_a_stateful_service_is_called_on_the_host_that_has_the_key(library):
    async with together() as kit:
        hosts = {each.host: each for each in await kit.hosts("REPO", 3)}
        ring = HostRing(hosts)
        web = await kit.open("WEB", "host1")
        keys = [f"user{number}" for number in range(20)]
        for key in keys:
            assert await web.call("REPO", "note", key, host=ring.host_of(key)) == [ring.host_of(key), key]
        for host, executed in hosts.items():
            assert executed.bodies == [key for key in keys if ring.host_of(key) == host]


@pytest.mark.parametrize("n", [2, 3, 5])
async def test_row_0_8_anycast_equal_shares(library, n):
    async with together() as kit:
        hosts = await kit.hosts("REPO", n)
        web = await kit.open("WEB", "host1")
        async with anyio.create_task_group() as tasks:
            for number in range(8 * n + 1):
                tasks.start_soon(web.call, "REPO", "note", number)
        shares = [len(each.bodies) for each in hosts]
        assert sum(shares) == 8 * n + 1
        assert max(shares) - min(shares) <= 1
        assert kit.published("WEB.host1") == 8 * n + 1


async def test_row_0_8_the_answer_may_go_to_any_host_of_the_type_that_asked(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        taken: dict[str, CallResult] = {}
        hosts: list[str] = []
        for host in ("host1", "host2"):
            commands = Commands()
            commands.take_answers(
                lambda identity, answer, host=host: (taken.update({identity: answer}), hosts.append(host))
            )
            web = await kit.open("WEB", host, commands)
        asked = {await web.ask("REPO", "note", number): number for number in range(4)}
        await settle()
        assert {identity: answer.get() for identity, answer in taken.items()} == {
            identity: ["host1", number] for identity, number in asked.items()
        }
        assert sorted(hosts) == ["host1", "host1", "host2", "host2"]
        assert kit.published("WEB") == 4


async def test_row_0_9_multicast_reaches_every_host_of_the_type_and_no_other(library):
    async with together() as kit:
        control = await kit.hosts("CTRL", 3)
        (web,) = await kit.hosts("WEB", 1)
        sender = await kit.open("ADMIN", "host1")
        await sender.multicast("CTRL", "note", b"config")
        await settle()
        assert [each.bodies for each in control] == [[b"config"]] * 3
        assert web.bodies == []
        assert [kit.published(name) for name in ("CTRL", "WEB", "WEB.host1", "ADMIN.host1")] == [0, 0, 0, 0]


async def test_row_0_10_broadcast_reaches_every_host_of_every_type(library):
    async with together() as kit:
        everybody = await kit.hosts("CTRL", 2) + await kit.hosts("WEB", 2) + await kit.hosts("REPO", 1)
        sender = await kit.open("ADMIN", "host1")
        await sender.broadcast("note", b"stop")
        await settle()
        assert [each.bodies for each in everybody] == [[b"stop"]] * 5
        assert [kit.published(name) for name in ("CTRL", "WEB", "REPO")] == [0, 0, 0]


async def test_row_0_12_chained_calls_keep_the_first_caller_waiting_without_a_thread(library):
    async with together() as kit:
        control, repo = Commands(), Commands()
        threads: list[int] = []

        @repo.command("read")
        async def read(request: ServiceRequest) -> object:
            await anyio.sleep(5)
            return [request.body, "from REPO"]

        @control.command("get")
        async def get(request: ServiceRequest) -> object:
            answer = await request.service.call("REPO", "read", request.body)
            threads.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
            return answer

        await kit.open("REPO", "host1", repo)
        await kit.open("CTRL", "host1", control)
        web = await kit.open("WEB", "host1")
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(web.call, "CTRL", "get", number)
        assert anyio.current_time() - began == pytest.approx(5)
        assert threads == [0] * 50


async def test_row_0_12_a_call_ends_when_its_time_is_over(library):
    async with together() as kit:
        commands = Commands()
        commands.add("sleep", lambda request: request.answer_later(), quick=True)
        await kit.open("REPO", "host1", commands)
        web = await kit.open("WEB", "host1")
        began = anyio.current_time()
        with pytest.raises(CallTimedOut, match="has not answered in time"):
            await web.call("REPO", "sleep", time_out_s=3)
        assert anyio.current_time() - began == pytest.approx(3)
        assert web.in_flight == 0


async def test_row_0_12_an_error_of_the_host_is_an_exception_of_the_caller(library):
    async with together() as kit:
        commands = Commands()

        @commands.command("divide", quick=True)
        def divide(request: ServiceRequest) -> object:
            assert isinstance(request.body, int)
            if request.body == 0:
                raise ZeroDivisionError("nothing is divided by 0")
            return 1 // request.body

        @commands.command("refuse")
        async def refuse(request: ServiceRequest) -> object:
            raise RemoteError("shop:sold-out", "there are none left")

        await kit.open("REPO", "host1", commands)
        web = await kit.open("WEB", "host1")
        for command, body, condition, text in [
            ("divide", 0, "services:failed", "ZeroDivisionError: nothing is divided by 0"),
            ("refuse", 0, "shop:sold-out", "there are none left"),
            ("other", 0, "services:no-such-command", "there is no command 'other' here"),
        ]:
            with pytest.raises(RemoteError) as raised:
                await web.call("REPO", command, body)
            assert (raised.value.condition, raised.value.text) == (condition, text)
        assert await web.call("REPO", "divide", 1) == 1


async def test_an_answer_may_be_given_later(library):
    async with together() as kit:
        kept: list[ServiceRequest] = []
        commands = Commands()

        @commands.command("ask", quick=True)
        def ask(request: ServiceRequest) -> None:
            request.answer_later()
            kept.append(request)

        await kit.open("REPO", "host1", commands)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "ask", callback=answers.append)
        web.call_back("REPO", "ask", callback=answers.append)
        await settle()
        assert answers == []
        kept[1].fail("shop:closed", "come tomorrow")
        kept[0].answer(["done"])
        kept[0].answer("only the first one counts")
        await settle()
        assert [type(answers[0].error), answers[1].body] == [RemoteError, ["done"]]


async def test_row_0_13_the_connection_is_used_again_and_made_anew(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        for _ in range(3):
            await web.call("REPO", "note", b"")
        assert kit.broker.opened == 2
        kit.broker.cut()
        await anyio.sleep(1.5)
        assert await web.call("REPO", "note", b"again") == ["host1", b"again"]
        assert (kit.broker.opened, len(repo.bodies)) == (4, 4)


async def test_row_0_13_what_a_broker_has_lost_is_declared_again(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        await web.call("REPO", "note", b"")
        engine = kit.broker.broker.engine
        for name in ("REPO", "REPO.host1", "WEB", "WEB.host1"):
            engine.delete_queue(name, None)
        engine.delete_exchange("services")
        kit.broker.pump()
        await anyio.sleep(10)
        assert await web.call("REPO", "note", b"again") == ["host1", b"again"]
        assert await web.call("REPO", "note", b"again", host="host1") == ["host1", b"again"]


async def test_row_0_17_what_no_queue_takes_is_raised(library):
    async with together() as kit:
        web = await kit.open("WEB", "host1")
        with pytest.raises(Unroutable, match=r"no queue takes messages to /exchanges/services/REPO\.host9"):
            await web.call("REPO", "note", host="host9")
        with pytest.raises(Unroutable):
            await web.cast("REPO", "note")
        with pytest.raises(Unroutable):
            await web.multicast("REPO", "note")
        assert web.in_flight == 0


async def test_row_0_18_what_no_queue_takes_is_sent_again_until_one_does(library):
    async with together(unroutable="resend", resend_delay_s=2.0) as kit:
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", host="host1", callback=answers.append)
        await anyio.sleep(5)
        (repo,) = await kit.hosts("REPO", 1)
        await anyio.sleep(2)
        assert [answer.get() for answer in answers] == [["host1", b"x"]]
        assert repo.bodies == [b"x"]


async def test_row_0_18_sent_again_in_vain_it_is_over_in_time(library):
    async with together(unroutable="resend") as kit:
        web = await kit.open("WEB", "host1")
        began = anyio.current_time()
        with pytest.raises(Unroutable, match="in time"):
            await web.call("REPO", "note", time_out_s=4.5)
        assert anyio.current_time() - began == pytest.approx(4.5)


async def test_a_caller_that_waits_for_link_credit_learns_why(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        await web.call("REPO", "note", b"")
        kit.broker.broker.raise_alarm("memory")
        kit.broker.pump()
        for _ in range(400):
            web.call_back("REPO", "note", b"", callback=lambda answer: None, time_out_s=3)
        await anyio.sleep(2)
        ((address, (waiting, reason)),) = web.waiting().items()
        assert (address, waiting > 0, reason) == ("/exchanges/services/REPO", True, "memory")
        with pytest.raises(NotSent, match="the broker says memory") as raised:
            await web.call("REPO", "note", b"", time_out_s=3)
        assert raised.value.reason == "memory"
        kit.broker.broker.clear_alarm("memory")
        kit.broker.pump()
        await web.call("REPO", "note", b"")
        assert len(repo.bodies) < 400


async def test_a_caller_that_gives_up_withdraws_calls_that_were_not_sent(library):
    async with together() as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        with anyio.move_on_after(0):
            await web.call("REPO", "note", b"never")
        await settle()
        assert (repo.bodies, web.in_flight) == ([], 0)


async def test_more_calls_than_in_flight_max_are_refused(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1", in_flight_max=2)
        for _ in range(2):
            web.call_back("REPO", "note", callback=lambda answer: None)
        with pytest.raises(Busy, match="in_flight_max allows 2"):
            await web.call("REPO", "note")
        await settle()
        await web.call("REPO", "note")


async def test_a_connection_that_is_lost_for_good_ends_the_service(library):
    async with together() as kit:
        client = replace(kit.options.client, reconnect=Backoff(attempts_max=0))

        async def lose() -> None:
            async with kit.alone("WEB", "host1", client=client) as web:
                kit.broker.cut()
                await web.call("REPO", "note")

        with pytest.raises(ConnectionLost):
            await lose()


async def test_an_error_in_the_block_comes_out_as_itself(library):
    async with together() as kit:
        with pytest.raises(KeyError):
            async with kit.alone("WEB", "host1"):
                raise KeyError("mine")
