"""Sending: links for destinations, messages that are sent again, and messages that can never be sent."""

from dataclasses import replace

import anyio
import pytest

from amqp10.client import Message, connect
from amqp10.frontend.incoming import publisher_link
from amqp10.services import Busy, CallResult, NotSent, ServiceOptions, Unroutable
from amqp10.wire.sections import Properties
from core.errors import HomeLost
from core.interface import Confirmed, Outcome
from tests.kit.both_libraries import settle
from tests.kit.services import Executed, Slow, Together, together
from tests.kit.settings import make_settings
from tests.kit.stream_broker import PATIENT, URL, stream_broker

pytestmark = pytest.mark.slow


async def test_a_destination_without_link_credit_holds_up_no_other(library):
    async with together() as kit:
        await kit.hosts("REPO", 1)
        await kit.hosts("CTRL", 1)
        web = await kit.open("WEB", "host1")
        kit.broker.broker.stall("REPO")
        answers: list[CallResult] = []
        for number in range(1000):
            web.call_back("REPO", "note", number, callback=answers.append)
        await settle()
        for _ in range(10):
            assert await web.call("CTRL", "note", b"x") == ["host1", b"x"]
        assert (answers, web.waiting()["/exchanges/services/REPO"][0] > 500) == ([], True)
        kit.broker.broker.recover("REPO")
        kit.broker.pump()
        await settle()
        assert len(answers) == 1000


@pytest.mark.parametrize("host", ["host1", None])
async def test_a_call_that_was_lost_on_the_way_is_sent_again(library, host):
    """The broker has not read the call when the connection breaks, and the client cannot know that."""
    async with together(sole_host=True) as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        await web.call("REPO", "note", "first", host=host)
        kit.broker.make_deaf()
        answers: list[CallResult] = []
        for number in range(3):
            web.call_back("REPO", "note", number, host=host, callback=answers.append)
        await settle()
        kit.broker.cut()
        await anyio.sleep(3)
        assert [answer.get() for answer in answers] == [["host1", number] for number in range(3)]
        assert repo.bodies == ["first", 0, 1, 2]


async def test_a_call_that_had_arrived_and_is_sent_again_is_executed_once(library):
    """The queue has the call, and its outcome is lost with the connection."""
    async with together(sole_host=True) as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        await web.call("REPO", "note", "first", host="host1")
        kit.broker.broker.stall("REPO.host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", "x", host="host1", callback=answers.append)
        await settle()
        kit.broker.cut()
        kit.broker.broker.recover("REPO.host1")
        await anyio.sleep(3)
        assert ([answer.get() for answer in answers], repo.bodies) == ([["host1", "x"]], ["first", "x"])


async def test_a_call_that_the_queue_may_have_is_sent_again_and_executed_once(library):
    """The broker answers with modified, as a node does whose way to the queue was lost."""
    async with together(sole_host=True) as kit:
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        await web.call("REPO", "note", "first", host="host1")
        confirms = kit.broker.broker.engine.machinery.confirms
        links = {publisher_link(one.reference).link.end.remote.target.address: one for one in confirms.publishers}
        publisher = links[_addresses("REPO", 1).pop()]
        kit.broker.broker.stall("REPO.host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", "x", host="host1", callback=answers.append)
        await settle()
        publisher.mailbox.put(Confirmed(publisher, 1, 1, Outcome.UNCERTAIN, HomeLost("lost")))
        confirms.leave(publisher)
        kit.broker.pump()
        await settle()
        kit.broker.broker.recover("REPO.host1")
        kit.broker.pump()
        await settle()
        assert ([answer.get() for answer in answers], repo.bodies) == ([["host1", "x"]], ["first", "x"])
        assert kit.queue("REPO.host1")["accepted"] == 3


