"""``headgate links`` and ``headgate sessions`` with the link of a consumer in another process."""

import json

import pytest

from amqp10.cli.exits import Exit
from tests.kit.command_line import HEADGATE, start

MISSING = "c999999/0/0"


@pytest.mark.parametrize(
    "words",
    [
        ("pause", MISSING),
        ("resume", MISSING),
        ("set-credit", MISSING, "5"),
        ("set-credit", MISSING, "--reset"),
        ("close", "c1/0/99"),
    ],
)
@pytest.mark.parametrize("noun", ["links", "link"])
def test_a_link_that_there_is_not(words, noun, headgate):
    ran = headgate(noun, *words)
    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "")
    assert words[1] in ran.err


def test_a_session_that_there_is_not(headgate):
    ran = headgate("sessions", "close", "c999999/0")
    assert (ran.code, ran.err) == (Exit.NOT_FOUND, "headgate: there is no 'c999999/0'\n")


@pytest.mark.parametrize("words", [(), ("5", "--reset"), ("0",), ("-1",), ("many",)])
def test_a_bound_that_makes_no_sense(words, headgate):
    assert headgate("links", "set-credit", MISSING, *words).code is Exit.USAGE


@pytest.mark.slow
def test_a_consumer_is_paused_resumed_and_closed(headgate, broker_url):
    headgate("queues", "declare", "paused")
    consume = start(*HEADGATE, "consume", "/queues/paused", url=broker_url)
    try:
        headgate("publish", "/queues/paused", "first")
        assert consume.stdout.readline() == "first\n"
        rows = json.loads(headgate("links", "list", "--json").out)
        (link,) = [row["identity"] for row in rows if row["address"] == "/queues/paused"]
        assert headgate("links", "pause", link).out == f"link {link} is paused\n"
        headgate("publish", "/queues/paused", "second")
        assert json.loads(headgate("queues", "show", "paused", "--json").out)["messages_ready"] == 1
        said = f"link {link} is limited to 5: link credit of a publisher, unsettled messages of a consumer\n"
        assert headgate("links", "set-credit", link, "5").out == said
        (row,) = [row for row in json.loads(headgate("links", "list", "--json").out) if row["identity"] == link]
        assert (row["bound_by_operator"], row["unsettled_max"]) == (5, 5)
        said = f"link {link} is limited by configuration and policies alone\n"
        assert headgate("links", "set-credit", link, "--reset").out == said
        assert headgate("links", "resume", link).out == f"link {link} goes on\n"
        assert consume.stdout.readline() == "second\n"
        assert headgate("links", "close", link, "--reason", "moving house").out == f"link {link} is being closed\n"
        _, complaint = consume.communicate(timeout=10)
        assert consume.returncode == Exit.REFUSED
        assert "moving house" in complaint
    finally:
        consume.kill()
        consume.communicate()
