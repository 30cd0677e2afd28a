"""``headgate examples``: the examples of all commands, or of those that a word is about, to copy and change."""

from collections.abc import Iterator, Sequence

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json
from amqp10.cli.table import CommandEntry, commands


def print_examples(words: Sequence[str], *, json: bool) -> None:
    """Print each example behind a comment that says what its command does. With words, print only the commands that
    have all of them in their name, their help or their examples. Raises CommandError if there are none."""
    found = [(name, entry) for name, entry in sorted(commands().items()) if entry.get("examples")]
    found = [(name, entry) for name, entry in found if _is_about(words, name, entry)]
    if not found:
        raise CommandError(Exit.NOT_FOUND, f"no example is about {' and '.join(words)}; headgate examples prints all")
    if json:
        print_json([{"command": name, "help": _first(entry), "examples": entry["examples"]} for name, entry in found])
    else:
        print("\n".join(line for _, entry in found for line in _lines(entry)), end="")


def _is_about(words: Sequence[str], name: str, entry: CommandEntry) -> bool:
    text = " ".join((name, entry.get("help", ""), *entry["examples"])).casefold()
    return all(word.casefold() in text for word in words)


def _lines(entry: CommandEntry) -> Iterator[str]:
    yield f"# {_first(entry)}"
    yield from entry["examples"]
    yield ""


def _first(entry: CommandEntry) -> str:
    """The first sentence of the help."""
    sentence, end, _ = entry.get("help", "").partition("\n")[0].partition(". ")
    return sentence + end.strip()