async def test_a_message_that_is_too_large_is_told_and_its_neighbours_go(library):
    async with (
        stream_broker(make_settings(amqp10={"max_message_size": 1000})) as broker,
        anyio.create_task_group() as tasks,
    ):
        kit = Together(broker, tasks, ServiceOptions(client=broker.settings(reconnect=PATIENT)))
        (repo,) = await kit.hosts("REPO", 1)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        for size in (1, 2000, 2):
            web.call_back("REPO", "note", bytes(size), callback=answers.append)
        await settle()
        assert sorted(type(answer.error).__name__ for answer in answers) == ["NoneType", "NoneType", "NotSent"]
        assert repo.bodies == [bytes(1), bytes(2)]
        with pytest.raises(NotSent, match="1000"):
            await web.cast("REPO", "note", bytes(1001))
        tasks.cancel_scope.cancel()


async def test_a_link_that_is_idle_makes_room_for_another_destination(library):
    async with together() as kit:
        await kit.hosts("REPO", 4)
        web = await kit.open("WEB", "host1", destinations_max=2)
        for host in ("host1", "host2", "host3", "host4", "host1"):
            assert await web.call("REPO", "note", b"", host=host) == [host, b""]
        await settle()
        assert len([link for link in kit.peers("links") if link["address"] in _addresses("REPO", 4)]) == 2


async def test_when_no_link_is_idle_a_new_destination_is_refused(library):
    async with together() as kit:
        await kit.hosts("REPO", 2)
        web = await kit.open("WEB", "host1", destinations_max=1)
        kit.broker.broker.stall("REPO.host1")
        web.call_back("REPO", "note", host="host1", callback=lambda answer: None)
        with pytest.raises(Busy, match="destinations_max"):
            await web.call("REPO", "note", host="host2")


async def test_answers_to_a_caller_that_has_ended_are_lost_and_the_request_is_settled(library):
    async with together() as kit:
        slow = Slow()
        repo = await kit.open("REPO", "host1", slow)
        async with connect(URL, kit.broker.settings()) as other:
            receiver = await other.open_receiver(None)
            sender = await other.open_sender("/exchanges/services/REPO")
            await sender.send(Message(b"x", properties=Properties(subject="note", reply_to=receiver.address)))
        slow.may_end.set()
        await settle()
        assert (repo.answers_lost, kit.queue("REPO")["messages_unacknowledged"]) == (1, 0)
        assert kit.queue("REPO")["accepted"] == 1


async def test_an_answer_that_the_broker_has_not_taken_leaves_its_request_to_the_next(library):
    async with together() as kit:
        executed = Executed("host1")
        repo = await kit.open("REPO", "host1", executed)
        web = await kit.open("WEB", "host1")
        kit.broker.broker.stall("WEB.host1")
        web.call_back("REPO", "note", b"x", callback=lambda answer: None)
        await settle()
        assert executed.bodies == [b"x"]
        await kit.close(repo)
        assert (kit.queue("REPO")["messages_ready"], kit.queue("REPO")["accepted"]) == (1, 0)


async def test_an_exchange_that_is_missing_is_declared_and_a_queue_that_has_gone_is_not(library):
    async with together() as kit:
        web = await kit.open("WEB", "host1")
        kit.broker.broker.engine.delete_exchange("services.groups")
        kit.broker.pump()
        await web.broadcast("note")
        with pytest.raises(Unroutable):
            await web.cast("REPO", "note")


async def test_a_service_that_ends_tells_its_calls(library):
    async with together() as kit:
        await kit.open("REPO", "host1", Slow())
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", callback=answers.append)
        await settle()
        kit.broker.make_deaf()
        web.call_back("REPO", "note", host="host1", callback=answers.append)  # there is no link, and there will be none
        await settle()
        await kit.close(web)
        assert sorted(type(answer.error).__name__ for answer in answers) == ["CommandUncertain", "NotSent"]


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="destinations_max is 0; it must be above 0"):
        replace(ServiceOptions(), destinations_max=0)
    with pytest.raises(ValueError, match="host_requests_waiting_max is -1"):
        ServiceOptions(host_requests_waiting_max=-1)


def _addresses(of_type: str, n: int) -> set[str]:
    return {f"/exchanges/services/{of_type}.host{number}" for number in range(1, n + 1)}
