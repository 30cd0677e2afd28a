"""``headgate completion``: prints the script with which a shell completes commands, options and values.

The script of each shell is a file beside this one. It runs ``headgate completion SHELL -- WORDS`` with the words that
are there so far, which prints what may follow.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from amqp10.cli.table import CommandParameter, commands, divided, inner_commands, option_names, spellings

BETWEEN = {"bash": None, "zsh": ":", "fish": "\t"}
"""What a shell expects between a word and what the word means. Bash shows words only."""
SHELLS = tuple(BETWEEN)
SCRIPTS = Path(__file__).with_name("completions")


def complete(shell: str, words: Sequence[str]) -> None:
    """Print the script for one of :data:`SHELLS`; if there are words, print what the last of them may become."""
    if not words:
        print(SCRIPTS.joinpath(f"headgate.{shell}").read_text(encoding="utf-8"), end="")
        return
    between = BETWEEN[shell]
    for word, meaning in _candidates(words[1:-1]):
        if word.startswith(words[-1]):
            print(word if between is None else f"{word}{between}{meaning}")


def _candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What may follow these words, which come behind ``headgate``, each with what it means."""
    name, rest = divided(words)
    parameters = commands().get(name, {}).get("parameters", [])
    options = {option: parameter for parameter in parameters for option in option_names(parameter)}
    if rest and rest[-1] in options and options[rest[-1]].get("kind") != "flag":
        yield from _choices(options[rest[-1]])
        return
    for inner in () if rest else inner_commands(name):
        yield spellings(inner)[0], _first_line(commands()[inner]["help"])
    for parameter in parameters:
        if not option_names(parameter):
            yield from _choices(parameter)
    for option, parameter in options.items():
        yield option, _first_line(parameter.get("help", ""))
    yield "--help", "Show help."


def _choices(parameter: CommandParameter) -> Iterator[tuple[str, str]]:
    for choice in parameter.get("choices", ()):
        yield choice, parameter["name"].removeprefix("--")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
