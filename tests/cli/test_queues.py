"""``headgate queues``, ``publish`` and ``consume``: messages go from the command line to a queue and back."""

import json

import pytest

from amqp10.cli.exits import Exit


def test_the_life_of_a_queue(headgate):
    made = headgate("queues", "declare", "life/1", "--argument", "x-max-length=1000", "--auto-delete")
    assert made.code is Exit.DONE
    assert made.out == "queue life/1 was made; its address is /queues/life%2F1\n"
    assert "exists" in headgate("queues", "declare", "life/1", "--argument", "x-max-length=1000", "--auto-delete").out
    headgate("publish", "/queues/life%2F1", "a", "b", "c")
    shown = json.loads(headgate("queues", "show", "life/1", "--json").out)
    assert {key: shown[key] for key in ("name", "type", "messages", "messages_ready", "auto_delete")} == {
        "name": "life/1",
        "type": "classic",
        "messages": 3,
        "messages_ready": 3,
        "auto_delete": True,
    }
    assert shown["arguments"] == {"x-max-length": 1000}
    assert headgate("queues", "purge", "life/1").out == "3 messages of queue life/1 are removed\n"
    headgate("publish", "/queues/life%2F1", "d")
    assert headgate("queues", "delete", "life/1").out == "queue life/1 is deleted, and 1 messages with it\n"
    gone = headgate("queues", "show", "life/1")
    assert (gone.code, gone.out) == (Exit.NOT_FOUND, "")
    assert "life/1" in gone.err


def test_the_list_has_a_line_for_each_queue(headgate):
    headgate("queues", "declare", "list-1")
    headgate("queues", "declare", "list-2")
    headgate("publish", "/queues/list-2", "a", "b")
    lines = headgate("queues", "list").out.splitlines()
    assert lines[0].split()[:3] == ["name", "type", "messages"]
    rows = {line.split()[0]: line.split()[1:3] for line in lines[1:]}
    assert rows["list-1"] == ["classic", "0"]
    assert rows["list-2"] == ["classic", "2"]
    listed = json.loads(headgate("queues", "list", "--json").out)
    assert [row["messages"] for row in listed if row["name"] == "list-2"] == [2]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("queues", "declare", "bad", "--argument", "x-max-length"), Exit.USAGE, "must be KEY=VALUE"),
        (("queues", "declare", "bad", "--argument", "x-queue-type=none"), Exit.REFUSED, "x-queue-type"),
        (("queues", "declare", "amq.mine"), Exit.REFUSED, "amq."),
        (("queues", "purge", "nope"), Exit.NOT_FOUND, "nope"),
        (("queues", "show"), Exit.USAGE, ""),
        (("queues", "peek", "nope"), Exit.NOT_FOUND, "no queue 'nope'"),
        (("queues", "peek", "nope", "--count", "many"), Exit.USAGE, ""),
        (("queues", "move", "nope", "x"), Exit.NOT_FOUND, "no queue 'nope'"),
        (("queues", "move", "nope"), Exit.USAGE, ""),
        (("queues", "replay", "nope"), Exit.NOT_FOUND, "no queue 'nope'"),
        (("publish", "nope", "a"), Exit.USAGE, "here perhaps '/queues/nope'"),
        (("publish", "/queues/nope", "a"), Exit.NOT_FOUND, "queues are listed by: headgate queues list"),
        (("publish", "/queues/x", "a", "--count", "0"), Exit.USAGE, "must be 1 or more"),
        (("publish", "/queues/x", "a", "--size", "5"), Exit.USAGE, "goes without BODY"),
        (("publish", "/queues/x", "--size", "many"), Exit.USAGE, "--size: 'many' is no whole number"),
        (("publish", "/exchanges/amq.topic/nowhere", "a"), Exit.REFUSED, "bind a queue to the exchange"),
        (("consume", "/exchanges/amq.topic/key"), Exit.USAGE, "an exchange keeps no messages"),
        (("consume", "/queues/nope", "--drain"), Exit.NOT_FOUND, "no queue 'nope'"),
        (("consume", "/queues/x", "--count", "0"), Exit.USAGE, "must be 1 or more"),
        (("consume", "/queues/x", "--credit", "4294967296"), Exit.USAGE, "must be 1 to 4294967295"),
    ],
)
def test_mistakes_are_told_with_a_way_out(words, code, complaint, headgate):
    ran = headgate(*words)
    assert ran.code is code
    assert complaint in " ".join(ran.err.split())
    assert ran.err.startswith("headgate: ")


def test_messages_are_printed_in_order_and_are_gone_afterwards(headgate):
    headgate("queues", "declare", "order")
    assert headgate("publish", "/queues/order", "one", "two", "--count", "3").out == "6 sent: 6 accepted\n"
    assert headgate("consume", "/queues/order", "--count", "2").out == "one\ntwo\n"
    assert headgate("consume", "/queues/order", "--drain").out == "one\ntwo\n" * 2
    assert headgate("consume", "/queues/order", "--drain").out == ""


