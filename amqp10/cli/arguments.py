"""``--argument KEY=VALUE``, as the commands that declare something take it."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit

Arguments = Annotated[
    tuple[str, ...], Parameter(name="--argument", help="KEY=VALUE; may be given several times.", negative="")
]


def arguments_of(texts: Sequence[str]) -> dict[str, object]:
    """The arguments; a value that reads as a number or as true or false is one. Raises CommandError."""
    return dict(_argument(text) for text in texts)


def _argument(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CommandError(Exit.USAGE, f"--argument {text}: must be KEY=VALUE")
    if value in ("true", "false"):
        return key, value == "true"
    return key, int(value) if value.removeprefix("-").isdecimal() else value
