"""The configuration file with every key, its default and its help: generated from the schema."""

import ast
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from inspect import cleandoc, getsource
from itertools import pairwise
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.config.problems import table_of, unit_of
from core.config.settings import Settings

_WIDTH = 110

_TOP = """\
# Headgate's configuration: every key with its default.
# Generated from core/config by `make docs`; a copy of it is a good start for a file of your own.
# Sizes and durations are texts with a unit: "64MiB", "250ms". Check a file with: headgate config check FILE
"""

_USERS = """\
# [[users]]
# name = "alice"
# scram = "SCRAM-SHA-256$…"
"""


_SNI = """\
# [[tls.sni]]
# name = "broker.example.org"
# certificate = "other.pem"
# key = "other.key"
"""

_ALIASES = """\
# [[oauth2.scope_aliases]]
# alias = "api://broker/Orders.Write"
# scopes = ["write:*/orders.*"]
"""

_NODES = """\
# [[cluster.nodes]]
# name = "b"
# address = "10.0.0.2:5672"
# queues = ["orders.*"]
"""

_EXAMPLES = {"cluster.nodes": _NODES, "tls.sni": _SNI, "oauth2.scope_aliases": _ALIASES}
"""An entry of each list of tables, by its name."""


def render_default() -> str:
    """The text of ``config/broker.toml``. Loading it gives the default settings."""
    users = _help(docstrings(Settings), "users", Settings.model_fields["users"])
    return _TOP + "".join(_table(Settings(), "")) + "\n" + _comment(users) + _USERS


def origins(settings: Settings, places: Mapping[tuple[str | int, ...], str]) -> list[tuple[str, str, str]]:
    """The settings in force, each with its key, its value and where it comes from: ``places``, or the default."""
    return [(".".join(keys), text, places.get(keys, "default")) for keys, text in _lines(settings, ())]


def _lines(section: BaseModel, inside: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, field in type(section).model_fields.items():
        value, keys = getattr(section, key), (*inside, key)
        if isinstance(value, BaseModel):
            yield from _lines(value, keys)
        elif table_of(field) is None and key != "users":
            yield keys, "" if value is None else _assignment(key, value, field).partition(" = ")[2].strip()


def render(settings: Settings) -> str:
    """The settings in force, as a file without the keys of passwords."""
    users = "".join(f"\n[[users]]\nname = {_value_text(user.name)}\n# scram = …\n" for user in settings.users)
    return "".join(_table(settings, "")).lstrip("\n") + users


def _table(section: BaseModel, name: str) -> Iterator[str]:
    fields, texts = type(section).model_fields, docstrings(type(section))
    values = {key: getattr(section, key) for key in fields if key != "users"}
    if name:
        yield f"\n# {_first_sentence(type(section))}\n[{name}]\n"
    for key, value in values.items():
        if not isinstance(value, BaseModel) and table_of(fields[key]) is None:
            yield "\n" + _comment(_help(texts, key, fields[key])) + _assignment(key, value, fields[key])
    for key, value in values.items():
        inner = f"{name}.{key}" if name else key
        if isinstance(value, BaseModel):
            yield from _table(value, inner)
        elif isinstance(value, tuple) and table_of(fields[key]) is not None:
            yield "\n" + _comment(_help(texts, key, fields[key])) + (_tables(inner, value) or _EXAMPLES[inner])


def _tables(name: str, entries: tuple[BaseModel, ...]) -> str:
    """The tables of a list of tables, without help."""
    return "\n".join(
        f"[[{name}]]\n"
        + "".join(_assignment(key, getattr(entry, key), field) for key, field in type(entry).model_fields.items())
        for entry in entries
    )


def _assignment(key: str, value: object, field: FieldInfo) -> str:
    if value is None:
        return f"# {key} =\n"
    unit = unit_of(field)
    if unit is not None and isinstance(value, int | float):
        return f"{key} = {unit.render(value)}\n"
    return f"{key} = {_value_text(value)}\n"


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value_text, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, _WIDTH - 2, break_on_hyphens=False))


def docstrings(section: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings of a section's fields, read from its source.

    Pydantic would collect them if it was told to, but when the classes are made, at every start of a broker.
    """
    module = ast.parse(getsource(sys.modules[section.__module__]))
    [made] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == section.__name__]
    texts = {}
    for pair in pairwise(made.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = cleandoc(text)
    return texts


def _help(texts: Mapping[str, str], key: str, field: FieldInfo) -> str:
    """The field's docstring, then its unit and limits in brackets."""
    unit = unit_of(field)
    notes = [unit.name] if unit is not None and not unit.name.startswith(("bytes", "a duration")) else []
    notes += _limits(field)
    notes += [f"one of {', '.join(map(repr, get_args(field.annotation)))}"] if _is_choice(field) else []
    return " ".join(texts[key].split()) + (f" ({', '.join(notes)})" if notes else "")


def _limits(field: FieldInfo) -> list[str]:
    unit = unit_of(field)
    low, high = (next((getattr(m, name) for m in field.metadata if hasattr(m, name)), None) for name in ("ge", "le"))
    texts = [None if limit is None or unit is None else unit.render(limit).strip('"') for limit in (low, high)]
    match texts:
        case [str() as low_text, str() as high_text]:
            return [f"{low_text} to {high_text}"]
        case [str() as low_text, None]:
            return [f"{low_text} or more"]
    return []


def _is_choice(field: FieldInfo) -> bool:
    return bool(get_args(field.annotation)) and all(isinstance(a, str) for a in get_args(field.annotation))


def _first_sentence(section: type[BaseModel]) -> str:
    return " ".join((section.__doc__ or "").split("\n\n")[0].split())
