"""``headgate config``: checks and shows a configuration before a broker reads it."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json, print_rows, tell

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


def show(file: Path | None, *, changes: Sequence[str], origin: bool, json: bool) -> None:
    """Print all settings of a configuration as a TOML file, or one a line with the place that it comes from."""
    # here and not above: help needs no settings, and they take 150 ms of CPU to import
    from core.config import render, render_origins

    settings, places = read_with_origins(file, changes)
    if origin:
        rows = [
            {"setting": key, "value": value, "origin": place} for key, value, place in render_origins(settings, places)
        ]
        print_rows(rows, ("setting", "value", "origin"), as_json=json)
        return
    rendered = render(settings)
    if json:
        print_json(tomllib.loads(rendered))
    else:
        print(rendered, end="")


def all_overrides(
    changes: Sequence[str], overrides: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, object], dict[str, str]]:
    """What takes precedence over the file: the environment, over it the texts KEY=VALUE, over them the options. The
    second map has the environment variables. Raises ConfigError."""
    from core.config.overrides import from_environment, from_pairs, variable_of

    surroundings = from_environment(environ)
    given = {**surroundings, **from_pairs(changes), **(overrides or {})}
    said = {*from_pairs(changes), *(overrides or {})}
    return given, {key: f"environment {variable_of(key)}" for key in surroundings if key not in said}


def _name(file: Path | None) -> str | None:
    return None if file is None else str(file)


def read_settings(file: Path | None) -> "Settings":
    """The settings of a configuration, and of the environment. Raises CommandError with all problems."""
    settings, _ = read_with_origins(file)
    return settings


def read_with_origins(
    file: Path | None, changes: Sequence[str] = (), overrides: Mapping[str, object] | None = None
) -> tuple["Settings", Mapping[tuple[str | int, ...], str]]:
    """The settings of a configuration, and where each that was given comes from. ``changes`` are texts KEY=VALUE of the
    command line. Raises CommandError with all problems."""
    from core.config import ConfigError, load_with_origins

    try:
        given, origins = all_overrides(changes, overrides)
        return load_with_origins(file, given, origins=origins)
    except ConfigError as error:
        raise CommandError(Exit.USAGE, "the configuration cannot be used:\n  " + "\n  ".join(error.problems)) from None
