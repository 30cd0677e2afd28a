"""CPU time per row for messages of six kinds: ``python -m tests.pyspark_amqp10.measure_decode``.

The messages are as Headgate delivers durable ones of a queue with ``x-sequence``: header, number, then what the
publisher sent, with a body of 100 bytes. Each kind is decoded to all columns, and to a few that a query may ask for. No
broker and no Spark takes part.
"""

import uuid
from collections.abc import Callable
from time import process_time

import pyarrow as pa

from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Symbol, Timestamp, ULong
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.rows import MessageRows

ROWS = 10_000
"""Rows of a batch: as many as a source hands to Spark at once."""
REPEATS = 5
"""The least of so many is shown."""
FEW = pa.schema([SCHEMA.field(name) for name in ("body", "offset", "subject")])
FIRST_NUMBER = 2**33
"""Numbers above it take eight bytes with any encoder."""


def message(number: int, *sections: bytes, annotations: dict[object, object] | None = None) -> bytes:
    """A message as the broker delivers it, the number first."""
    stamped = {Symbol("x-opt-sequence"): ULong(FIRST_NUMBER + number)} | (annotations or {})
    return b"".join(
        (
            encode_header(Header(durable=True)),
            encode_section(MESSAGE_ANNOTATIONS, stamped),
            *sections,
            encode_section(DATA, b"x" * 100),
        )
    )


def _id(number: int) -> str:
    return str(uuid.UUID(int=number * 2**64 + 2**62))


def plain(number: int) -> bytes:
    """Nothing but a body."""
    return message(number)


def with_id(number: int) -> bytes:
    """A message-id of its own."""
    return message(number, encode_properties(Properties(message_id=_id(number))))


def with_ids_and_type(number: int) -> bytes:
    """Ids of its own, a content type and a subject."""
    fields = Properties(
        message_id=_id(number), correlation_id=f"c-{number}", content_type="application/json", subject="orders"
    )
    return message(number, encode_properties(fields))


def _application(number: int) -> bytes:
    values = {"tenant": f"t{number % 50}", "order": number, "urgent": bool(number % 2), "weight": number / 3}
    return encode_section(APPLICATION_PROPERTIES, values)


def with_properties(number: int) -> bytes:
    """Four application properties of different types."""
    return message(number, _application(number))


def _annotations(number: int) -> dict[object, object]:
    return {
        Symbol("x-opt-enqueued-time"): Timestamp(1_767_225_600_000 + number),
        Symbol("x-opt-spark-batch"): f"0f2b6c1e/{number // 1000}/0",
        Symbol("x-opt-spark-row"): ULong(number),
    }


def with_annotations(number: int) -> bytes:
    """The time of arrival, and the two annotations of the sink."""
    return message(number, annotations=_annotations(number))


def mixed(number: int) -> bytes:
    """All of these together, in half of the messages; the others are of the other kinds in turn."""
    if number % 2:
        return (plain, with_id, with_ids_and_type, with_properties, with_annotations)[number // 2 % 5](number)
    fields = Properties(message_id=_id(number), group_id=f"g{number % 7}", group_sequence=number, creation_time=number)
    return message(number, encode_properties(fields), _application(number), annotations=_annotations(number))


KINDS: tuple[Callable[[int], bytes], ...] = (
    plain,
    with_id,
    with_ids_and_type,
    with_properties,
    with_annotations,
    mixed,
)


def cost_us(entries: list[bytes], schema: pa.Schema) -> float:
    """CPU time of one row in microseconds."""
    least = float("inf")
    for _ in range(REPEATS):
        begin = process_time()
        rows = MessageRows("/queues/q", schema)
        rows.take(entries)
        rows.columns()
        least = min(least, process_time() - begin)
    return least / len(entries) * 1e6


def main() -> None:
    """Print one line for each kind."""
    print(f"{'kind':20} all columns   body, offset, subject   (microseconds a row)")
    for kind in KINDS:
        entries = [kind(number) for number in range(ROWS)]
        print(f"{kind.__name__:20} {cost_us(entries, SCHEMA):11.2f}   {cost_us(entries, FEW):21.2f}")


if __name__ == "__main__":
    main()
