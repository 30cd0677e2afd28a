"""Bodies that are objects: dataclasses, and models of pydantic where that library is installed.

Between services a body is a value of the AMQP type system [1.6]. :func:`plain` makes one of an object: a map of its
fields. :func:`read` makes an object of a value that came. A dataclass is read by pydantic too, if it is there: then
values are checked and converted, dates and enums for example. Without pydantic only the names of the fields are
checked, and dataclasses inside of dataclasses are read in the same way.
"""

import dataclasses
import sys
import typing
from collections.abc import Hashable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from types import NoneType, UnionType
from typing import TYPE_CHECKING, TypeVar, cast, get_args, get_origin

from amqp10.services.errors import BadBody

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

AS_THEY_ARE = frozenset((bytes, str, int, float, bool, NoneType, list, dict))
"""Types of bodies that are looked at no further; most bodies have one of them. Objects inside lists and maps must be
made plain by their sender."""


def plain(body: object) -> object:
    """The value that is sent for a body. Objects that are neither dataclasses nor models stay as they are."""
    if type(body) in AS_THEY_ARE:
        return body
    if _is_model(type(body)):
        return body.model_dump(mode="json")  # type: ignore[attr-defined]  # a pydantic model has it
    if dataclasses.is_dataclass(body) and not isinstance(body, type):
        if find_spec("pydantic") is None:
            return dataclasses.asdict(body)
        return _adapter(type(body)).dump_python(body, mode="json")
    return body


def read(wanted: type[T], body: object) -> T:
    """The object of this class that a body stands for. Raises BadBody, which names the field that is wrong."""
    if _is_model(wanted) or (dataclasses.is_dataclass(wanted) and find_spec("pydantic") is not None):
        try:
            return cast("T", _adapter(cast("Hashable", wanted)).validate_python(body))
        except ValueError as error:
            raise BadBody(f"the body is no {wanted.__name__}: {_first_problem(error)}") from None
    return cast("T", _read_plainly(wanted, body, wanted.__name__))


def readable(wanted: object) -> bool:
    """Whether :func:`read` can make objects of this class."""
    return isinstance(wanted, type) and (dataclasses.is_dataclass(wanted) or _is_model(wanted))


def _read_plainly(wanted: object, body: object, place: str) -> object:
    """Read without pydantic; ``place`` is the name of the field for an error."""
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        if not isinstance(body, Mapping):
            raise BadBody(f"{place} is no map of fields, but {type(body).__name__}")
        fields, hints = dataclasses.fields(wanted), typing.get_type_hints(wanted)
        unknown = sorted(str(name) for name in body if name not in hints)
        if unknown:
            raise BadBody(f"{place} has no field {unknown[0]!r}")
        for field in fields:
            optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            if field.name not in body and not optional:
                raise BadBody(f"{place}.{field.name} is missing")
        return wanted(**{
            str(name): _read_plainly(hints[str(name)], value, f"{place}.{name}") for name, value in body.items()
        })  # fmt: skip
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is list and isinstance(body, list):
        return [_read_plainly(inner[0], value, f"{place}[{number}]") for number, value in enumerate(body)]
    if origin in (dict, Mapping) and isinstance(body, Mapping):
        return {key: _read_plainly(inner[1], value, f"{place}[{key!r}]") for key, value in body.items()}
    if origin in (UnionType, typing.Union) and body is not None:
        return _read_plainly(next(one for one in inner if one is not NoneType), body, place)
    return body


def _is_model(wanted: type) -> bool:
    """Whether a class is a model of pydantic. A program that has not imported pydantic has no models."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(wanted, pydantic.BaseModel)


@lru_cache(maxsize=1000)
def _adapter(wanted: Hashable) -> "TypeAdapter[object]":
    """What pydantic has made of a class. Making it takes longer than using it."""
    from pydantic import TypeAdapter

    adapter: TypeAdapter[object] = TypeAdapter(cast("type", wanted))
    return adapter


def _first_problem(error: ValueError) -> str:
    """The place and the text of the first problem that pydantic has found."""
    problems: list[dict[str, typing.Any]] = error.errors()  # type: ignore[attr-defined]  # of a ValidationError
    return f"{'.'.join(map(str, problems[0]['loc']))}: {problems[0]['msg']}"
