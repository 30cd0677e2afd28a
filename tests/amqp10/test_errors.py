"""Conditions are the symbols of the specification, scopes are classes, and quotes are cut short."""

import pytest

from amqp10.errors import (
    QUOTED_CHARACTERS_MAX,
    AmqpError,
    ConnectionFault,
    DecodeError,
    EncodeError,
    ErrorCondition,
    LinkFault,
    SessionFault,
    quote,
)


def test_conditions_are_symbols():
    assert ErrorCondition.NOT_FOUND == "amqp:not-found"
    assert str(ErrorCondition.WINDOW_VIOLATION) == "amqp:session:window-violation"
    assert len(ErrorCondition) == 25
    assert all(condition.isascii() and condition.startswith("amqp:") for condition in ErrorCondition)


@pytest.mark.parametrize(
    ("prefix", "count"),
    [("amqp:connection:", 3), ("amqp:session:", 4), ("amqp:link:", 5)],
)
def test_each_scope_has_its_conditions(prefix, count):
    assert sum(condition.startswith(prefix) for condition in ErrorCondition) == count


@pytest.mark.parametrize("fault", [ConnectionFault, SessionFault, LinkFault])
def test_a_fault_carries_what_the_peer_is_told(fault):
    error = fault(ErrorCondition.NOT_ALLOWED, "handle 4 is above the limit 3", {"handle": 4})
    assert isinstance(error, AmqpError)
    assert (error.condition, error.description, error.info) == (
        "amqp:not-allowed",
        "handle 4 is above the limit 3",
        {"handle": 4},
    )
    assert str(error) == "amqp:not-allowed: handle 4 is above the limit 3"


def test_codec_errors_have_no_scope():
    error = DecodeError("broken")
    assert (error.condition, str(error)) == ("amqp:decode-error", "broken")
    assert not isinstance(error, AmqpError)
    assert not issubclass(EncodeError, AmqpError)


@pytest.mark.parametrize("value", ["x" * 1000, b"\xff" * 1000])
def test_quotes_are_cut(value):
    assert quote(value).endswith("(1000 long)")
    assert len(quote(value)) < 5 * QUOTED_CHARACTERS_MAX


def test_quotes_escape_and_never_grow():
    assert quote("a\nb") == "'a\\nb'"
    assert quote(2**64) == str(2**64)
    assert quote(None) == "None"
    assert quote(["x"] * 1000) == "a value of type list"
