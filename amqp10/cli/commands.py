"""The table of commands, and the command line that is made from it.

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
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from amqp10.cli.exits import EPILOGUE
from core.version import headgate_version

if TYPE_CHECKING:
    from cyclopts import App

TABLE = Path(__file__).with_name("commands.json")


class Parameter(TypedDict, total=False):
    """A parameter of a command. A name that begins with ``--`` is that of an option."""

    name: str
    short: str
    """Another name of an option."""
    value: str
    """The name that functions and requests have for the value, where it differs."""
    help: str
    kind: str
    """One of :data:`TYPES`, or ``arguments``, ``map`` or ``virtual host``, see :mod:`amqp10.cli.requests`. Without it,
    the value is a text."""
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
    """A value may begin with a hyphen."""
    low: int
    high: int
    inverted: bool
    """A flag whose value is false where the flag is given."""
    joins: str
    """The value is the end of this other value."""


class Command(TypedDict, total=False):
    """An entry of the table."""

    help: str
    help_end: str
    """The help behind the examples."""
    examples: list[str]
    also: str
    """Another name of the command."""
    parameters: list[Parameter]
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


TYPES: Mapping[str, type] = {"number": int, "seconds": float, "flag": bool, "file": Path}
"""The kinds of parameters whose values are no texts. A value of another kind is a text on the command line."""


class Table(TypedDict):
    """The file."""

    operations: dict[str, str]
    """The method and the path of each operation, by its name."""
    commands: dict[str, Command]
    """All commands, by their words."""


@cache
def table() -> Table:
    """The table of commands."""
    read: Table = json.loads(TABLE.read_bytes())
    return read


def commands() -> Mapping[str, Command]:
    """All commands, by their words."""
    return table()["commands"]


def command_line(name: str | None = None, *, complete: bool = False) -> "App":
    """The command line with the command of this name, or with all commands if it is ``complete``.

    Otherwise it has the names of all commands and the beginnings of their help, and its commands do nothing. It answers
    ``headgate --help`` and a mistyped command. Making all commands takes 20 ms of CPU.
    """
    from cyclopts import App  # here and not above: main first tells Python to search for garbage less often

    names = _names()
    app = App(
        name="headgate",
        help="Headgate, an AMQP 1.0 message broker that tells why a publisher waits.",
        help_epilogue=EPILOGUE,
        help_format="plaintext",  # cyclopts' default is Markdown, which takes 35 ms of CPU to import
        version=headgate_version,
        version_format="plaintext",
    )
    for spelled, words in names.items():
        if spelled != words:
            continue  # another name, which the command brings itself
        if complete or words == names.get(name or ""):
            app.command(_app(words))
        elif name not in names:
            app.command(App(name=_spellings(words), help=commands()[words]["help"].partition("\n\n")[0]))
    return app


def _names() -> dict[str, str]:
    """The names of the commands without a noun, and their other names, with the words in the table."""
    names = {words: words for words in commands() if " " not in words}
    return names | {command["also"]: words for words, command in commands().items() if "also" in command}


def _spellings(words: str) -> tuple[str, ...]:
    also = commands()[words].get("also")
    return (words.rpartition(" ")[2], *([] if also is None else [also]))


def _app(words: str) -> "App":
    """A command, with the commands below it."""
    from cyclopts import App

    command = commands()[words]
    app = App(name=_spellings(words), help=_help(command))
    if "parameters" in command:
        app.default(function_of(command))
    for inner in commands():
        if inner.startswith(f"{words} "):
            app.command(_app(inner))
    return app


def _help(command: Command) -> str:
    examples = "\n".join(f"    {example}" for example in command.get("examples", ()))
    parts = (command["help"], examples and f"For example:\n\n{examples}", command.get("help_end"))
    return "\n\n".join(part for part in parts if part)


# --- parameters ------------------------------------------------------------------------------------------------------


def function_of(command: Command) -> Callable[..., None]:
    """The function that carries the command out, with a signature from which cyclopts makes its parameters."""
    signature = Signature(list(map(_argument, command["parameters"])))

    def function(*given: object, **options: object) -> None:
        bound = signature.bind(*given, **options)
        bound.apply_defaults()
        names = map(value_name, command["parameters"])
        _carry_out(command, dict(zip(names, bound.arguments.values(), strict=True)))

    function.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    setattr(function, "__signature__", signature)  # noqa: B010 - a function has no such attribute of its own
    return function


def value_name(parameter: Parameter) -> str:
    """The name of a parameter's value for functions and requests."""
    return parameter.get("value", parameter["name"].removeprefix("--").replace("-", "_"))


def _argument(parameter: Parameter) -> Argument:
    annotation, default = _annotation(parameter), _default(parameter)
    if parameter["name"].startswith("--"):
        return Argument(value_name(parameter), Argument.KEYWORD_ONLY, default=default, annotation=annotation)
    if parameter.get("many"):
        return Argument(parameter["name"], Argument.VAR_POSITIONAL, annotation=annotation)
    return Argument(parameter["name"], Argument.POSITIONAL_ONLY, default=default, annotation=annotation)


def _default(parameter: Parameter) -> object:
    if "default" in parameter:
        return parameter["default"]
    if parameter.get("kind") == "flag":
        return False
    if parameter.get("many"):
        return ()
    is_option = parameter["name"].startswith("--")
    return Argument.empty if parameter.get("required", not (is_option or parameter.get("optional"))) else None


def _annotation(parameter: Parameter) -> object:
    """The type of the values, with what cyclopts shows and takes."""
    import cyclopts

    value: Any = TYPES.get(parameter.get("kind", ""), str)
    if "choices" in parameter:
        value = Literal[tuple(parameter["choices"])]
    names = None
    if parameter["name"].startswith("--"):
        names = [parameter["short"], parameter["name"]] if "short" in parameter else [parameter["name"]]
        value = GenericAlias(tuple, (value, ...)) if parameter.get("many") else value
    if _default(parameter) is None:
        value = value | None
    bounds = None
    if "low" in parameter:
        bounds = cyclopts.validators.Number(gte=parameter["low"], lte=parameter["high"])
    shown = cyclopts.Parameter(
        name=names,
        help=parameter.get("help"),
        env_var=parameter.get("env"),
        negative="",
        allow_leading_hyphen=parameter.get("hyphen", False),
        validator=bounds,
    )
    return Annotated[value, shown]


def _carry_out(command: Command, values: dict[str, object]) -> None:
    values |= command.get("given", {})
    if "run" in command:
        module, _, function = command["run"].partition(":")
        getattr(import_module(f"amqp10.cli.{module}"), function)(**values)
        return
    from amqp10.cli.requests import carry_out  # here and not above: other commands need none of it

    carry_out(command, values)
