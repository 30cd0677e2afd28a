"""What a handler gets and what happens when it raises: threads, objects as bodies, retries, the log, dead letters."""

import logging
from dataclasses import dataclass, field

import anyio
import pydantic
import pytest

from amqp10.client import Backoff
from amqp10.services import BadBody, CallResult, Commands, RemoteError, ServiceRequest
from amqp10.services.counts import CommandCounts
from tests.kit.both_libraries import settle
from tests.kit.services import Together, together

pytestmark = pytest.mark.slow


@dataclass
class Line:
    article: str
    pieces: int = 1


@dataclass
class Order:
    customer: str
    lines: list[Line] = field(default_factory=list)


class Price(pydantic.BaseModel):
    total: float
    currency: str = "EUR"


async def calling(kit: Together, commands: Commands, **chosen: object):
    """A host with these commands, and a service that calls it."""
    await kit.open("SHOP", "host1", commands, **chosen)
    return await kit.open("WEB", "host1")


async def test_a_body_is_an_object_on_both_sides(library):
    commands = Commands()

    @commands.command("price")
    async def price(request: ServiceRequest, order: Order) -> Price:
        assert isinstance(order.lines[0], Line)
        return Price(total=sum(line.pieces for line in order.lines))

    async with together() as kit:
        web = await calling(kit, commands)
        order = Order("me", [Line("tea", 2), Line("cup")])
        assert await web.call("SHOP", "price", order, answer=Price) == Price(total=3.0)
        assert await web.call("SHOP", "price", order) == {"total": 3.0, "currency": "EUR"}
        with pytest.raises(BadBody, match="no Line: article: Field required"):
            await web.call("SHOP", "price", order, answer=Line)


async def test_a_body_that_is_wrong_is_the_mistake_of_the_caller(library, caplog):
    commands = Commands()

    @commands.command("price", retries=Backoff(attempts_max=9))
    async def price(request: ServiceRequest, order: Order) -> object:
        pytest.fail("executed")

    async with together() as kit:
        web = await calling(kit, commands)
        for body, problem in [({"lines": []}, "customer: Field required"), (b"x", "is no Order"), (5, "is no Order")]:
            with pytest.raises(RemoteError, match=problem) as raised:
                await web.call("SHOP", "price", body)
            assert raised.value.condition == "services:bad-body"
    assert caplog.records == []


def test_a_second_parameter_that_nothing_can_be_read_into_is_refused():
    def unreadable(request: ServiceRequest, number: int) -> None:
        pass

    with pytest.raises(ValueError, match="'number' of the handler of 'count' is no dataclass"):
        Commands().add("count", unreadable)


async def test_what_a_handler_raises_is_logged_on_its_host_with_the_traceback(library, caplog):
    commands = Commands()

    @commands.command("fail")
    async def fail(request: ServiceRequest) -> None:
        raise LookupError(f"no {request.body}")

    @commands.command("refuse")
    async def refuse(request: ServiceRequest) -> None:
        raise RemoteError("shop:sold-out", "there are none left")

    async with together() as kit:
        web = await calling(kit, commands)
        for body in range(20):
            with pytest.raises(RemoteError, match=f"LookupError: no {body}"):
                await web.call("SHOP", "fail", body)
        with pytest.raises(RemoteError, match="none left"):
            await web.call("SHOP", "refuse")
        [first] = caplog.records
        assert (first.name, first.levelno) == ("amqp10.services", logging.ERROR)
        assert first.getMessage() == "the command 'fail' of SHOP.host1 has failed"
        assert first.exc_info is not None
        assert first.exc_info[2] is not None
        assert "in fail" in caplog.text, "the traceback leads to the handler"
        await anyio.sleep(1)
        with pytest.raises(RemoteError):
            await web.call("SHOP", "fail", "more")
        assert caplog.records[-1].getMessage().endswith("has failed; 19 failures before it were not logged")


