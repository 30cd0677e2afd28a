"""The pipeline's own copy of the schema of flow events, compared with the broker's."""

from core.observe.flow_events.schema import EVENT_SCHEMAS, HEADER, VERSION, VERSION_KEY
from pipeline.tables import records

TYPES = {str: {"string"}, int: {"bigint"}, float: {"double", "timestamp"}, bool: {"boolean"}}


def test_the_fields_of_every_kind_are_the_brokers():
    assert {kind: set(fields) for kind, fields in records.FIELDS.items()} == {
        kind.value: {field.name for field in schema.fields} for kind, schema in EVENT_SCHEMAS.items()
    }


def test_every_field_has_a_column_that_can_hold_it():
    fields = [field for schema in EVENT_SCHEMAS.values() for field in schema.fields]
    assert len(fields) > 50
    assert all(records.FLOW_EVENTS[field.name] in TYPES[field.type] for field in fields)


def test_version_and_header_are_the_brokers():
    assert (records.VERSION, records.VERSION_KEY) == (VERSION, VERSION_KEY)
    assert tuple(field.name for field in HEADER) == records.HEADER_FIELDS
