"""Every kind of engine error has its condition, and its text fits a frame that every peer takes."""

import pytest

from amqp10.errors import DESCRIPTION_BYTES_MAX, ErrorCondition, LinkFault
from amqp10.frontend.conditions import CONDITIONS, link_fault
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import Detach, encode_performative
from core import errors

SMALLEST_FRAME = 512
FRAME_HEADER_BYTES = 8


def engine_errors(kind=errors.EngineError):
    for subclass in kind.__subclasses__():
        yield subclass
        yield from engine_errors(subclass)


def test_the_table_is_total():
    assert set(CONDITIONS) == set(engine_errors())


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        (errors.NotFound, "amqp:not-found"),
        (errors.Locked, "amqp:resource-locked"),
        (errors.Inequivalent, "amqp:precondition-failed"),
        (errors.PreconditionFailed, "amqp:precondition-failed"),
        (errors.Invalid, "amqp:invalid-field"),
        (errors.Forbidden, "amqp:unauthorized-access"),
        (errors.LimitReached, "amqp:resource-limit-exceeded"),
        (errors.ResourceDeleted, "amqp:resource-deleted"),
    ],
)
def test_an_engine_error_becomes_a_link_fault(kind, condition):
    fault = link_fault(kind("there is no queue 'q1'"))
    assert type(fault) is LinkFault
    assert fault.condition == condition
    assert fault.description == "there is no queue 'q1'"


@pytest.mark.parametrize("character", ["a", "ä", "€", "🐇"])
def test_a_long_text_fits_the_smallest_frame(character):
    fault = link_fault(errors.NotFound(character * 1000))
    assert len(fault.description.encode()) <= DESCRIPTION_BYTES_MAX
    assert fault.description.endswith(f"{character}…")
    longest = max(ErrorCondition, key=len)
    detach = Detach(handle=2**32 - 1, closed=True, error=Error(condition=longest, description=fault.description))
    assert FRAME_HEADER_BYTES + len(encode_performative(detach)) <= SMALLEST_FRAME


def test_a_text_of_exactly_the_bound_stays_whole():
    text = "x" * DESCRIPTION_BYTES_MAX
    assert link_fault(errors.Invalid(text)).description == text
