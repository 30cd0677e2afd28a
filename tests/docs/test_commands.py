"""Every ``headgate`` command that a page, the console or a text of the broker shows is one that the command line takes.

Words in capitals stand for names, as they do in the help. A command that is only named, without the arguments that it
needs, passes. A command with ``…`` in it is not checked.
"""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp10.cli.commands import values_of
from amqp10.cli.exits import CommandError
from amqp10.cli.table import commands as table
from amqp10.cli.table import divided

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONSOLE = sorted((ROOT / "core" / "admin" / "console" / "page").rglob("*.js"))
SOURCES = sorted(path for room in ("core", "amqp10") for path in (ROOT / room).rglob("*.py"))
HISTORY = ("decisions", "design")
"""Folders of pages that keep decisions of the past, and are not changed."""

INLINE = re.compile(r"(?<!`)`headgate ([^`]+)`(?!`)")
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(?:\$ )?(?:\S*/)?headgate (.*)$", re.MULTILINE)
LITERAL = re.compile(r'"([^"\n]*)"|`([^`]*)`')
IN_THE_CONSOLE = re.compile(r"headgate ([a-z].*?)(?:\. |`|$)")
A_NUMBER = "N"
IN_THE_SHELL = {"|", ">", "<", ">>", "&&", "&"}
ADDRESSES = re.compile(r"/|ADDRESS$")
"""The form of an address, which publish and consume take. A bare name of a queue is none."""


def commands(path: Path) -> Iterator[str]:
    """The commands that a file shows, without the first word."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        for quoted, template in LITERAL.findall(text):
            yield from IN_THE_CONSOLE.findall(quoted or template)
        return
    yield from (re.sub(r"\s+", " ", found) for found in INLINE.findall(text))
    if path.suffix == ".md":
        for block in BLOCK.findall(text):
            yield from LINE.findall(block.replace("\\\n", " "))


def problem(shown: str) -> str | None:
    """Why the command line does not take the command; None when it does."""
    words = shlex.split(shown, comments=True)
    words = list(itertools.takewhile(lambda word: word not in IN_THE_SHELL, words))
    if words[0] == "NOUN":
        return None
    name, rest = divided(words)
    if all(word.startswith("--") for word in rest) and (name or rest):
        return None  # the command is only named
    if "parameters" not in table().get(name, {}):
        return f"{words} is no command"
    try:
        values_of(name, ["1" if word == A_NUMBER else word for word in rest])
        if name == "policies set":
            json.loads(rest[2])
    except (CommandError, ValueError) as error:
        return str(error)
    if name in ("publish", "consume") and not ADDRESSES.match(rest[0]):
        return f"{rest[0]} is no address"
    return None


@pytest.mark.parametrize("files", [PAGES, CONSOLE, SOURCES], ids=["pages", "console", "sources"])
def test_every_command_that_is_shown_is_taken(files: list[Path]):
    shown = {
        (path.relative_to(ROOT), command)
        for path in files
        if not set(HISTORY) & set(path.parts)
        for command in commands(path)
        if "…" not in command
    }
    assert len(shown) > 5
    wrong = [f"{path}: headgate {command}: {why}" for path, command in sorted(shown) if (why := problem(command))]
    assert not wrong, "\n" + "\n".join(wrong)


def test_each_command_is_in_the_table_of_the_page():
    text = (ROOT / "docs" / "operating" / "running.md").read_text(encoding="utf-8")
    listed = text.partition("## The command\n")[2].partition("## Exit codes\n")[0]
    rows = [line for line in listed.splitlines() if line.startswith("| `headgate ")]
    named = {name for row in rows for shown in re.findall(r"`([^`]+)`", row.split("|")[1]) for name in shown.split()}
    assert {name.split()[0] for name in table()} - named == set()
