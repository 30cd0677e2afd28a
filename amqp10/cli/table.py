"""The table of commands, as commands read it.

``commands.toml`` has an entry for each command, by its words. ``python -m docs.generate`` makes ``commands.json`` of it
and of the table of operations, and adds the commands ``list`` and ``show`` of each kind of rows. A command reads the
JSON file, because the table of operations needs the engine, and because Python needs 30 ms of CPU to read TOML.

An entry has ``help``, ``examples`` and ``parameters``, and one of these:

- ``run``: the module and the function that carries the command out. It gets the values of all parameters, and those in
  ``given``.
- ``rows`` or ``row``: a kind of rows, which are printed with ``columns``, or one row with all its fields.
- ``request``: a request to the management node, see :mod:`amqp10.cli.requests`.

An entry with none of them is a noun with commands below it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypedDict

TABLE = f"{os.path.dirname(__file__)}/commands.json"  # Path would take 2 ms of CPU to import
NUMBER_MAX = 2**63 - 1
"""The largest number of a command or a request: a long of AMQP has 64 bits."""


class CommandParameter(TypedDict, total=False):
    """A parameter of a command. A name that begins with ``--`` is that of an option."""

    name: str
    short: str
    """Another name of an option."""
    value: str
    """The name that functions and requests have for the value, where it differs."""
    help: str
    kind: str
    """``number``, ``seconds``, ``flag`` or ``file``, or one of the kinds of :mod:`amqp10.cli.requests`: ``arguments``,
    and ``map``. Without it, the value is a text."""
    choices: list[str]
    env: str
    """The environment variable that has the value of an option that is not given."""
    default: str | int
    optional: bool
    """An argument that may be left out."""
    required: bool
    """An option that must be given."""
    many: bool
    """The parameter can be given several times."""
    hyphen: bool
    """All words behind the other parameters are values, also those that begin with a hyphen. Only the last parameter,
    behind arguments that must be given, can have it."""
    low: int
    high: int
    inverted: bool
    """A flag whose value is false where the flag is given."""
    joins: str
    """The value is the end of this other value."""


class CommandEntry(TypedDict, total=False):
    """An entry of the table."""

    help: str
    help_end: str
    """The help behind the examples."""
    examples: list[str]
    also: str
    """Another name of the command."""
    parameters: list[CommandParameter]
    run: str
    given: dict[str, str | bool]
    rows: str
    row: str
    columns: list[str]
    items: str
    """The field of an answer whose rows are printed with ``columns``."""
    sums: dict[str, list[str]]
    """Further fields of a row, each with the fields of which it is the sum."""
    request: str
    """The name of an operation, or the method and the path of a request."""
    done: str
    """The sentence that says what a request has done."""
    made: str
    """The sentence for an answer with the status 201."""
    shown: dict[str, str | bool]
    """What a request has done, as JSON. Without it, the JSON is the answer."""


class Table(TypedDict):
    """The file."""

    operations: dict[str, str]
    """The method and the path of each operation, by its name."""
    commands: dict[str, CommandEntry]
    """All commands, by their words."""


@cache
def table() -> Table:
    """The table of commands."""
    with open(TABLE, "rb") as file:
        read: Table = json.load(file)
    return read


def commands() -> Mapping[str, CommandEntry]:
    """All commands, by their words."""
    return table()["commands"]


def divided(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Divide the words of a command line: the words in the table of the command or noun, and what comes behind them."""
    names = {name: name for name in commands()}
    names |= {entry["also"]: name for name, entry in commands().items() if "also" in entry}
    name = ""
    for count, word in enumerate(words):
        inner = names.get(f"{name} {word}".lstrip())
        if inner is None:
            return name, words[count:]
        name = inner
    return name, ()


def inner_commands(name: str) -> list[str]:
    """The commands below a noun, or of the first level if the name is empty."""
    return [words for words in commands() if words.rpartition(" ")[0] == name]


def spellings(words: str) -> list[str]:
    """The last word of a command, and its other name."""
    command = commands()[words]
    return [words.rpartition(" ")[2], *([command["also"]] if "also" in command else [])]


def option_names(parameter: CommandParameter) -> list[str]:
    """The names of an option; none of an argument."""
    if not parameter["name"].startswith("--"):
        return []
    return [parameter["short"], parameter["name"]] if "short" in parameter else [parameter["name"]]


def value_name(parameter: CommandParameter) -> str:
    """The name of a parameter's value for functions and requests."""
    return parameter.get("value", parameter["name"].removeprefix("--").replace("-", "_"))
