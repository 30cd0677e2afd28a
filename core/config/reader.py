"""Reads a file into settings, or reports everything that is wrong with it."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path as FilePath

from pydantic import ValidationError

from core.config.address import is_loopback, parse_address
from core.config.lines import Path, line_numbers
from core.config.problems import ConfigError, describe
from core.config.settings import Settings

FILE_BYTES_MAX = 2**20
"""The largest configuration file. A path given by mistake may name a much larger file."""

_EXPOSED = (
    "can be reached from other machines, and there are no users; "
    "add [[users]] (keys: headgate hash-password) or listen on 127.0.0.1"
)

_NO_CERTIFICATE = " needs tls.certificate and tls.key; for a trial make them with: headgate tls init FOLDER"


COMMAND_LINE = "command line"


def load(
    path: FilePath | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    origins: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings in a TOML file, or the defaults. ``overrides``, by dotted key, take precedence over the file;
    ``origins`` says where each comes from, if not from the command line.

    Raises ConfigError with all problems at once, each with its file and line.
    """
    settings, _ = load_with_origins(path, overrides, origins=origins)
    return settings


def load_with_origins(
    path: FilePath | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    origins: Mapping[str, str] | None = None,
) -> tuple[Settings, Mapping[Path, str]]:
    """The same, with the place of each key that was given: a line of the file, an environment variable, or the command
    line."""
    text = "" if path is None else _read(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_problem(str(path), text, str(error))]) from None
    places = {keys: f"{path}:{line}" for keys, line in line_numbers(text).items()}
    for key, value in (overrides or {}).items():
        keys = tuple(key.split("."))
        _override(table, keys, value)
        places[keys] = (origins or {}).get(key, COMMAND_LINE)
    try:
        settings = Settings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(_problems(error, table, places, default=str(path))) from None
    for key in ("listen", "tls_listen"):
        _check_exposure(settings, key, _place(places, ("server", key), default=str(path)))
    for keys, wanted in (("server", "tls_listen"), settings.server.tls_listen), (("admin", "tls"), settings.admin.tls):
        if wanted and settings.tls.certificate is None:
            raise ConfigError([f"{_place(places, keys, default=str(path))}: {'.'.join(keys)}{_NO_CERTIFICATE}"])
    return settings, places


def _read(path: FilePath) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError([f"{path}: is larger than {FILE_BYTES_MAX} bytes"])
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8 (byte {error.start})"]) from None


def _syntax_problem(path: str, text: str, words: str) -> str:
    """The parser's message, with the line in front where it is our message. A syntax error is reported alone."""
    at = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", words, re.DOTALL)
    if at is None:
        return f"{path}:{text.count(chr(10)) + 1}: {words}"
    return f"{path}:{at[2]}: {at[1]} (column {at[3]})"


def _override(table: dict[str, object], keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # the file has a value of another type there, which is reported
        table = inner
    table[keys[-1]] = value


def _place(places: Mapping[Path, str], keys: Path, *, default: str) -> str:
    """The place of a key; for a key that is not in the file, the place of the innermost table around it."""
    for length in range(len(keys), 0, -1):
        if keys[:length] in places:
            return places[keys[:length]]
    return default


def _problems(
    error: ValidationError, table: Mapping[str, object], places: Mapping[Path, str], *, default: str
) -> list[str]:
    found = []
    for entry in error.errors(include_url=False):
        text = describe(
            root=Settings,
            kind=entry["type"],
            path=entry["loc"],
            value=_written(table, entry["loc"]),
            context=entry.get("ctx", {}),
        )
        found.append((_place(places, entry["loc"], default=default), text))
    return [f"{place}: {text}" for place, text in sorted(found, key=_by_line)]


def _written(value: object, keys: Path) -> object:
    """The value in the file. Pydantic reports the value that its validators have made of it."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return value


def _by_line(problem: tuple[str, str]) -> tuple[int, str]:
    line = problem[0].rpartition(":")[2]
    return (int(line) if line.isdigit() else 0, problem[1])


def _check_exposure(settings: Settings, key: str, place: str) -> None:
    """Without users, any peer that reaches the port could try guest; so it must be reachable from this machine only."""
    if settings.users:
        return
    addresses: tuple[str, ...] = getattr(settings.server, key)
    exposed = [address for address in addresses if not is_loopback(parse_address(address)[0])]
    if exposed:
        raise ConfigError([f'{place}: server.{key} = "{address}": {_EXPOSED}' for address in exposed])
