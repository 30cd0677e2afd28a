"""``headgate config``: checks and shows a configuration before a broker reads it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import AsJson, print_json, tell

if TYPE_CHECKING:
    from core.config import Settings

config_app = App(name="config", help="Check and show configurations.")

File = Annotated[Path | None, Parameter(help="A TOML file. Without it: the default configuration.")]


@config_app.command
def check(file: File = None, /, *, json: AsJson = False) -> None:
    """Check whether a broker can use a configuration, and print all errors in it.

    For example:

        headgate config check broker.toml
    """
    try:
        read_settings(file)
    except CommandError as error:
        if json:
            print_json({"file": _name(file), "good": False, "text": error.text})
        raise
    tell(f"{file or 'the default configuration'} is good", {"file": _name(file), "good": True}, as_json=json)


@config_app.command
def show(file: File = None, /, *, json: AsJson = False) -> None:
    """Print all settings of a configuration as a TOML file, without the keys of passwords.

    For example:

        headgate config show
        headgate config show broker.toml > explained.toml
    """
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
