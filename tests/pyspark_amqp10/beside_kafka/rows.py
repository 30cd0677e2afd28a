"""The rows: the same values as messages of Headgate and as records of Kafka, and a sum by which they are checked."""

from __future__ import annotations

from dataclasses import dataclass

BODY = "cast(lpad(cast(id as string), 100, '0') as binary)"
"""100 bytes, another in each row."""
PROPERTIES = {
    "tenant": "concat('t', cast(id % 50 as string))",
    "order": "cast(id as string)",
    "trace": "lower(hex(xxhash64(id)))",
}
ID = "concat('0f2b6c1e-7a55-4c1d-9b1e-', lpad(cast(id as string), 12, '0'))"
"""36 characters, as many as a uuid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of rows. All but ``annotated`` are SQL."""

    name: str
    for_headgate: tuple[str, ...]
    """Columns of the connector's sink, of a number ``id``."""
    for_kafka: tuple[str, ...]
    """Columns of Kafka's sink."""
    annotated: bool
    """Whether the sink's annotations are in the messages, by which repeats can be dropped; Kafka's sink has none."""
    schema: str
    """The columns that are read of Headgate. Kafka's source gives key, value, topic, partition, offset, timestamp and
    timestampType, and headers if asked."""
    headers: bool
    """Whether Kafka's headers are read."""
    sum_of_headgate: str
    sum_of_kafka: str
    """What of each row is summed up: the same number in both."""


def _sum(*values: str) -> str:
    return " + ".join(f"crc32(cast({value} as binary))" for value in values)


_PROPERTIES = ", ".join(f"'{key}', {value}" for key, value in PROPERTIES.items())
_HEADERS = ", ".join(
    f"named_struct('key', '{key}', 'value', cast({value} as binary))" for key, value in PROPERTIES.items()
)
_PLACE = "address string, offset long, enqueued timestamp"

KINDS = (
    Kind(
        name="unlike",
        for_headgate=(
            f"{BODY} as body",
            f"{ID} as messageId",
            f"map({_PROPERTIES}) as properties",
        ),
        for_kafka=(
            f"{BODY} as value",
            f"{ID} as key",
            f"array({_HEADERS}) as headers",
        ),
        annotated=True,
        schema=f"body binary, {_PLACE}, messageId string, properties map<string, string>",
        headers=True,
        sum_of_headgate=_sum("body", "messageId", *(f"properties['{key}']" for key in PROPERTIES)),
        sum_of_kafka=_sum("value", "key", *(f"headers[{place}].value" for place in range(len(PROPERTIES)))),
    ),
    Kind(
        name="alike",
        for_headgate=(f"{BODY} as body",),
        for_kafka=(f"{BODY} as value",),
        annotated=False,
        schema=f"body binary, {_PLACE}",
        headers=False,
        sum_of_headgate=_sum("body"),
        sum_of_kafka=_sum("value"),
    ),
)
"""Unlike ones first: rows of real programs have an id and properties of their own."""
