"""Options of several commands: ``--argument KEY=VALUE`` of a declaration, and ``--data``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit

Arguments = Annotated[
    tuple[str, ...],
    Parameter(name="--argument", help="An argument as KEY=VALUE. Can be given several times.", negative=""),
]

Data = Annotated[Path, Parameter(help="The data folder of a stopped broker.")]


def arguments_of(texts: Sequence[str]) -> dict[str, object]:
    """The arguments by key. A value that is written as an integer, true or false becomes one. Raises CommandError."""
    return dict(_argument(text) for text in texts)


def _argument(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CommandError(Exit.USAGE, f"--argument {text}: must be KEY=VALUE")
    if value in ("true", "false"):
        return key, value == "true"
    return key, int(value) if value.removeprefix("-").isdecimal() else value
