"""``headgate policies``: the examples of the pages, and the answers to an operator."""

import json

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run


@pytest.fixture
def policies(headgate):
    """Runs the command. The policies that a test made are cleared after it."""

    def call(*words):
        return headgate("policies", *words)

    yield call
    for row in json.loads(call("list", "--json").out):
        call("clear", row["name"])


@pytest.mark.parametrize("verb", ["set", "clear", "list", "explain"])
def test_help_has_an_example(verb, capsys):
    assert run(["policies", verb, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate policies {verb}" in words.partition("For example:")[2]
    assert "Exit codes: 0 done," in words


def test_row_4_49_the_line_of_the_documents(policies, headgate):
    definition = '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}'
    ran = policies("set", "--priority", "0", "--apply-to", "queues", "mirror_queue", "^queue_", definition)
    assert (ran.code, ran.out) == (Exit.DONE, "policy mirror_queue is set\n")
    assert json.loads(policies("list", "--json").out) == [
        {
            "name": "mirror_queue",
            "pattern": "^queue_",
            "apply_to": "queues",
            "priority": 0,
            "definition": json.loads(definition),
        }
    ]
    headgate("queues", "declare", "queue_1")
    shown = json.loads(headgate("queues", "show", "queue_1", "--json").out)
    assert (shown["policy"], shown["copies"]) == ("mirror_queue", "1 of 2 copies")
    assert "one node without replication" in shown["notice"]
    assert "1 of 2 copies: policy 'mirror_queue' asks for ha-mode 'exactly'" in policies("explain", "queue_1").out
    headgate("queues", "delete", "queue_1")


def test_row_4_12_the_line_of_the_documents(policies, headgate):
    headgate("queues", "declare", "myqueue", "--argument", "x-queue-mode=default")
    ran = policies("set", "Lazy", "^myqueue$", '{"queue-mode":"lazy"}', "--apply-to", "queues")
    assert ran.code is Exit.DONE
    assert policies("explain", "myqueue").out.splitlines() == [
        "policy Lazy holds for queue myqueue",
        "  queue-mode = \"lazy\": acts, x-queue-mode is 'default', and for this key the policy holds",
    ]
    headgate("queues", "delete", "myqueue")


def test_the_winner_the_losers_and_why(policies, headgate):
    headgate("queues", "declare", "work")
    assert policies("explain", "work").out == "no policy holds for queue work\n"
    policies("set", "high", "^w", '{"max-length": 5}', "--priority", "5", "-p", "/")
    policies("set", "low", "", '{"max-length": 9}', "--priority", "-5")
    assert policies("explain", "work", "-p", "/").out.splitlines() == [
        "policy high holds for queue work",
        "  max-length = 5: acts, no argument of the queue says otherwise",
        "policy low does not hold: its priority -5 is below 5 of 'high'",
    ]
    assert json.loads(policies("explain", "work", "--json").out)["policy"] == "high"
    assert policies("clear", "high").out == "policy high is cleared\n"
    assert policies("explain", "work").out.startswith("policy low holds")
    headgate("queues", "delete", "work")


def test_a_list_for_people(policies):
    policies("set", "p", "^x", '{"expires": 60000}')
    header, row = policies("list").out.splitlines()
    assert header.split() == ["name", "pattern", "apply_to", "priority", "definition"]
    assert row.split(maxsplit=4) == ["p", "^x", "all", "0", '{"expires": 60000}']


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["set", "p", "^q", "{max-length: 5}"], Exit.USAGE, "is not JSON"),
        (["set", "p", "^q", "[1]"], Exit.USAGE, "must be a JSON object"),
        (["set", "p", "^q", '{"max-length": 5}', "--priority", "high"], Exit.USAGE, ""),
        (["set", "p", "^q(", '{"max-length": 5}'], Exit.REFUSED, "missing )"),
        (["set", "p", "^q", '{"max-length": -5}'], Exit.REFUSED, "max-length is -5, it must be an integer, 0 or more"),
        (["set", "p", "^q", '{"max-length": 1e400}'], Exit.REFUSED, "max-length is inf"),
        (["set", "p", "^q", '{"max-length": 99999999999999999999}'], Exit.USAGE, "99999999999999999999 is too large"),
        (["set", "p", "^q", '{"max-length": NaN}'], Exit.USAGE, "NaN is no number"),
        (["set", "p", "^q", '{"speed": 5}'], Exit.REFUSED, "there is no key 'speed'"),
        (["set", "p", "^q", '{"ha-params": 2}'], Exit.REFUSED, "ha-params needs an ha-mode"),
        (["set", "p", "^q", '{"expires": 1}', "--apply-to", "topics"], Exit.REFUSED, "apply_to is 'topics'"),
        (["set", "p", "^q", '{"expires": 1}', "-p", "other"], Exit.NOT_FOUND, "there is no virtual host 'other'"),
        (["list", "--vhost", "other"], Exit.NOT_FOUND, "there is no virtual host 'other'"),
        (["clear", "gone"], Exit.NOT_FOUND, "there is no policy 'gone'"),
        (["explain", "gone"], Exit.NOT_FOUND, "there is no queue 'gone'"),
    ],
)
def test_requests_that_are_refused(policies, words, code, complaint):
    ran = policies(*words)
    assert ran.code is code
    assert complaint in ran.err
    assert json.loads(policies("list", "--json").out) == []
