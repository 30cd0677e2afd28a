"""The deaths of a dead-lettered message, as its headers list them.

Names, types and order are RabbitMQ's, so that clients written for it find the headers they expect:

- ``x-death``: an array of tables, the newest first, one for each pair of queue and reason. A table holds ``queue``,
  ``reason``, ``count``, and from the first such death ``time``, ``exchange``, ``routing-keys`` and, where the message
  had a time-to-live, ``original-expiration``;
- ``x-first-death-queue``, ``-reason``, ``-exchange``: never changed; ``x-last-death-…``: of the newest death.

Any client can publish a message with such headers. Parts that do not have this form are ignored.
"""

from collections.abc import Sequence

from core.amqp091.table import Amqp091Timestamp, FieldTable, FieldValue
from core.interface import Death, DeathReason

DEATHS = "x-death"

DEATHS_MAX = 64
"""Tables kept, the newest first: about 200 bytes each. A message seldom dies in more than a few queues."""

COUNT_MAX = 2**63 - 1
"""The highest count: the largest integer of a table. No message dies so often, but one may be published with it."""

_REASONS = {reason.value: reason for reason in DeathReason}

Record = dict[str, FieldValue]


def enter(headers: FieldTable, death: Death) -> dict[str, FieldValue]:
    """Return the headers of a message with this death added."""
    kept = records(headers)
    mine = next((record for record in kept if _key(record) == (death.queue, death.reason)), None)
    if mine is None:
        mine = _first_time(death)
    else:
        kept.remove(mine)
        count = mine["count"]
        assert isinstance(count, int)
        mine = {**mine, "count": count + 1}
    tables: list[FieldValue] = [mine, *kept[: DEATHS_MAX - 1]]
    entered: dict[str, FieldValue] = {**headers, DEATHS: tables}
    if "x-first-death-queue" not in headers:
        entered |= _summary("first", death)
    return entered | _summary("last", death)


def told(headers: FieldTable) -> Sequence[tuple[str, DeathReason]]:
    """Queue and reason of each death, the newest first."""
    return [key for record in records(headers) if (key := _key(record)) is not None]


def listed(headers: FieldTable) -> list[dict[str, object]]:
    """Queue, reason and count of each death, the newest first."""
    return [{name: record[name] for name in ("queue", "reason", "count")} for record in records(headers)]


def records(headers: FieldTable) -> list[Record]:
    """The tables of ``x-death`` that tell of a death, the newest first."""
    items = headers.get(DEATHS)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict) and _key(item) is not None][:DEATHS_MAX]


def _first_time(death: Death) -> Record:
    record: Record = {
        "count": 1,
        "reason": death.reason.value,
        "queue": death.queue,
        "time": Amqp091Timestamp(int(death.at)),
        "exchange": death.exchange,
        "routing-keys": list(death.routing_keys),
    }
    if death.ttl_ms is not None:
        record["original-expiration"] = str(death.ttl_ms)
    return record


def _summary(which: str, death: Death) -> Record:
    return {
        f"x-{which}-death-queue": death.queue,
        f"x-{which}-death-reason": death.reason.value,
        f"x-{which}-death-exchange": death.exchange,
    }


def _key(record: Record) -> tuple[str, DeathReason] | None:
    queue, reason, count = (record.get(name) for name in ("queue", "reason", "count"))
    if not isinstance(queue, str) or not isinstance(reason, str) or reason not in _REASONS:
        return None
    if type(count) is not int or not 0 <= count < COUNT_MAX:
        return None
    return queue, _REASONS[reason]