@pytest.mark.parametrize("credit", ["1", "7", "100000"])
def test_drain_and_count_take_the_wanted_messages_with_any_link_credit(credit, headgate):
    headgate("queues", "declare", "many")
    assert headgate("publish", "/queues/many", "--size", "10", "--count", "100").out == "100 sent: 100 accepted\n"
    counted = headgate("consume", "/queues/many", "--count", "30", "--credit", credit)
    assert counted.out == "xxxxxxxxxx\n" * 30
    assert json.loads(headgate("queues", "show", "many", "--json").out)["messages"] == 70
    limited = headgate("consume", "/queues/many", "--count", "30", "--credit", credit, "--drain")
    assert limited.out == "xxxxxxxxxx\n" * 30
    assert len(headgate("consume", "/queues/many", "--drain", "--credit", credit).out.splitlines()) == 40


def test_messages_as_json(headgate):
    headgate("queues", "declare", "json")
    headgate("publish", "/queues/json", "grüße")
    (line,) = headgate("consume", "/queues/json", "--drain", "--json").out.splitlines()
    assert json.loads(line) == {"body": "grüße"}


def test_publishing_through_an_exchange_with_a_binding(headgate):
    assert headgate("exchanges", "show", "amq.topic").code is Exit.DONE
    listed = json.loads(headgate("exchanges", "list", "--json").out)
    assert {"amq.direct", "amq.fanout", "amq.topic", "amq.headers"} <= {row["name"] for row in listed}
    assert headgate("bindings", "list").code is Exit.DONE


def test_looking_at_messages_leaves_them_where_they_are(headgate):
    headgate("queues", "declare", "peek/1")
    headgate("publish", "/queues/peek%2F1", "one", "grüße")
    lines = headgate("queues", "peek", "peek/1").out.splitlines()
    assert lines[0].split() == [
        "sequence", "bytes", "priority", "durable", "delivery_count", "expires_at", "deaths", "body",
    ]  # fmt: skip
    assert [line.split()[-1] for line in lines[1:]] == ["one", "grüße"]
    (shown,) = json.loads(headgate("queues", "peek", "peek/1", "--count", "1", "--json").out)
    assert (shown["sequence"], shown["body"], shown["deaths"], shown["expires_at"]) == (0, "one", [], None)
    refused = headgate("queues", "peek", "peek/1", "--count", "101")
    assert (refused.code, "from 1 to 100" in refused.err) == (Exit.REFUSED, True)
    assert headgate("consume", "/queues/peek%2F1", "--drain").out == "one\ngrüße\n"


def test_messages_are_moved_to_another_queue(headgate):
    for name in ("from/1", "to/1"):
        headgate("queues", "declare", name)
    headgate("publish", "/queues/from%2F1", "a", "b", "c")
    moved = headgate("queues", "move", "from/1", "to/1", "--count", "2")
    assert (moved.code, moved.out) == (Exit.DONE, "2 messages of queue from/1 are moved\n")
    assert headgate("queues", "move", "from/1", "to/1").out == "1 messages of queue from/1 are moved\n"
    assert headgate("consume", "/queues/to%2F1", "--drain").out == "a\nb\nc\n"
    assert headgate("queues", "move", "from/1", "from/1").code is Exit.REFUSED


def test_a_move_that_ends_early_says_why(headgate):
    headgate("queues", "declare", "large")
    headgate("queues", "declare", "small", "--argument", "x-max-length=1", "--argument", "x-overflow=reject-publish")
    headgate("publish", "/queues/large", "a", "b", "c")
    ended = headgate("queues", "move", "large", "small")
    assert (ended.code, ended.out) == (Exit.REFUSED, "1 messages of queue large are moved\n")
    assert "a message was rejected by the queue where it is to go" in ended.err


def test_dead_letters_go_back_to_where_they_died(headgate):
    headgate("queues", "declare", "dead")
    headgate(
        "queues", "declare", "work",
        "--argument", "x-message-ttl=0",
        "--argument", "x-dead-letter-exchange=",
        "--argument", "x-dead-letter-routing-key=dead",
    )  # fmt: skip
    headgate("publish", "/queues/work", "late")
    (shown,) = json.loads(headgate("queues", "peek", "dead", "--json").out)
    assert shown["deaths"] == [{"queue": "work", "reason": "expired", "count": 1}]
    assert "work expired 1x" in headgate("queues", "peek", "dead").out
    assert headgate("queues", "replay", "dead", "--count", "1").out == "1 messages of queue dead are moved\n"
    (again,) = json.loads(headgate("queues", "peek", "dead", "--json").out)
    assert again["deaths"] == [{"queue": "work", "reason": "expired", "count": 2}]
