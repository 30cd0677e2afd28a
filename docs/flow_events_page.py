"""Makes the tables of ``flow-events.md`` from the schema of flow events in the code."""

from collections.abc import Iterator, Sequence

from core.observe.flow_events.schema import COMMON, EVENT_SCHEMAS, HEADER, Field

_TYPES = {str: "text", int: "integer", float: "float", bool: "boolean"}


def tables() -> str:
    """Return the tables of the header, of the common fields, and of each kind of record."""
    return "".join(_tables())


def _tables() -> Iterator[str]:
    yield "### The header\n\n"
    yield from _table(HEADER)
    yield "\n### Every record\n\n"
    yield from _table(COMMON)
    for kind, schema in EVENT_SCHEMAS.items():
        yield f"\n### `{kind}`\n\n{schema.what}\n\n"
        yield from _table(schema.fields)


def _table(fields: Sequence[Field]) -> Iterator[str]:
    yield "| field | type | unit | what |\n|---|---|---|---|\n"
    for field in fields:
        what = field.what if field.always else f"{field.what}; may be absent"
        yield f"| `{field.name}` | {_TYPES[field.type]} | {field.unit} | {what} |\n"
