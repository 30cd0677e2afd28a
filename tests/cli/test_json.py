"""Every command has ``--json``, except a few with a reason of their own."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.table import CommandEntry, commands
from tests.kit.command_line import Ran

WITHOUT = {
    "serve": "runs until it is stopped; its log has a form of its own, log.form",
    "top": "is for a terminal; what it shows is in the HTTP API",
    "completion": "prints a script for a shell",
    "hash-password": "prints one line that goes into a configuration as it is",
    "cluster": "init writes files and prints their names; the others take --json",
    "demo": "tells what happens until it is stopped, for people",
    "tls": "init writes files and prints their names; the others take --json",
    "pipeline": "its commands become `python -m pipeline`, which has options of its own",
}
"""The reasons by the first word of the command."""
ALL = {words: command for words, command in commands().items() if "parameters" in command}


def takes_json(command: CommandEntry) -> bool:
    return any(parameter["name"] == "--json" for parameter in command["parameters"])


def test_commands_are_found_at_every_depth():
    assert {"status", "why", "queues list", "policies set", "store check", "debug bundle"} <= set(ALL)
    assert len(ALL) > 60


def without_json(found: Mapping[str, CommandEntry]) -> set[str]:
    return {name for name, command in found.items() if not takes_json(command)}


def test_every_command_takes_json_or_has_a_reason_not_to():
    assert [name for name in sorted(without_json(ALL)) if name.partition(" ")[0] not in WITHOUT] == []


def test_every_exception_is_one():
    assert {name.partition(" ")[0] for name in without_json(ALL)} == set(WITHOUT)


def test_a_command_without_it_is_noticed():
    assert without_json({"list-it": {"parameters": [{"name": "--long", "kind": "flag"}]}}) == {"list-it"}


def shown(headgate: Callable[..., Ran], *words: str) -> object:
    ran = headgate(*words, "--json")
    assert (ran.code, ran.err) == (Exit.DONE, "")
    return json.loads(ran.out)


def test_policies_are_set_and_cleared(headgate: Callable[..., Ran]):
    told = {"pattern": "^json", "priority": 0, "apply_to": "all", "definition": {"max-length": 5}}
    assert shown(headgate, "policies", "set", "json", "^json", '{"max-length": 5}') == {"policy": "json", **told}
    assert shown(headgate, "policies", "clear", "json") == {"policy": "json"}


def test_alarms_are_set_and_cleared(headgate: Callable[..., Ran]):
    assert shown(headgate, "alarms", "set", "disk") == {"alarm": "disk", "by_hand": True}
    assert shown(headgate, "alarms", "clear", "disk") == {"alarm": "disk", "by_hand": False}


def test_limits_are_set(headgate: Callable[..., Ran]):
    try:
        row = shown(headgate, "disk", "set-free-limit", "60MB")
        assert isinstance(row, dict)
        assert (row["free_limit"], row["limit"]) == ("60MB", 60_000_000)
    finally:
        headgate("disk", "set-free-limit", "50MB")
    row = shown(headgate, "memory", "set-watermark", "0.4")
    assert isinstance(row, dict)
    assert row["watermark"] == "0.4"


def test_the_outcomes_of_published_messages(headgate: Callable[..., Ran]):
    headgate("queues", "declare", "json-published")
    told = {"sent": 2, "accepted": 2, "problem": None}
    assert shown(headgate, "publish", "/queues/json-published", "a", "b") == told
    headgate("queues", "delete", "json-published")
    headgate("exchanges", "declare", "json-nowhere")
    ran = headgate("publish", "/exchanges/json-nowhere/key", "a", "--json")
    assert ran.code is Exit.REFUSED
    assert json.loads(ran.out)["released"] == 1
    assert "could not route" in json.loads(ran.out)["problem"]
    headgate("exchanges", "delete", "json-nowhere")


# --- of files, without a broker --------------------------------------------------------------------------------------


def test_a_good_configuration_and_one_that_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "broker.toml"
    file.write_text("[server]\n")
    assert run(["config", "check", str(file), "--json"]) is Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "good": True}
    file.write_text("[sever]\n")
    assert run(["config", "check", str(file), "--json"]) is Exit.USAGE
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert (answer["good"], "sever" in answer["text"], "sever" in told.err) == (False, True, True)


def test_the_settings_in_force(capsys: pytest.CaptureFixture[str]):
    assert run(["config", "show", "--json"]) is Exit.DONE
    assert json.loads(capsys.readouterr().out)["server"]["listen"] == ["127.0.0.1:5672"]
