"""Settings that come from the environment and from the command line, and where each setting in force comes from.

``HEADGATE__SERVER__CONNECTIONS_MAX=500`` and ``--set server.connections_max=500`` say the same as ``connections_max =
500`` in the table ``[server]``. A value is written as in the file; what is no value of TOML is a text, so that texts
need no quotes. Lists of tables, such as ``[[users]]``, are in a file only.
"""

import tomllib
from collections.abc import Iterable, Mapping

from core.config.problems import ConfigError

PREFIX = "HEADGATE__"
"""Two underscores: the environment variables of the commands have one."""
SEPARATOR = "__"


def from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings in environment variables, by their dotted keys."""
    return {
        name.removeprefix(PREFIX).replace(SEPARATOR, ".").lower(): _value(text)
        for name, text in sorted(environ.items())
        if name.startswith(PREFIX)
    }


def from_pairs(pairs: Iterable[str]) -> dict[str, object]:
    """Return the settings in texts such as ``server.connections_max=500``, by their dotted keys. Raises ConfigError."""
    found = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip(". "):
            raise ConfigError([f"command line: {pair!r} must be KEY=VALUE, for example log.level=debug"])
        found[key.strip()] = _value(text)
    return found


def variable_of(key: str) -> str:
    """Return the name of the environment variable of a setting."""
    return PREFIX + key.upper().replace(".", SEPARATOR)


def _value(text: str) -> object:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if table.keys() == {"value"} else text
