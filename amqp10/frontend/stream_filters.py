"""How a consumer of a stream says where to begin and what it wants: the filters of its source [3.5.8].

Three filters are known, under the names that RabbitMQ's clients use. A filter is a described value whose descriptor
names it; a plain value under that name means the same. Filters on properties and SQL are refused. Any other filter is
not in force and so not in the answer: a client that cannot do without one has to look there [3.5.3].
"""

from collections.abc import Mapping
from typing import NamedTuple

from amqp10.errors import ErrorCondition, LinkFault, quote
from amqp10.types import Array, Described, Symbol, Timestamp, plain
from core.interface import AGE_SECONDS, StreamOptions, StreamPosition

OFFSET_SPEC = "rabbitmq:stream-offset-spec"
"""``first``, ``last`` (the newest chunk), ``next``, an offset, a timestamp, or an age such as ``5m``."""
FILTER = "rabbitmq:stream-filter"
"""A string, or a list of strings: messages with one of these filter values."""
MATCH_UNFILTERED = "rabbitmq:stream-match-unfiltered"
"""A boolean: with filter values, also messages that have none."""

REFUSED = frozenset({"amqp:properties-filter", "amqp:application-properties-filter", "amqp:sql-filter"})
"""Filters that the version in our open makes clients believe in. One that was left out would give its user messages
that it did not ask for, and RabbitMQ's clients do not look."""

VALUES_MAX = 256
"""Filter values of one consumer: each chunk that it reads is compared with all of them."""


class StreamFilters(NamedTuple):
    """What the filters of a source come to."""

    options: StreamOptions
    effective: dict[str, object]
    """Those that are in force, as they came."""


def stream_filters(given: Mapping[str, object] | None, wall: float) -> StreamFilters:
    """Read the filters of a stream's consumer; ``wall`` is the time from which ages are counted back.

    Raises LinkFault invalid-field for a value that its filter cannot have.
    """
    position: StreamPosition | float = StreamPosition.NEXT
    values: tuple[str, ...] = ()
    match_unfiltered = False
    effective: dict[str, object] = {}
    for key, described in (given or {}).items():
        name, value = _named(key, described)
        if name == OFFSET_SPEC:
            position = _position(value, wall)
        elif name == FILTER:
            values = _values(value)
        elif name == MATCH_UNFILTERED:
            match_unfiltered = _boolean(value)
        elif name in REFUSED:
            raise LinkFault(
                ErrorCondition.NOT_IMPLEMENTED, f"the filter {name} is not implemented; a stream has {FILTER}"
            )
        else:
            continue
        effective[key] = described
    options = StreamOptions(position=position, filter_values=values, match_unfiltered=match_unfiltered)
    return StreamFilters(options, effective)


def _named(key: str, value: object) -> tuple[str, object]:
    """What the filter is, by its descriptor where it has one, and its value."""
    if not isinstance(value, Described):
        return key, value
    descriptor = value.descriptor
    return (descriptor.value if isinstance(descriptor, Symbol) else key), value.value


def _position(value: object, wall: float) -> StreamPosition | float:
    if isinstance(value, Timestamp):
        return value.value / 1000
    bare = plain(value)
    if isinstance(bare, int) and not isinstance(bare, bool):
        return max(0, bare)  # clients that go on from before the first message ask for -1
    if isinstance(bare, str):
        if bare in {"first", "last", "next"}:
            return StreamPosition(bare)
        amount, unit = bare[:-1], bare[-1:]
        if unit in AGE_SECONDS and amount.isascii() and amount.isdigit() and len(amount) < 10:
            return wall - int(amount) * float(AGE_SECONDS[unit])
    raise _no_good(OFFSET_SPEC, value, "first, last, next, an offset, a timestamp, or an age such as 5m")


def _values(value: object) -> tuple[str, ...]:
    bare = plain(value)
    if isinstance(bare, str):
        return (bare,)
    if isinstance(value, list | Array) and isinstance(bare, list):
        values = [one for one in bare if isinstance(one, str)]
        if len(values) == len(bare) and 0 < len(values) <= VALUES_MAX:
            return tuple(values)
    raise _no_good(FILTER, value, f"a string, or a list of 1 to {VALUES_MAX} strings")


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _no_good(MATCH_UNFILTERED, value, "a boolean")
    return value


def _no_good(name: str, value: object, wanted: str) -> LinkFault:
    return LinkFault(ErrorCondition.INVALID_FIELD, f"the filter {name} is {quote(value)}; it must be {wanted}")