async def test_a_handler_that_raises_is_called_again_after_growing_delays(library):
    commands, times = Commands(), []

    @commands.command("charge", retries=Backoff(first_s=1, longest_s=8, attempts_max=3))
    async def charge(request: ServiceRequest) -> object:
        times.append(anyio.current_time())
        if len(times) < 4:
            raise ConnectionError("not now")
        return "done"

    async with together() as kit:
        web = await calling(kit, commands)
        began = anyio.current_time()
        assert await web.call("SHOP", "charge") == "done"
        assert [round(time - began, 3) for time in times] == [0, 1, 3, 7]
        [host] = await web.discover("SHOP")
        counts = host.commands["charge"]
        assert (counts.requests, counts.errors, counts.retried, round(counts.longest_s)) == (1, 0, 3, 7)


async def test_retries_end_with_their_number_with_the_time_and_with_an_answer(library):
    commands, called = Commands(), []

    def add(name: str, error: Exception, retries: Backoff) -> None:
        async def handler(request: ServiceRequest) -> None:
            called.append(name)
            raise error

        commands.add(name, handler, retries=retries)

    add("number", KeyError("x"), Backoff(first_s=1, attempts_max=2))
    add("time", KeyError("x"), Backoff(first_s=2, longest_s=2))
    add("answer", RemoteError("shop:no", "no"), Backoff(first_s=1))
    async with together() as kit:
        web = await calling(kit, commands)
        for name, calls in (("number", 3), ("time", 3), ("answer", 1)):
            called.clear()
            with pytest.raises(RemoteError):
                await web.call("SHOP", name, time_out_s=6)
            assert len(called) == calls


async def test_what_no_retry_helps_is_a_dead_letter(library):
    commands = Commands()

    @commands.command("charge", retries=Backoff(first_s=1, attempts_max=2))
    async def charge(request: ServiceRequest) -> None:
        raise ConnectionError("never")

    async with together(dead_letter_queue="shop.dead") as kit:
        web = await calling(kit, commands)
        await web.cast("SHOP", "charge", "of any host")
        await web.cast("SHOP", "charge", "of this host", host="host1")
        await anyio.sleep(2)
        assert kit.queue("shop.dead")["messages_ready"] == 0
        await anyio.sleep(2)
        assert kit.queue("shop.dead")["messages_ready"] == 2
        receiver = await web.connection.open_receiver("/queues/shop.dead")
        bodies = [(await receiver.receive()).message.body for _ in range(2)]
        assert sorted(map(str, bodies)) == ["of any host", "of this host"]


async def test_the_hosts_say_who_they_are_and_how_they_are(library):
    well, ill = Commands(), Commands()
    well.add("work", lambda request: None, quick=True)
    ill.add("work", lambda request: {}["missing"], quick=True)
    ill.check_health(lambda: "the disk is full")

    @well.check_health
    async def look() -> None:
        await anyio.sleep(0.2)

    async with together() as kit:
        await kit.open("SHOP", "host1", well)
        await kit.open("SHOP", "host2", ill)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        for host in ("host1", "host2"):
            web.call_back("SHOP", "work", host=host, callback=answers.append)
        await anyio.sleep(9.5)
        began = anyio.current_time()
        one, two = await web.discover("SHOP", seconds=0.5)
        assert anyio.current_time() - began == pytest.approx(0.5)
        assert (one.host, one.healthy, two.host, two.problem) == ("host1", True, "host2", "the disk is full")
        assert (one.commands["work"].requests, one.commands["work"].errors) == (1, 0)
        assert (two.commands["work"].errors, two.commands["work"].last_error) == (1, "'missing'")
        assert one.up_s == pytest.approx(9.5, abs=0.5)
        found = await web.discover()
        assert [(each.type, each.host) for each in found] == [
            ("SHOP", "host1"),
            ("SHOP", "host2"),
            ("WEB", "host1"),
        ]
        assert await web.discover("UNKNOWN") == []
        await settle()
        assert (web.in_flight, web.answers_dropped) == (0, 0)


async def test_a_health_check_that_raises_is_a_problem(library):
    commands = Commands()

    @commands.check_health
    def look() -> None:
        raise OSError("no database")

    async with together() as kit:
        shop = await kit.open("SHOP", "host1", commands)
        assert (await shop.describe()).problem == "OSError: no database"


def test_what_the_counts_let_into_the_log():
    counts = CommandCounts()
    assert [counts.may_log(now, 1.0) for now in (5.0, 5.5, 5.9, 6.0, 6.5)] == [0, None, None, 2, None]
