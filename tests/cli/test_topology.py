"""``headgate exchanges`` and ``headgate bindings`` create, show and delete exchanges and bindings."""

import json

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run

COMMANDS = [(noun, verb) for noun in ("exchanges", "bindings") for verb in ("list", "show", "delete")]


@pytest.mark.parametrize("command", [*COMMANDS, ("exchanges", "declare"), ("bindings", "create")], ids=" ".join)
def test_help_has_an_example(command, capsys):
    assert run([*command, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate {' '.join(command)}" in words.partition("For example:")[2]


def test_the_life_of_an_exchange_and_its_bindings(headgate):
    made = headgate("exchanges", "declare", "shop/1", "--type", "headers", "--internal", "--argument", "own=5")
    assert (made.code, made.out) == (
        Exit.DONE,
        "exchange shop/1 is there; its address is /exchanges/shop%2F1/ROUTING-KEY\n",
    )
    assert headgate("exchanges", "declare", "shop/1", "--type", "headers", "--internal", "--argument", "own=5") == made
    shown = json.loads(headgate("exchanges", "show", "shop/1", "--json").out)
    assert (shown["type"], shown["internal"], shown["durable"], shown["arguments"]) == (
        "headers",
        True,
        True,
        {"own": 5},
    )

    headgate("queues", "declare", "bound/1")
    bind = ("shop/1", "bound/1", "--key", "k/;=", "--argument", "x-match=any", "--argument", "a=1")
    bound = headgate("bindings", "create", *bind)
    assert bound.code is Exit.DONE
    assert (
        bound.out == """binding from 'shop/1' to queue 'bound/1' by 'k/;=' with {"a": 1, "x-match": "any"} is there\n"""
    )
    assert headgate("bindings", "create", "shop/1", "amq.fanout", "--to-exchange").code is Exit.DONE
    listed = [row for row in json.loads(headgate("bindings", "list", "--json").out) if row["source"] == "shop/1"]
    assert [(row["destination"], row["destination_is_queue"]) for row in listed] == [
        ("amq.fanout", False),
        ("bound/1", True),
    ]
    name = next(row["name"] for row in listed if row["destination"] == "bound/1")
    assert json.loads(headgate("bindings", "show", name, "--json").out)["arguments"] == {"x-match": "any", "a": 1}

    headgate(
        "bindings", "delete", "shop/1", "bound/1", "--key", "k/;="
    )  # a binding without these arguments is another binding
    assert headgate("bindings", "show", name).code is Exit.DONE
    assert headgate("bindings", "delete", *bind).out.endswith("is deleted\n")
    assert headgate("bindings", "show", name).code is Exit.NOT_FOUND

    for _ in range(2):
        assert headgate("exchanges", "delete", "shop/1").out == "exchange shop/1 is deleted\n"
    assert headgate("exchanges", "show", "shop/1").code is Exit.NOT_FOUND
    headgate("queues", "delete", "bound/1")


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (
            ("exchanges", "declare", "x", "--type", "best"),
            Exit.REFUSED,
            "unknown exchange type 'best'; there are direct",
        ),
        (("exchanges", "declare", "amq.mine"), Exit.REFUSED, "the prefix 'amq.' is reserved"),
        (("exchanges", "declare", "amq.topic"), Exit.REFUSED, "type is 'topic', the declaration asks for 'direct'"),
        (("exchanges", "declare", "x", "--argument", "x-speed=1"), Exit.REFUSED, "argument x-speed is not supported"),
        (("exchanges", "declare", "x", "--argument", "speed"), Exit.USAGE, "--argument speed: must be KEY=VALUE"),
        (("exchanges", "delete", "amq.topic"), Exit.REFUSED, "reserved"),
        (("bindings", "create", "amq.topic", "nope"), Exit.REFUSED, "there is no queue 'nope'"),
        (("bindings", "create", "nope", "amq.topic", "--to-exchange"), Exit.REFUSED, "there is no exchange 'nope'"),
        (("bindings", "create", "nope"), Exit.USAGE, ""),
    ],
)
def test_mistakes_are_told_with_a_way_out(words, code, complaint, headgate):
    ran = headgate(*words)
    assert ran.code is code
    assert complaint in ran.err


def test_results_as_json(headgate):
    def told(*words):
        return json.loads(headgate(*words, "--json").out)

    made = {"queue": "told/1", "made": True, "address": "/queues/told%2F1"}
    assert told("queues", "declare", "told/1") == made
    assert told("queues", "declare", "told/1") == made | {"made": False}
    address = "/exchanges/told%2F1/ROUTING-KEY"
    assert told("exchanges", "declare", "told/1") == {"exchange": "told/1", "address": address}
    binding = {
        "source": "told/1",
        "vhost": "/",
        "destination": "told/1",
        "destination_type": "queue",
        "routing_key": "k",
        "arguments": {},
    }
    assert told("bindings", "create", "told/1", "told/1", "--key", "k") == binding
    assert told("bindings", "delete", "told/1", "told/1", "--key", "k") == binding
    headgate("publish", "/queues/told%2F1", "a", "b", "c")
    headgate("queues", "declare", "told/2")
    moved = told("queues", "move", "told/1", "told/2", "--count", "1")
    assert moved == {"queue": "told/1", "moved": 1, "failure": None}
    assert told("queues", "purge", "told/1") == {"queue": "told/1", "purged": 2}
    headgate("queues", "delete", "told/2")
    assert told("queues", "delete", "told/1") == {"queue": "told/1", "deleted": 0}
    assert told("exchanges", "delete", "told/1") == {"exchange": "told/1"}
