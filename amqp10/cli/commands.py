"""The command line, made from the table of commands."""

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal

from amqp10.cli.exits import EPILOGUE
from amqp10.cli.table import CommandEntry, CommandParameter, commands, value_name
from core.version import headgate_version

if TYPE_CHECKING:
    from cyclopts import App

TYPES: Mapping[str, type] = {"number": int, "seconds": float, "flag": bool, "file": Path}
"""The kinds of parameters whose values are no texts. A value of another kind is a text on the command line."""


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


def _help(command: CommandEntry) -> str:
    examples = "\n".join(f"    {example}" for example in command.get("examples", ()))
    parts = (command["help"], examples and f"For example:\n\n{examples}", command.get("help_end"))
    return "\n\n".join(part for part in parts if part)


# --- parameters ------------------------------------------------------------------------------------------------------


def function_of(command: CommandEntry) -> Callable[..., None]:
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


def _argument(parameter: CommandParameter) -> Argument:
    annotation, default = _annotation(parameter), _default(parameter)
    if parameter["name"].startswith("--"):
        return Argument(value_name(parameter), Argument.KEYWORD_ONLY, default=default, annotation=annotation)
    if parameter.get("many"):
        return Argument(parameter["name"], Argument.VAR_POSITIONAL, annotation=annotation)
    return Argument(parameter["name"], Argument.POSITIONAL_ONLY, default=default, annotation=annotation)


def _default(parameter: CommandParameter) -> object:
    if "default" in parameter:
        return parameter["default"]
    if parameter.get("kind") == "flag":
        return False
    if parameter.get("many"):
        return ()
    is_option = parameter["name"].startswith("--")
    return Argument.empty if parameter.get("required", not (is_option or parameter.get("optional"))) else None


def _annotation(parameter: CommandParameter) -> object:
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


def _carry_out(command: CommandEntry, values: dict[str, object]) -> None:
    values |= command.get("given", {})
    if "run" in command:
        module, _, function = command["run"].partition(":")
        getattr(import_module(f"amqp10.cli.{module}"), function)(**values)
        return
    from amqp10.cli.requests import carry_out  # here and not above: other commands need none of it

    carry_out(command, values)
