"""The filters with which a consumer of a stream chooses its position and its messages [3.5.8], and one for copies of
what a consumer of a queue holds.

Three filters of streams are known, under the names that RabbitMQ's clients use. A filter is a described value whose
descriptor names it; a plain value under that name means the same.

Every other filter is refused, and on other queues every filter that would hold messages back. The specification
allows instead to leave such a filter out of the answer [3.5.3]. But JMS clients and RabbitMQ's do not check the answer,
and their users would get, and settle, messages that they did not ask for. A filter that is null counts as absent.
"""

from collections.abc import Mapping
from typing import NamedTuple

from amqp10.errors import ErrorCondition, LinkFault, quote
from amqp10.protocol.stream_offsets import OFFSET_SPEC
from amqp10.wire.types import Array, Described, Symbol, Timestamp, ULong, plain
from core.held import HOLDER_BYTES_MAX, HeldRange
from core.interface import AGE_SECONDS, StreamOptions, StreamPosition

FILTER = "rabbitmq:stream-filter"
"""A string, or a list of strings: messages with one of these filter values."""
MATCH_UNFILTERED = "rabbitmq:stream-match-unfiltered"
"""A boolean: with filter values, also messages that have none."""

HELD = "headgate:held"
"""Of a queue, with distribution-mode copy: copies of messages that another consumer holds. A list of the name of that
consumer, and the first and the last sequence number, both inclusive."""

OF_STREAMS = (OFFSET_SPEC, FILTER, MATCH_UNFILTERED)
"""All filters of streams."""
NAMES = {
    0x0000_468C_0000_0003: "apache.org:no-local-filter:list",
    0x0000_468C_0000_0004: "apache.org:selector-filter:string",
    0x120: "amqp:sql-filter",
    0x173: "amqp:properties-filter",
    0x174: "amqp:application-properties-filter",
}
"""Filters that clients name by number, with their names for the text of a refusal."""

VALUES_MAX = 256
"""Filter values of one consumer: each chunk that it reads is compared with all of them."""


class StreamFilters(NamedTuple):
    """The result of reading the filters of a source."""

    options: StreamOptions
    effective: dict[str, object]
    """The filters in force, unchanged."""
    held: HeldRange | None = None
    """Of a queue: which copies the consumer wants."""


def stream_filters(given: Mapping[str, object] | None, wall: float) -> StreamFilters:
    """Read the filters of a stream's consumer; ``wall`` is the time from which ages are counted back.

    Raises LinkFault: not-implemented for an unknown filter, invalid-field for a value that its filter cannot have.
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
        elif described is None:
            continue
        else:
            raise _not_implemented(name, f"a stream has {', '.join(OF_STREAMS)}")
        effective[key] = described
    options = StreamOptions(position=position, filter_values=values, match_unfiltered=match_unfiltered)
    return StreamFilters(options, effective)


def held_filter(given: Mapping[str, object] | None) -> StreamFilters | None:
    """Read the filter for copies of what a consumer holds; None where it is not given. Raises LinkFault for a value
    that it cannot have, and for another filter beside it."""
    for key, described in (given or {}).items():
        name, value = _named(key, described)
        if name != HELD or described is None:
            continue
        if given is not None and len(given) > 1:
            raise _not_implemented(next(other for other in given if other != key), f"{HELD} stands alone")
        match plain(value):
            case [str(holder), int(first), int(last)] if (
                0 < len(holder.encode()) <= HOLDER_BYTES_MAX and 0 <= first <= last and not isinstance(first, bool)
            ):
                return StreamFilters(StreamOptions(), {key: described}, HeldRange(holder, first, last))
        raise _no_good(HELD, value, "a list of a consumer's name and two sequence numbers, first and last")
    return None


def filters_for(options: StreamOptions) -> dict[str, object] | None:
    """The filters by which another node is asked for the same; None for those that hold without any."""
    filters: dict[str, object] = {}
    match options.position:
        case StreamPosition.NEXT:
            pass
        case StreamPosition():
            filters[OFFSET_SPEC] = options.position.value
        case int():
            filters[OFFSET_SPEC] = ULong(options.position)
        case _:
            filters[OFFSET_SPEC] = Timestamp(round(options.position * 1000))
    if options.filter_values:
        filters[FILTER] = list(options.filter_values)
    if options.match_unfiltered:
        filters[MATCH_UNFILTERED] = True
    return {name: Described(Symbol(name), value) for name, value in filters.items()} or None


def check_unfiltered(given: Mapping[str, object] | None) -> None:
    """Raises LinkFault not-implemented for a filter of a node that is not a stream.

    The filters for the position, and for messages without filter value, hold no message back: clients of RabbitMQ may
    send them for any queue, and they are left out of the answer.
    """
    for key, described in (given or {}).items():
        name, _ = _named(key, described)
        if described is not None and name not in (OFFSET_SPEC, MATCH_UNFILTERED):
            hint = "it is one of streams" if name == FILTER else "attach without it, or filter by bindings"
            raise _not_implemented(name, hint)


def _not_implemented(name: str, hint: str) -> LinkFault:
    return LinkFault(ErrorCondition.NOT_IMPLEMENTED, f"the filter {quote(name)} is not implemented here; {hint}")


def _named(key: str, value: object) -> tuple[str, object]:
    """The name of the filter, from its descriptor if it has one, and its value."""
    if not isinstance(value, Described):
        return key, value
    match value.descriptor:
        case Symbol(value=name):
            return name, value.value
        case ULong(value=number) if number in NAMES:
            return NAMES[number], value.value
    return key, value.value


def _position(value: object, wall: float) -> StreamPosition | float:
    if isinstance(value, Timestamp):
        return value.value / 1000
    bare = plain(value)
    if isinstance(bare, int) and not isinstance(bare, bool):
        return max(0, bare)  # clients that continue from before the first message ask for -1
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
