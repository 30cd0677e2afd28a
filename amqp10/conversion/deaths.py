"""The deaths of a dead-lettered message, as its annotations record them.

Names and types are RabbitMQ's, because clients written for RabbitMQ look for them:

- ``x-opt-deaths``: an array of maps, the newest first, one for each pair of queue and reason. A map holds ``queue``,
  ``reason`` (a symbol), ``count``, ``first-time`` and ``last-time``. It also holds ``exchange``, ``routing-keys`` and,
  where the message had one, ``ttl``, with their values at the first of these deaths;
- ``x-first-death-queue``, ``-reason``, ``-exchange``: never changed; ``x-last-death-…``: of the newest death.

Any publisher can send a message with such annotations. A map that has not this form is ignored.
"""

from collections.abc import Mapping, Sequence

from amqp10.wire.codec import format_codes as code
from amqp10.wire.types import Array, Symbol, Timestamp, UInt, ULong, plain
from core.interface import Death, DeathReason

DEATHS = Symbol("x-opt-deaths")

DEATHS_MAX = 64
"""How many maps are kept, the newest: about 200 bytes each. A message seldom dies in more than a few queues."""

COUNT_MAX = 2**63
"""A map whose count is this or more is ignored. No real count gets there, but a publisher may send one."""

UINT_MAX = 2**32 - 1
"""The largest time-to-live in milliseconds that fits a header [3.2.1]: 49 days."""

_REASONS = {reason.value: reason for reason in DeathReason}
_QUEUE, _REASON, _COUNT = Symbol("queue"), Symbol("reason"), Symbol("count")
_LAST_TIME = Symbol("last-time")

Record = dict[object, object]


def enter(annotations: Mapping[object, object], death: Death) -> dict[object, object]:
    """The annotations of a message after this death."""
    time = Timestamp(round(death.at * 1000))
    records = _records(annotations)
    mine = next((record for record in records if _key(record) == (death.queue, death.reason)), None)
    if mine is None:
        mine = _first_time(death, time)
    else:
        records.remove(mine)
        count = mine[_COUNT]
        mine = {**mine, _COUNT: ULong(count.value + 1 if isinstance(count, ULong) else 1), _LAST_TIME: time}
    records = [mine, *records][:DEATHS_MAX]
    entered = {**annotations, DEATHS: Array(code.MAP_32, tuple(records))}
    if Symbol("x-first-death-queue") not in annotations:
        entered |= _summary("first", death)
    return entered | _summary("last", death)


def told(annotations: Mapping[object, object]) -> Sequence[tuple[str, DeathReason]]:
    """Queue and reason of each death, the newest first."""
    return [key for record in _records(annotations) if (key := _key(record)) is not None]


def listed(annotations: Mapping[object, object]) -> list[dict[str, object]]:
    """Queue, reason and count of each death as plain values, the newest first."""
    return [{name.value: plain(record[name]) for name in (_QUEUE, _REASON, _COUNT)} for record in _records(annotations)]


def _first_time(death: Death, time: Timestamp) -> Record:
    record: Record = {
        _QUEUE: death.queue,
        _REASON: Symbol(death.reason.value),
        _COUNT: ULong(1),
        Symbol("first-time"): time,
        _LAST_TIME: time,
        Symbol("exchange"): death.exchange,
        Symbol("routing-keys"): Array(code.STRING_32, death.routing_keys),
    }
    if death.ttl_ms is not None:
        record[Symbol("ttl")] = UInt(min(death.ttl_ms, UINT_MAX))
    return record


def _summary(which: str, death: Death) -> Record:
    return {
        Symbol(f"x-{which}-death-queue"): death.queue,
        Symbol(f"x-{which}-death-reason"): death.reason.value,
        Symbol(f"x-{which}-death-exchange"): death.exchange,
    }


def _records(annotations: Mapping[object, object]) -> list[Record]:
    value = annotations.get(DEATHS)
    items = value.items if isinstance(value, Array) else value
    if not isinstance(items, list | tuple):
        return []
    return [item for item in items if isinstance(item, dict) and _key(item) is not None][:DEATHS_MAX]


def _key(record: Record) -> tuple[str, DeathReason] | None:
    queue, reason, count = (record.get(name) for name in (_QUEUE, _REASON, _COUNT))
    named = reason.value if isinstance(reason, Symbol) else reason
    if not isinstance(queue, str) or not isinstance(named, str) or named not in _REASONS:
        return None
    if not isinstance(count, ULong) or count.value >= COUNT_MAX:
        return None
    return queue, _REASONS[named]
