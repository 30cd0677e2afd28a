"""Checks that a value read from JSON can be stored and sent: Python's reader accepts more than that."""

from math import isfinite

from core.slices import Walk

DEPTH_MAX = 16
"""The most levels of nested maps and lists. Known arguments have two."""
INTEGER_MAX = 2**63 - 1
"""The largest integer that both protocols and the store can encode."""


def no_constant(name: str) -> object:
    """Raise ValueError: the ``parse_constant`` of a reader that would otherwise accept NaN and Infinity."""
    raise ValueError(f"{name} is no number of JSON")


def checking(value: object, *, above: int = 0) -> Walk[None]:
    """Raise ValueError for a value that cannot be stored or sent, although it is JSON. ``above``: how many maps and
    lists are around the value."""
    if not isinstance(value, dict | list):
        _check_plain(value)
        return
    if above >= DEPTH_MAX:
        raise ValueError(f"maps and lists are nested deeper than {DEPTH_MAX}")
    for one in value if isinstance(value, list) else (*value, *value.values()):
        if isinstance(one, dict | list):
            yield from checking(one, above=above + 1)
        else:
            _check_plain(one)
    yield None


def _check_plain(value: object) -> None:
    if isinstance(value, int):
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise ValueError("an integer has more than 64 bits")
    elif isinstance(value, float):
        if not isfinite(value):
            raise ValueError("a number is too large")
    elif isinstance(value, str):
        value.encode("utf-8")  # half of a surrogate pair is no text
