"""The command line, made from the table of commands: what the words of a command mean, its help, and its errors."""

import os
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from time import sleep
from typing import Any, NoReturn

from amqp10.cli.exits import EPILOGUE, CommandError, Exit
from amqp10.cli.table import (
    NUMBER_MAX,
    CommandEntry,
    CommandParameter,
    commands,
    divided,
    inner_commands,
    option_names,
    spellings,
    value_name,
)
from core.version import headgate_version

HELP = "Headgate, an AMQP 1.0 message broker that tells why a publisher waits."
HELP_OPTIONS = {"-h", "--help"}
BEHIND = "\0"
"""What begins each word behind ``--`` for argparse, which would take some of them for options. No word of a command
line can contain it."""
WATCH = "watch"
"""The parameter of commands that can repeat what they print. No function has it."""
COLUMNS_MIN, COLUMNS_MAX = 60, 120
"""The width of help is that of the terminal, between these. Longer lines are hard to read."""


def carry_out(words: Sequence[str]) -> None:
    """Carry out the command of these words, or print its help. Raises CommandError."""
    name, rest = divided(words)
    command = commands().get(name, {})
    if HELP_OPTIONS & set(takewhile(lambda word: word != "--", rest)) or not (rest or "parameters" in command):
        print(help_of(name), end="")
    elif "parameters" in command:
        _carry_out(command, values_of(name, rest))
    elif not name and rest[0] == "--version":
        print(headgate_version())
    else:
        kind = "option" if rest[0].startswith("-") else "command"
        near = _did_you_mean(rest[0], (word for inner in inner_commands(name) for word in spellings(inner)))
        _parser_of(name, {}).error(f"there is no {kind} {rest[0]}{near}")


def values_of(name: str, words: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, object]:
    """The values of all parameters of a command, from the words behind its name. Raises CommandError."""
    parser, parameters = _parser_of(name, environ), commands()[name]["parameters"]
    whole: dict[str, object] = {}
    if parameters and parameters[-1].get("hyphen"):
        ahead = len(parameters) - 1
        words, rest = words[:ahead], words[ahead:]
        whole[value_name(parameters[-1])] = tuple(rest[1:] if rest[:1] == ["--"] else rest)
    for word in words:
        if not word.isascii() and word.encode(errors="replace").decode() != word:
            parser.error(f"{word!r} is not UTF-8")
    given, others = parser.parse_known_intermixed_args(_marked(words))
    if others and others[0].startswith("-"):
        options = (option for parameter in parameters for option in option_names(parameter))
        parser.error(f"there is no option {others[0]}{_did_you_mean(others[0], options)}")
    if others:
        parser.error(f"too many words: {' '.join(word.removeprefix(BEHIND) for word in others)}")
    values: dict[str, Any] = vars(given)
    for parameter in parameters:
        if parameter.get("many"):
            many = value_name(parameter)
            values[many] = tuple(values[many] or environ.get(parameter.get("env", ""), "").split())
    return values | whole


def _marked(words: Sequence[str]) -> list[str]:
    """The words, of which those behind ``--`` begin with :data:`BEHIND`."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *(BEHIND + word for word in words[at + 1 :])]


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # here and not above: only a mistyped word needs it

    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def repeated(each: Callable[[], None], seconds: object, wait: Callable[[float], None]) -> None:
    """Do it once, or with a number of seconds again and again, so many seconds apart, without an end."""
    each()
    while isinstance(seconds, int):
        wait(seconds)
        from amqp10.cli.printing import begin_again

        begin_again()
        each()


def _carry_out(command: CommandEntry, values: dict[str, object]) -> None:
    seconds = values.pop(WATCH, None)
    repeated(lambda: _carry_out_once(command, dict(values)), seconds, sleep)


def _carry_out_once(command: CommandEntry, values: dict[str, object]) -> None:
    values |= command.get("given", {})
    if "run" in command:
        module, _, function = command["run"].partition(":")
        getattr(import_module(f"amqp10.cli.{module}"), function)(**values)
        return
    from amqp10.cli import requests  # here and not above: other commands need none of it

    requests.carry_out(command, values)


# --- parsers ---------------------------------------------------------------------------------------------------------


class _Parser(ArgumentParser):
    """A parser whose errors are those of a command."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(Exit.USAGE, f"{message} (see {self.prog} --help)")


