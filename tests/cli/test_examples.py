"""``headgate examples``: what to copy, found by a word."""

import json

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.table import commands


def test_every_example_of_every_command_is_printed(capsys: pytest.CaptureFixture[str]):
    assert run(["examples"]) == Exit.DONE
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in lines if line and not line.startswith("#")} == {
        example for entry in commands().values() for example in entry.get("examples", [])
    }
    assert "# List all links." in lines


def test_words_choose_the_commands_that_have_all_of_them(capsys: pytest.CaptureFixture[str]):
    assert run(["examples", "Link", "pause", "--json"]) == Exit.DONE
    found = [row["command"] for row in json.loads(capsys.readouterr().out)]
    assert "links pause" in found
    assert "queues list" not in found


def test_a_word_that_no_command_has(capsys: pytest.CaptureFixture[str]):
    assert run(["examples", "zeppelin"]) == Exit.NOT_FOUND
    assert capsys.readouterr().err == "headgate: no example is about zeppelin; headgate examples prints all\n"
