"""What a process does with requests that the process before it may have executed."""

import anyio
import pytest

from amqp10.client import Message
from amqp10.services import CallResult, CommandUncertain
from amqp10.services.envelope import as_resent
from amqp10.services.markers import QueueMarker
from amqp10.wire.sections import Properties
from tests.kit.both_libraries import settle
from tests.kit.services import Executed, Slow, Together, together


def test_only_the_newest_marker_counts():
    marker = QueueMarker()
    assert not marker.passed
    marker.sent(b"1")
    assert not marker.received(b"another process's", redelivered=False)
    assert not marker.passed
    assert not marker.received(b"1", redelivered=False)
    assert marker.passed
    marker.sent(b"2")
    assert not marker.received(b"1", redelivered=False)
    assert not marker.passed


def test_a_marker_that_may_have_been_delivered_before_is_sent_again():
    marker = QueueMarker()
    marker.sent(b"1")
    assert marker.received(b"1", redelivered=True)
    assert not marker.passed


async def die_with_two_requests_in_hand(kit: Together, host: str | None) -> tuple[list[CallResult], Executed]:
    """A process of REPO.host1 that has a "note" and a "safe" in hand dies; another one of the same name begins."""
    first, second = Slow(), Executed("host1")
    dying = await kit.open("REPO", "host1", first)
    web = await kit.open("WEB", "host1")
    answers: list[CallResult] = []
    for command in ("note", "safe"):
        web.call_back("REPO", command, command, host=host, callback=answers.append)
    await settle()
    assert sorted(map(str, first.bodies)) == ["note", "safe"]
    await kit.close(dying)
    await kit.open("REPO", "host1", second)
    assert await web.call("REPO", "note", "later", host=host) == ["host1", "later"]
    return answers, second


@pytest.mark.slow
@pytest.mark.parametrize(("host", "sole_host"), [("host1", False), ("host1", True), (None, True), (None, False)])
async def test_what_the_process_before_has_had_in_hand_is_uncertain(library, host, sole_host):
    async with together(sole_host=sole_host) as kit:
        answers, second = await die_with_two_requests_in_hand(kit, host)
        assert second.bodies == ["safe", "later"]
        assert [type(answer.error) for answer in answers] == [CommandUncertain, type(None)]


@pytest.mark.slow
async def test_a_process_that_waited_does_not_trust_its_window(library):
    """Its marker was sent while another process consumed the queue."""
    async with together() as kit:
        first, second = Slow(), Executed("host1")
        dying = await kit.open("REPO", "host1", first)
        await kit.open("REPO", "host1", second)
        web = await kit.open("WEB", "host1")
        answers: list[CallResult] = []
        web.call_back("REPO", "note", b"x", host="host1", callback=answers.append)
        await settle()
        assert first.bodies == [b"x"]
        await kit.close(dying)
        assert (second.bodies, [type(answer.error) for answer in answers]) == ([], [CommandUncertain])


@pytest.mark.slow
async def test_a_process_that_waited_trusts_its_window_when_it_has_had_its_turn(library):
    async with together() as kit:
        leaving = await kit.open("REPO", "host1", Executed("first"))
        waiting = await kit.open("REPO", "host1", Executed("second"))
        web = await kit.open("WEB", "host1")
        assert (leaving.serving.host_marker.passed, waiting.serving.host_marker.passed) == (True, False)
        await kit.close(leaving)
        assert await web.call("REPO", "note", b"x", host="host1") == ["second", b"x"]
        await settle()
        assert waiting.serving.host_marker.passed


@pytest.mark.slow
@pytest.mark.parametrize("sole_host", [True, False])
async def test_after_a_loss_only_a_sole_host_trusts_its_window(library, sole_host):
    """While the connection was lost, a message came that is marked as a possible duplicate."""
    async with together(sole_host=sole_host) as kit:
        (repo,) = await kit.hosts("REPO", 1)
        kit.broker.cut()
        peer = kit.broker.broker.connect()
        peer.begin()
        peer.attach_sender("/queues/REPO.host1")
        twice = Message(b"x", properties=Properties(message_id="mine", subject="note"))
        peer.transfer(payload=as_resent(twice.encode()))
        await anyio.sleep(3)
        assert repo.bodies == ([b"x"] if sole_host else [])
        assert kit.queue("REPO.host1")["rejected"] == (0 if sole_host else 1)