def help_of(name: str) -> str:
    """The help of a command, of a noun, or of all commands if the name is empty."""
    command = commands().get(name, {})
    parser = _parser_of(name, os.environ)
    parser.description = _wrapped(_help(command) if command else HELP)
    parser.epilog = _wrapped(EPILOGUE)
    parser.formatter_class = _formatter
    if not command:
        parser.add_argument("--version", action="store_true", help="show the version and exit")
    if "parameters" not in command:
        parser.usage = f"{parser.prog} COMMAND"
    inner = parser.add_argument_group("commands")
    for words in sorted(inner_commands(name)):
        first, *others = spellings(words)
        shown = f"{first} ({', '.join(others)})" if others else first
        inner.add_argument(first, metavar=shown, help=_plain(commands()[words]["help"].partition("\n\n")[0]))
    return parser.format_help()


def _parser_of(name: str, environ: Mapping[str, str]) -> _Parser:
    """The parser of a command, without the texts that only its help has."""
    parser = _Parser(prog=f"headgate {name}".strip(), formatter_class=_checking_formatter, allow_abbrev=False)
    for parameter in commands().get(name, {}).get("parameters", ()):
        _add(parser, parameter, environ)
    return parser


def _checking_formatter(prog: str) -> HelpFormatter:
    """The formatter with which argparse checks each parameter. One without a width would look for the terminal's."""
    return HelpFormatter(prog, width=COLUMNS_MAX)


def _formatter(prog: str) -> RawDescriptionHelpFormatter:
    return RawDescriptionHelpFormatter(prog, width=_columns())


def _columns() -> int:
    from shutil import get_terminal_size  # here and not above: only help needs it

    return min(max(get_terminal_size().columns, COLUMNS_MIN), COLUMNS_MAX)


def _help(command: CommandEntry) -> str:
    examples = "\n".join(f"    {example}" for example in command.get("examples", ()))
    parts = (command["help"], examples and f"For example:\n\n{examples}", command.get("help_end"))
    return "\n\n".join(part for part in parts if part)


def _wrapped(text: str) -> str:
    """The text with lines that are not too long, but for examples."""
    from textwrap import fill

    return "\n".join(line if line.startswith(" ") else fill(line, _columns()) for line in text.splitlines())


def _plain(text: str) -> str:
    """The text as argparse takes it."""
    return text.replace("%", "%%")


# --- parameters ------------------------------------------------------------------------------------------------------


def _add(parser: ArgumentParser, parameter: CommandParameter, environ: Mapping[str, str]) -> None:
    kind, many = parameter.get("kind", ""), parameter.get("many", False)
    how: dict[str, Any] = {"help": _help_of(parameter)}
    if kind == "flag":
        how["action"] = "store_true"
    else:
        how |= {"type": _type_of(parameter), "choices": parameter.get("choices")}
        how["default"] = None if many else environ.get(parameter.get("env", ""), parameter.get("default"))
    options = option_names(parameter)
    if options:
        if many:
            how["action"] = "append"
        parser.add_argument(*options, dest=value_name(parameter), required=parameter.get("required", False), **how)
        return
    if many:
        how |= {"nargs": "*", "default": ()}
    elif parameter.get("optional"):
        how["nargs"] = "?"
    parser.add_argument(value_name(parameter), metavar=parameter["name"].upper(), **how)


def _path(word: str) -> object:
    from pathlib import Path  # here and not above: most commands take no file

    return Path(word)


TYPES: Mapping[str, Callable[[str], object]] = {"number": int, "seconds": float, "file": _path}
"""The kinds of parameters whose values are no texts. A value of another kind is a text on the command line."""


def _type_of(parameter: CommandParameter) -> Callable[[str], object]:
    """The function that makes the value of the word."""
    kind = parameter.get("kind", "")

    def value_of(word: str) -> object:
        word = word.removeprefix(BEHIND)
        try:
            value = TYPES.get(kind, str)(word)
        except ValueError:
            raise ArgumentTypeError(f"{word!r} is no {'whole number' if kind == 'number' else 'number'}") from None
        low, high = parameter.get("low", -NUMBER_MAX), parameter.get("high", NUMBER_MAX)
        if isinstance(value, int) and not low <= value <= high:
            raise ArgumentTypeError(f"{word} is not {low} to {high}")
        return value

    return value_of


def _help_of(parameter: CommandParameter) -> str:
    notes = [
        f"[default: {parameter['default']}]" if "default" in parameter else "",
        f"[environment: {parameter['env']}]" if "env" in parameter else "",
        f"[choices: {', '.join(parameter['choices'])}]"
        if "choices" in parameter and not option_names(parameter)
        else "",
    ]
    return _plain(" ".join(part for part in (parameter.get("help", ""), *notes) if part))
