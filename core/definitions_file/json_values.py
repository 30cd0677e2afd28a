"""Reads JSON of definitions files: bounded, unambiguous, and only with values that a broker can keep.

Python accepts more than JSON (NaN, numbers of any size), silently takes the last of two equal keys, and accepts halves
of surrogate pairs in strings. Here each of these is a problem with its place, because the meaning of a file must not
depend on the program that reads it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isinf, isnan

from core.definitions_file.document import Remark
from core.slices import Walk, run_at_once

FILE_BYTES_MAX = 16 * 1024 * 1024
"""The size of the largest file: 50,000 queues with several arguments each are 12 MiB."""
VALUES_MAX = 2_000_000
"""The most values in a file, so that a file of brackets only does not take gigabytes of memory: 50,000 queues and as
many bindings, with 15 values each, are 1.5 million."""
DEPTH_MAX = 16
"""The most levels of objects and arrays. Arguments begin at the fourth level, and a management request has no more
levels than this."""
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
"""The integers that both protocols can encode."""
DIGITS_MAX = 20
"""Digits of the largest integer; numbers with more digits are not computed."""

Path = tuple[str | int, ...]


def parse(data: bytes) -> tuple[object, list[Remark]]:
    """Parse the bytes of a file. Returns the value, or None if it cannot be parsed, and the problems found."""
    if len(data) > FILE_BYTES_MAX:
        return None, [Remark("", f"it has more than {FILE_BYTES_MAX} bytes; split it")]
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > VALUES_MAX:
        return None, [Remark("", f"it has more than {VALUES_MAX} values; split it")]
    twice = _Twice()
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=twice.made, parse_int=_integer, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        return None, [Remark("", f"byte {error.start} is not UTF-8; save it as UTF-8")]
    except json.JSONDecodeError as error:
        return None, [Remark("", f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}")]
    except ValueError as error:
        return None, [Remark("", f"it is not JSON: {error}")]
    except RecursionError:
        return None, [Remark("", f"it is nested too deeply; at most {DEPTH_MAX} levels are read")]
    return value, problems_of(value, twice=twice)


class _Twice:
    """Remembers objects with duplicate keys. It keeps references to them, so that their ids stay unique."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[dict[str, object], list[str]]] = {}

    def made(self, pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        """Make an object; the hook for the JSON decoder."""
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self._objects[id(value)] = (value, sorted(name for name, count in counts.items() if count > 1))
        return value

    def keys(self, value: dict[str, object]) -> list[str]:
        """Return the duplicate keys of this object."""
        return self._objects[id(value)][1] if id(value) in self._objects else []


def problems_of(root: object, *, twice: _Twice | None = None) -> list[Remark]:
    """Return the problems of values that no definitions file may have, each with its place."""
    return run_at_once(finding_problems(root, twice=twice))


def finding_problems(root: object, *, twice: _Twice | None = None) -> Walk[list[Remark]]:
    """``problems_of`` as a walk."""
    problems = []
    for found in _walk(root, (), _Twice() if twice is None else twice):
        if found is None:
            yield None
        else:
            problems.append(Remark(shown_path(found[0]), found[1]))
    return problems


def _walk(value: object, path: Path, twice: _Twice) -> Iterator[tuple[Path, str] | None]:
    """Yield problems, and None after each object and array."""
    if isinstance(value, dict | list) and len(path) >= DEPTH_MAX:
        yield path, f"it is deeper than {DEPTH_MAX} levels"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index), twice)
        yield None
    elif isinstance(value, dict):
        for key in twice.keys(value):
            yield (*path, key), "this key is there twice; keep one of them"
        for key, item in value.items():
            if not _is_text(key):
                yield path, f"the key {cut(key)} is no Unicode text"
            yield from _walk(item, (*path, key), twice)
        yield None
    else:
        wrong = _wrong(value)
        if wrong is not None:
            yield path, wrong


def _wrong(value: object) -> str | None:
    match value:
        case str():
            return None if _is_text(value) else f"{cut(value)} is no Unicode text; half of a surrogate pair is in it"
        case bool() | None:
            return None
        case int():
            fits = INTEGER_MIN <= value <= INTEGER_MAX
            return None if fits else f"the number must be from {INTEGER_MIN} to {INTEGER_MAX}"
        case float() if not isnan(value):
            return "the number is too large" if isinf(value) else None
        case _:
            return f"{cut(value)} has no form in JSON"


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(text: str) -> int:
    """Return the number; for too many digits, another number that is also too large."""
    return int(text[: DIGITS_MAX + 2])


def _no_number(text: str) -> float:
    """Refuse a constant that Python accepts and JSON does not have."""
    raise ValueError(f"{text} is no number")


VALUE_LENGTH_MAX = 80
"""The most characters of a wrong value in a message."""


def cut(value: object) -> str:
    """Return a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= VALUE_LENGTH_MAX else text[:VALUE_LENGTH_MAX] + "…"


def shown_path(path: Path) -> str:
    """Return a place as jq writes it, without the leading dot."""
    steps = []
    for step in path:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step.replace("-", "").replace("_", "").isalnum():
            steps.append(f".{step}")
        else:
            steps.append(f"[{json.dumps(step[:VALUE_LENGTH_MAX])}]")
    return "".join(steps).removeprefix(".")
