"""Methods to bytes and back: byte vectors of another implementation, bit fields, bounds, and any bytes of a peer."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.amqp091 import methods
from core.amqp091.codec import decode_method, domains_of, encode_method
from core.amqp091.domains import Domain
from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode
from core.amqp091.methods import (
    METHODS,
    BasicAck,
    BasicConsume,
    BasicDeliver,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from tests.kit.wire_vectors import Vector, vectors

FIELDS = {
    Domain.OCTET: st.integers(0, 2**8 - 1),
    Domain.SHORT: st.integers(0, 2**16 - 1),
    Domain.LONG: st.integers(0, 2**32 - 1),
    Domain.LONG_LONG: st.integers(0, 2**64 - 1),
    Domain.SHORT_STRING: st.text(st.characters(codec="utf-8"), max_size=60),
    Domain.LONG_STRING: st.binary(max_size=20),
    Domain.BIT: st.booleans(),
    Domain.TABLE: st.dictionaries(st.text("ab", max_size=3), st.integers(-9, 9) | st.booleans(), max_size=3),
}


def any_of(method: type) -> st.SearchStrategy:
    return st.builds(method, **{name: FIELDS[domain] for name, domain in domains_of(method)})


any_method = st.sampled_from(sorted(METHODS)).flatmap(lambda id_: any_of(METHODS[id_]))


@pytest.mark.parametrize("vector", vectors("amqp091/methods.txt"), ids=str)
def test_vector(vector: Vector):
    method = eval(vector.meaning, vars(methods))
    assert decode_method(vector.encoded) == method
    assert encode_method(method) == vector.encoded


def test_the_vectors_have_every_method():
    assert {type(eval(vector.meaning, vars(methods))) for vector in vectors("amqp091/methods.txt")} == set(
        METHODS.values()
    )


@pytest.mark.parametrize("vector", vectors("amqp091/malformed_methods.txt"), ids=str)
def test_malformed_vector(vector: Vector):
    code, text = vector.meaning.split(", ", 1)
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_method(vector.encoded)
    assert caught.value.code.name == code
    assert text in caught.value.text


def test_a_fault_names_the_method_by_its_ids():
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_method(bytes.fromhex("003c0050"))
    assert (caught.value.class_id, caught.value.method_id) == (60, 80)
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_method(bytes.fromhex("003c0029"))
    assert (caught.value.class_id, caught.value.method_id) == (60, 41)


@pytest.mark.parametrize("type_", METHODS.values(), ids=lambda type_: type_.__name__)
@given(data=st.data())
@settings(max_examples=10)
def test_round_trip(type_, data):
    method = data.draw(any_of(type_))
    assert decode_method(encode_method(method)) == method


@given(any_method, st.data())
def test_cut_anywhere(method, data):
    encoded = encode_method(method)
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_method(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    assert caught.value.code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("name", "octet"), [("passive", 1), ("durable", 2), ("exclusive", 4), ("auto_delete", 8), ("no_wait", 16)]
)
def test_bits_share_an_octet_the_first_lowest(name: str, octet: int):
    encoded = encode_method(QueueDeclare(queue="q", **{name: True}))
    assert encoded[8:9] == bytes((octet,))
    assert len(encoded) == len(encode_method(QueueDeclare(queue="q")))
    assert decode_method(encoded) == QueueDeclare(queue="q", **{name: True})


def test_bits_that_stand_for_nothing_are_not_looked_at():
    assert decode_method(bytes.fromhex("003c 0050 0000000000000002 fe")) == BasicAck(delivery_tag=2)


@pytest.mark.parametrize("type_", METHODS.values(), ids=lambda type_: type_.__name__)
def test_no_method_has_more_bits_in_a_row_than_an_octet(type_):
    domains = "".join("b" if domain is Domain.BIT else "." for _, domain in domains_of(type_))
    assert "b" * 9 not in domains


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (BasicAck(delivery_tag=-1), "basic.ack, delivery_tag: "),
        (BasicAck(delivery_tag=2**64), "basic.ack, delivery_tag: "),
        (BasicDeliver(consumer_tag="t" * 256, delivery_tag=1), "basic.deliver, consumer_tag: "),
        (ExchangeDeclare(exchange="e", arguments={"x": 2**63}), "exchange.declare, arguments: 'x': "),
        (QueueBind(queue=None, exchange="e"), "queue.bind, queue: "),  # type: ignore[arg-type]
        (BasicConsume(arguments=5), "basic.consume, arguments: "),  # type: ignore[arg-type]
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_field_without_an_encoding_is_named(method, text: str):
    with pytest.raises(Amqp091EncodeError) as caught:
        encode_method(method)
    assert str(caught.value).startswith(text)


def test_a_dataclass_without_domains_is_no_method():
    plain = dataclasses.make_dataclass("Plain", [("number", int)])
    with pytest.raises(AssertionError, match="no domain"):
        domains_of(plain)
