"""``headgate services``: it asks the hosts of services, and leaves nothing behind."""

import json
from collections.abc import Callable
from functools import partial

import pytest
import trio

from amqp10.cli.exits import Exit
from amqp10.services import Commands, Service
from tests.kit.command_line import Ran

Headgate = Callable[..., Ran]


async def asked(headgate: Headgate, url: str, *words: str) -> Ran:
    """What the command prints while two hosts of one service run, one of which is not well and has had two requests."""
    well, sick = Commands(), Commands()

    @sick.command("count")
    async def count(request: object) -> int:
        return 1

    @sick.check_health
    def check() -> str:
        return "the disk is full"

    async with (
        Service.open(url, type="SHOP", host="one", commands=well),
        Service.open(url, type="SHOP", host="two", commands=sick) as other,
    ):
        for _ in range(2):
            await other.call("SHOP", "count", host="two")
        return await trio.to_thread.run_sync(partial(headgate, "services", *words))


def test_hosts_say_how_they_are_and_what_they_have_done(headgate: Headgate, broker_url: str):
    ran = trio.run(asked, headgate, broker_url, "SHOP", "--json")
    assert ran.code is Exit.DONE, ran.err
    one, two = json.loads(ran.out)
    assert (one["type"], one["host"], one["problem"], one["commands"]) == ("SHOP", "one", None, {})
    assert (two["host"], two["problem"]) == ("two", "the disk is full")
    assert two["commands"]["count"]["requests"] == 2


def test_all_types_are_a_table_and_the_command_leaves_no_queue(headgate: Headgate, broker_url: str):
    header, *rows = trio.run(asked, headgate, broker_url).out.splitlines()
    assert header.split() == ["type", "host", "up_s", "problem", "in_hand", "requests", "errors", "retried"]
    assert [row.split()[:2] for row in rows] == [["SHOP", "one"], ["SHOP", "two"]]
    assert "headgate-services" not in headgate("queues", "list").out


def test_no_answer_is_said(headgate: Headgate):
    ran = headgate("services", "ABSENT", "--seconds", "0.1")
    assert (ran.code, ran.out) == (Exit.DONE, "No host of ABSENT has answered within 0.1 s.\n")


@pytest.mark.parametrize("words", [("--seconds", "0"), ("--seconds", "nan"), ("A.B.C",), ("*",)])
def test_what_cannot_be_asked_is_refused(headgate: Headgate, words: tuple[str, ...]):
    ran = headgate("services", *words)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith("headgate: ")
