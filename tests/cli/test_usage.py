"""All commands have help with examples, exit codes, and no traceback for an error of the user."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from amqp10.cli import exits
from amqp10.cli.commands import values_of
from amqp10.cli.exits import EPILOGUE, Exit
from amqp10.cli.main import run
from core.config import ScramKeys
from core.version import headgate_version
from tests.kit.broker_process import ROOT
from tests.kit.command_line import HEADGATE, Ran, run_process, start

NOUNS = ("queues", "exchanges", "bindings", "connections", "sessions", "links", "alarms")
COMMANDS = [
    ("serve",),
    ("status",),
    ("publish",),
    ("consume",),
    ("hash-password",),
    ("config", "check"),
    ("config", "show"),
    *((noun, verb) for noun in NOUNS for verb in ("list", "show")),
    ("queues", "declare"),
    ("queues", "delete"),
    ("queues", "purge"),
    ("alarms", "set"),
    ("alarms", "clear"),
    ("connections", "close"),
    ("memory", "status"),
    ("memory", "set-watermark"),
    ("disk", "status"),
    ("disk", "set-free-limit"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_the_exit_codes(command, capsys):
    assert run([*command, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate {' '.join(command)}" in words.partition("For example:")[2]
    assert "Exit codes: 0 done," in words


def test_exit_codes_are_the_same_everywhere_they_are_told():
    numbers = [int(code) for code in Exit]
    table = re.findall(r"^(\d+) ", exits.__doc__ or "", re.MULTILINE)
    assert [int(number) for number in table] == numbers
    assert [int(number) for number in re.findall(r"(\d+) \w", EPILOGUE)] == numbers


@pytest.mark.parametrize("words", [["bogus"], ["queues", "bogus"], ["status", "--bogus"], ["queues", "show", "a", "b"]])
def test_words_that_are_no_command(words, capsys):
    assert run(words) is Exit.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"headgate: .* \(see headgate.* --help\)\n", captured.err)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["statsu"], "there is no command statsu; did you mean status? (see headgate --help)"),
        (["queues", "lst"], "there is no command lst; did you mean list? (see headgate queues --help)"),
        (["--json", "status"], "there is no option --json (see headgate --help)"),
        (["status", "--jsno"], "there is no option --jsno; did you mean --json? (see headgate status --help)"),
        (["queues", "show", "a", "b", "c"], "too many words: b c (see headgate queues show --help)"),
        (["queues", "show"], "the following arguments are required: IDENTITY (see headgate queues show --help)"),
        (["status", "--url"], "argument --url: expected one argument (see headgate status --help)"),
        (["publish", "a", "--count", "x"], "argument --count: 'x' is no whole number (see headgate publish --help)"),
        (["drain", "--wait", "x"], "argument --wait: 'x' is no number (see headgate drain --help)"),
        (["hash-password", "--iterations", "1"], "1 is not 4096 to 5000000 (see headgate hash-password --help)"),
        (["why", "q", "--kind", "x"], "argument --kind: invalid choice: 'x' (choose from"),
        (
            ["publish", "a", "--count", "9" * 20],
            "99999999999999999999 is not -9223372036854775807 to 9223372036854775807",
        ),
        (["publish", "a", "--size", "-1"], "-1 is not 0 to 4294967296 (see headgate publish --help)"),
        (["status", "--", "x"], "too many words: x (see headgate status --help)"),
        (["queues", "declare", "\udcff"], "'\\udcff' is not UTF-8"),
        (["queues", "declare", "a", "--argument", "x-max-length=" + "9" * 20], "is too large; the largest number is"),
        (["store", "lost"], "the following arguments are required: --data (see headgate store lost --help)"),
    ],
)
def test_the_mistake_is_named(words, complaint, capsys):
    assert run(words) is Exit.USAGE
    assert complaint in capsys.readouterr().err


PUBLISH = {"address": "a", "body": (), "count": 1, "size": None, "transient": False, "json": False}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("a", {}),
        ("a b --count 2 c --json d", {"body": ("b", "c", "d"), "count": 2, "json": True}),
        ("--count=-1 a", {"count": -1}),
        ("a -- -b --json", {"body": ("-b", "--json")}),
        ("a b -- --help", {"body": ("b", "--help")}),
        ("-- a -b", {"body": ("-b",)}),
        ("--count 2 -- a --json", {"body": ("--json",), "count": 2}),
        ("a -- b --", {"body": ("b", "--")}),
        ("a --", {}),
        ("a -1 -", {"body": ("-1", "-")}),
    ],
)
def test_options_and_arguments_may_be_mixed(words, values):
    found = values_of("publish", words.split())
    assert found.pop("url")
    assert found == PUBLISH | values


def test_a_name_behind_two_hyphens_is_no_option():
    assert values_of("queues delete", ["--", "--vhost=x"])["name"] == "--vhost=x"


def test_options_override_the_environment_which_overrides_defaults():
    none = {"config": None, "listen": (), "data": None, "admin": None, "changes": (), "dev": False, "nodes": None}
    assert values_of("serve", [], {}) == none
    assert values_of("status", [], {})["url"] == "amqp://guest:guest@127.0.0.1:5672"
    environ = {"HEADGATE_LISTEN": "a:1 b:2", "HEADGATE_DATA": "data", "HEADGATE_URL": "amqp://there"}
    assert values_of("serve", [], environ) == none | {"listen": ("a:1", "b:2"), "data": Path("data")}
    assert values_of("status", [], environ)["url"] == "amqp://there"
    words = ["--listen", "c:3", "--listen", "d:4", "--data", "here"]
    assert values_of("serve", words, environ) == none | {"listen": ("c:3", "d:4"), "data": Path("here")}
    assert values_of("status", ["--url", "amqp://here"], environ)["url"] == "amqp://here"


def test_options_of_the_pipeline_are_passed_on_as_they_are():
    assert values_of("pipeline run", ["--url", "x", "-y", "--", "z"]) == {"options": ("--url", "x", "-y", "--", "z")}
    assert values_of("pipeline run", ["--", "--help"]) == {"options": ("--help",)}


def test_the_short_name_of_an_option():
    assert [values_of("queues list", words)["vhost"] for words in (["-p", "shop"], ["-pshop"])] == ["shop", "shop"]


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "at_most"), [(40, 60), (100, 100), (200, 120)])
def test_help_fits_the_terminal(columns, at_most):
    environ = os.environ | {"COLUMNS": str(columns)}
    ran = subprocess.run(
        [*HEADGATE, "why", "--help"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    assert at_most - 15 < max(map(len, ran.stdout.splitlines())) <= at_most


def test_without_a_command_there_is_help(capsys):
    assert run([]) is Exit.DONE
    assert "usage: headgate COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "code", "complaint"),
    [
        ("amqp://127.0.0.1:1", Exit.UNREACHABLE, "Connection refused; is the broker running?"),
        ("amqp://no.such.host.invalid", Exit.UNREACHABLE, "cannot connect to no.such.host.invalid:5672"),
        ("localhost", Exit.USAGE, "must be of the form amqp://"),
    ],
)
def test_no_broker_there(url, code, complaint, capsys):
    assert run(["status", "--url", url]) is code
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_a_wrong_password(broker_url, headgate):
    ran = headgate("status", "--url", broker_url.replace("guest:guest", "guest:wrong"))
    assert ran.code is Exit.NOT_LET_IN
    assert "wrong credentials" in ran.err
    assert "check user and password in --url or HEADGATE_URL" in ran.err
    assert "guest:wrong" not in ran.err


def test_the_version(capsys):
    assert run(["--version"]) is Exit.DONE
    assert capsys.readouterr().out.strip() == headgate_version()


@pytest.mark.slow
def test_lines_of_standard_input_are_messages_and_passwords(broker_url, headgate):
    """The commands run as processes and find the broker by HEADGATE_URL, as in a shell script."""
    headgate("queues", "declare", "lines")

    endless = start(*HEADGATE, "publish", "/queues/lines", url=broker_url)
    assert endless.stdin is not None
    endless.stdin.write("interrupted\n")
    endless.stdin.flush()
    assert headgate("consume", "/queues/lines", "--count", "1").out == "interrupted\n"
    endless.send_signal(signal.SIGINT)
    assert endless.wait(10) == Exit.INTERRUPTED  # the end of its input would end the command too, with another code
    assert endless.communicate(timeout=10) == ("", "")

    sent = run_process(*HEADGATE, "publish", "/queues/lines", given="first\nsecond\n", url=broker_url)
    assert sent == Ran(Exit.DONE, "2 sent: 2 accepted\n", "")
    assert headgate("consume", "/queues/lines", "--drain").out == "first\nsecond\n"
    hashed = run_process(*HEADGATE, "hash-password", given="secret\n", url=broker_url)
    assert ScramKeys.parse(hashed.out.strip()).iterations >= 4096
    empty = run_process(*HEADGATE, "hash-password", given="\n", url=broker_url)
    assert empty == Ran(Exit.USAGE, "", "headgate: the password is empty\n")
