"""``headgate trace frames`` with clients of both protocols, in other processes and in this one."""

import json

import pytest
import trio

from amqp10.cli.exits import Exit
from amqp10.client import Message, connect
from tests.kit.command_line import HEADGATE, run_process, start


def test_a_connection_that_there_is_not(headgate):
    ran = headgate("trace", "frames", "c999999")
    assert (ran.code, ran.err) == (Exit.NOT_FOUND, "headgate: there is no connection 'c999999'\n")


@pytest.mark.parametrize("words", [("--seconds", "0"), ("--count", "0"), ("--seconds", "-1")])
def test_an_end_that_makes_no_sense(words, headgate):
    assert headgate("trace", "frames", "c1", *words).code is Exit.USAGE


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give a connection, or a link with --link"),
        (("c2", "--link", "c1/0/0"), "link c1/0/0 is not one of connection c2"),
    ],
)
def test_a_connection_that_is_not_clear(words, says, headgate):
    ran = headgate("trace", "frames", *words)
    assert (ran.code, says in ran.err) == (Exit.USAGE, True)


def test_a_link_that_there_is_not(headgate):
    ran = headgate("trace", "frames", "--link", "c999999/0/0")
    assert (ran.code, "'c999999/0/0'" in ran.err) == (Exit.NOT_FOUND, True)


@pytest.mark.slow
async def test_the_frames_of_one_link_of_two(broker_url):
    async with connect(broker_url) as client:
        senders = []
        for name in ("one", "two"):
            await client.request("PUT", f"/queues/traced-{name}", {})
            senders.append(await client.open_sender(f"/queues/traced-{name}"))
        links = (await client.request("GET", "/headgate/links")).body["items"]
        (row,) = [row for row in links if row["address"] == "/queues/traced-two"]
        options = ["--link", row["identity"], "--count", "3", "--all", "--json"]
        trace = start(*HEADGATE, "trace", "frames", *options, url=broker_url)
        try:
            while trace.poll() is None:
                for sender in senders:
                    await sender.send(Message(body="x"))
                await trio.sleep(0.1)
            out, err = trace.communicate()
        finally:
            trace.kill()
    assert (trace.returncode, err) == (Exit.DONE, "")
    shown = [json.loads(line) for line in out.splitlines()]
    sides = {"out": ("channel", "handle"), "in": ("remote_channel", "remote_handle")}
    for each in shown:
        channel, handle = sides[each["direction"]]
        assert (each["channel"], each["fields"]["handle"]) == (row[channel], row[handle])
    assert "transfer" in {each["name"] for each in shown}


def whole_exchange(out: str, answer: str) -> list[str]:
    """The lines from the first request to the last answer: a trace may begin between a request and its answer."""
    lines = out.splitlines()
    return lines[1:] if answer in lines[0] else lines[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
async def test_what_a_client_and_the_broker_say(as_json, broker_url):
    async with connect(broker_url) as client:
        await client.request("PUT", "/queues/traced", {})
        sender = await client.open_sender("/queues/traced")
        links = (await client.request("GET", "/headgate/links")).body["items"]
        (identity,) = {row["connection"] for row in links if row["address"] == "/queues/traced"}
        options = ["--json"] if as_json else []
        trace = start(*HEADGATE, "trace", "frames", identity, "--count", "3", "--all", *options, url=broker_url)
        try:
            while trace.poll() is None:
                await sender.send(Message(body="SECRET" * 10))
                await trio.sleep(0.1)
            out, err = trace.communicate()
        finally:
            trace.kill()
    assert (trace.returncode, err) == (Exit.DONE, "")
    assert "SECRET" not in out
    first, second = whole_exchange(out, "disposition")
    if as_json:
        sent, answered = json.loads(first), json.loads(second)
        assert (sent["name"], sent["direction"], sent["channel"]) == ("transfer", "in", sent["channel"])
        assert sent["fields"]["payload_bytes"] > 60
        assert (answered["name"], answered["direction"]) == ("disposition", "out")
        assert answered["fields"]["state"] == {"type": "accepted"}
    else:
        assert " transfer handle=" in first
        assert " > " in first
        assert " < " in second
        assert "state=accepted()" in second


@pytest.mark.slow
async def test_a_connection_that_ends(broker_url):
    async with connect(broker_url) as client:
        rows = (await client.request("GET", "/headgate/connections")).body["items"]
        own = max(rows, key=lambda row: row["accepted_at"])["identity"]
        await client.request("PUT", f"/headgate/connections/{own}/frames")
    async with connect(broker_url) as other:
        shown = (await other.request("GET", f"/headgate/connections/{own}/frames")).body
    assert shown["open"] is False
    assert shown["frames"][-1][2] is True  # the close of the broker is the last frame


@pytest.mark.slow
def test_methods_of_amqp091(broker_url):
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    try:
        channel = connection.channel()
        rows = json.loads(run_process(*HEADGATE, "connections", "list", "--json", url=broker_url).out)
        (identity,) = [row["identity"] for row in rows if row["protocol"] != "amqp-1.0"]
        trace = start(*HEADGATE, "trace", "frames", identity, "--count", "5", "--all", url=broker_url)
        while trace.poll() is None:
            channel.queue_declare("traced-091", exclusive=True)
            connection.sleep(0.1)
        out, _ = trace.communicate()
    finally:
        connection.close()
    assert [line.split()[1:] for line in whole_exchange(out, "queue.declare-ok")] == [
        [">", "1", "queue.declare"],
        ["<", "1", "queue.declare-ok"],
    ] * 2
