"""``headgate config``: checks and shows a configuration before a broker reads it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json, tell

if TYPE_CHECKING:
    from core.config import Settings


def check(file: Path | None, *, json: bool) -> None:
    """Print whether a broker can use a configuration."""
    try:
        read_settings(file)
    except CommandError as error:
        if json:
            print_json({"file": _name(file), "good": False, "text": error.text})
        raise
    tell(f"{file or 'the default configuration'} is good", {"file": _name(file), "good": True}, as_json=json)


def show(file: Path | None, *, json: bool) -> None:
    """Print all settings of a configuration as a TOML file."""
    from core.config import render  # here and not above: help needs no settings, and they take 150 ms of CPU to import

    rendered = render(read_settings(file))
    if json:
        print_json(tomllib.loads(rendered))
    else:
        print(rendered, end="")


def _name(file: Path | None) -> str | None:
    return None if file is None else str(file)


def read_settings(file: Path | None, overrides: Mapping[str, object] | None = None) -> "Settings":
    """The settings of a configuration. Raises CommandError with all problems."""
    from core.config import ConfigError, load

    try:
        return load(file, overrides)
    except ConfigError as error:
        raise CommandError(Exit.USAGE, "the configuration cannot be used:\n  " + "\n  ".join(error.problems)) from None
