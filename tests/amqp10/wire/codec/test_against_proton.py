"""We read what another project's codec writes, and it reads what ours writes.

Proton normalises what passes through it: arrays get the widest constructor of their type, so they are compared without
their types. It does not know descriptors that are described themselves, nor arrays with several descriptors.
"""

import uuid

import pytest

from amqp10.wire import types
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.sections import Properties, decode_header, decode_map_section, decode_properties, scan
from amqp10.wire.types import Symbol, ULong, plain
from tests.kit.wire_vectors import Vector, vectors

proton = pytest.importorskip("proton")
pytestmark = pytest.mark.interop

NAMES = {name: getattr(types, name) for name in dir(types)} | {"UUID": uuid.UUID}
UNKNOWN_TO_PROTON = ("Described(Described(", '(ULong(1), Symbol("x"))')
VECTORS = [v for v in vectors("values.txt") if not any(text in v.meaning for text in UNKNOWN_TO_PROTON)]


def through_proton(encoded: bytes) -> bytes:
    """Let proton decode these bytes; returns proton's encoding of what it read."""
    data = proton.Data()
    assert data.decode(encoded) == len(encoded)
    return bytes(data.encode())


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_values(vector: Vector):
    expected = eval(vector.meaning, NAMES)
    theirs = through_proton(vector.encoded)
    decoded, end = decode_value(theirs, 0, len(theirs), DEPTH_MAX)
    assert end == len(theirs)
    if "Array(" in vector.meaning:
        assert plain(decoded) == plain(expected)
    else:
        assert repr(decoded) == repr(expected)
    assert through_proton(encode_value(expected)) == theirs


def test_messages():
    message = proton.Message(
        body={"colour": "red", "numbers": [1, 2.5, None]},
        durable=True,
        ttl=5.0,
        id=proton.ulong(7),
        address="/queues/q",
        subject="test",
        correlation_id=uuid.UUID(int=1),
        content_type="text/plain",
        annotations={proton.symbol("x-opt"): 1},
        properties={"key": "value"},
    )
    payload = bytes(message.encode())
    found = scan(payload)
    assert found.header is not None
    header = decode_header(payload, *found.header)
    assert (header.durable, header.ttl, header.priority) == (True, 5000, 4)
    assert found.properties is not None
    assert decode_properties(payload, *found.properties) == Properties(
        message_id=ULong(7),
        to="/queues/q",
        subject="test",
        correlation_id=uuid.UUID(int=1),
        content_type="text/plain",
    )
    assert found.message_annotations is not None
    assert plain(decode_map_section(payload, *found.message_annotations)) == {"x-opt": 1}
    assert found.application_properties is not None
    assert decode_map_section(payload, *found.application_properties) == {"key": "value"}
    assert found.body is not None
    body, _ = decode_value(payload, found.body[0], found.body[1], DEPTH_MAX)
    assert plain(body) == {"colour": "red", "numbers": [1, 2.5, None]}
    assert found.body[1] == len(payload)


@pytest.mark.parametrize("body", [None, b"binary", "text", [1], proton.symbol("s")])
def test_bodies(body):
    payload = bytes(proton.Message(body=body).encode())
    found = scan(payload)
    if found.body is None:
        assert body is None
    else:
        decoded, _ = decode_value(payload, *found.body, DEPTH_MAX)
        assert plain(decoded) == (body if not isinstance(body, proton.symbol) else str(body))


def test_a_symbol_stays_a_symbol():
    theirs = through_proton(encode_value({Symbol("a"): Symbol("b")}))
    assert decode_value(theirs, 0, len(theirs), DEPTH_MAX)[0] == {Symbol("a"): Symbol("b")}
