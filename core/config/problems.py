"""What is wrong with a configuration, in texts that name the place, the value, the limit and the remedy."""

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.config.lines import Path
from core.config.units import Unit

_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}

_TYPES = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text in quotes",
    "tuple_type": "must be a list in brackets",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "path_type": "must be a text in quotes",
    "is_instance_of": "must be a text in quotes",
    "dataclass_type": "must be a text in quotes",
}

_SECRET = frozenset({"scram"})
"""Keys whose values are never repeated."""

VALUE_LENGTH_MAX = 80
"""Characters of a wrong value that are repeated in a problem; the rest is cut."""


class ConfigError(Exception):
    """The configuration cannot be used. ``problems`` has one line for each thing that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def describe(*, root: type[BaseModel], kind: str, path: Path, value: object, context: Mapping[str, object]) -> str:
    """Describe one problem that Pydantic reports (``kind`` is its error type), without the place."""
    key = dotted(path)
    if kind == "extra_forbidden":
        return f"{key} is not a key{_suggestion(root, path)}"
    if kind == "missing":
        return f"{key} is missing"
    shown = "" if path[-1] in _SECRET else f" = {_shown(value)}"
    return f"{key}{shown}: {_demand(root, kind, path, context)}"


def _demand(root: type[BaseModel], kind: str, path: Path, context: Mapping[str, object]) -> str:
    for name, words in _LIMITS.items():
        if name in context:
            return f"must be {words} {_in_unit(root, path, context[name])}"
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if "min_length" in context:
        return "must not be empty"
    if "max_length" in context:
        return f"must not be longer than {context['max_length']}"
    return f"is not valid ({kind})"


def dotted(path: Path) -> str:
    """A path as users write it: ``users[2].name``, counted from 1."""
    text = ""
    for step in path:
        text += f"[{step + 1}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= VALUE_LENGTH_MAX else text[:VALUE_LENGTH_MAX] + "…"


def _in_unit(root: type[BaseModel], path: Path, limit: object) -> str:
    field = field_at(root, path)
    unit = unit_of(field) if field is not None else None
    return unit.render(limit) if unit is not None and isinstance(limit, int | float) else str(limit)


def unit_of(field: FieldInfo) -> Unit | None:
    """The field's unit, also where the field is optional."""
    candidates = [*field.metadata]
    for option in get_args(field.annotation):
        candidates += getattr(option, "__metadata__", ())
    return next((candidate for candidate in candidates if isinstance(candidate, Unit)), None)


def table_of(field: FieldInfo) -> type[BaseModel] | None:
    """The section that the field holds, or of which it holds several."""
    options = (field.annotation, *get_args(field.annotation))
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def field_at(root: type[BaseModel], path: Path) -> FieldInfo | None:
    """The field at a path; None when there is none."""
    table: type[BaseModel] | None = root
    field = None
    for step in path:
        if isinstance(step, int):
            continue
        field = table.model_fields.get(step) if table is not None else None
        if field is None:
            return None
        table = table_of(field)
    return field


def _keys(table: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in table.model_fields.items():
        yield prefix + name
        inner = table_of(field)
        if inner is not None:
            yield from _keys(inner, f"{prefix}{name}.")


def _suggestion(root: type[BaseModel], path: Path) -> str:
    """The valid key that is most similar to this one: in its own table if any is, else anywhere."""
    from difflib import get_close_matches  # here and not above: a broker starts with a configuration that is right

    names = [step for step in path if isinstance(step, str)]
    known = list(_keys(root))
    siblings = [key for key in known if key.split(".")[:-1] == names[:-1]]
    near = get_close_matches(names[-1], [key.split(".")[-1] for key in siblings], n=1)
    if near:
        return f"; did you mean {'.'.join([*names[:-1], near[0]])}?"
    elsewhere = [key for key in known if key.split(".")[-1] == names[-1]]
    elsewhere += get_close_matches(".".join(names), known, n=1)
    return f"; did you mean {elsewhere[0]}?" if elsewhere else ""
