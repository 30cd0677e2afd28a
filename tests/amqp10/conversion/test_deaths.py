"""The annotations of dead-lettered messages: those that RabbitMQ's clients read, and those that a publisher may
forge."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from amqp10.conversion.converter import MessageConverter
from amqp10.conversion.deaths import COUNT_MAX, DEATHS, DEATHS_MAX, enter, told
from amqp10.wire.sections import (
    MESSAGE_ANNOTATIONS,
    Properties,
    decode_map_section,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Array, Symbol, Timestamp, UInt, ULong, plain
from core.interface import Death, DeathReason
from core.message import Origin
from tests.kit.wire import data_message

CONVERTER = MessageConverter()
BODY = data_message(b"body")
EXPIRED, REJECTED, MAXLEN = DeathReason.EXPIRED, DeathReason.REJECTED, DeathReason.MAXLEN


def death(queue: str = "q", reason: DeathReason = REJECTED, at: float = 1000.5, **more) -> Death:
    return Death(queue=queue, reason=reason, at=at, **{"exchange": "x", "routing_keys": ("k", "cc"), **more})


def annotations(entry: bytes) -> dict[object, object]:
    bounds = scan(entry).message_annotations
    assert bounds is not None
    return decode_map_section(entry, *bounds)


def test_the_first_death():
    entry = CONVERTER.dead_lettered(BODY, Origin.AMQP10, death(reason=EXPIRED, ttl_ms=250))
    assert entry.endswith(BODY)
    found = annotations(entry)
    deaths = found.pop(DEATHS)
    assert isinstance(deaths, Array)
    (record,) = deaths.items
    assert {key: value for key, value in record.items() if key != Symbol("routing-keys")} == {
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(1),
        Symbol("first-time"): Timestamp(1_000_500),
        Symbol("last-time"): Timestamp(1_000_500),
        Symbol("exchange"): "x",
        Symbol("ttl"): UInt(250),
    }
    assert record[Symbol("routing-keys")].items == ("k", "cc")
    assert found == {
        Symbol(f"x-{which}-death-{what}"): value
        for which in ("first", "last")
        for what, value in (("queue", "q"), ("reason", "expired"), ("exchange", "x"))
    }


def test_deaths_of_one_queue_and_reason_are_counted_the_newest_stands_first():
    entry = BODY
    for number, (queue, reason) in enumerate([("a", REJECTED), ("b", EXPIRED), ("a", EXPIRED), ("a", REJECTED)]):
        one = death(queue, reason, at=float(number), exchange=f"x{number}", routing_keys=(f"k{number}",))
        entry = CONVERTER.dead_lettered(entry, Origin.AMQP10, one)
    assert CONVERTER.deaths(entry, Origin.AMQP10) == [("a", REJECTED), ("a", EXPIRED), ("b", EXPIRED)]
    found = annotations(entry)
    records = plain(found[DEATHS])
    assert isinstance(records, list)
    assert records[0] == {
        "queue": "a",
        "reason": "rejected",
        "count": 2,
        "first-time": 0,
        "last-time": 3000,
        "exchange": "x0",
        "routing-keys": ["k0"],
    }
    named = [found[Symbol(f"x-{which}-death-{what}")] for which in ("first", "last") for what in ("queue", "exchange")]
    assert named == ["a", "x0", "a", "x3"]


def test_other_sections_and_annotations_stay():
    own = {Symbol("x-kind"): [1, "two"], ULong(7): None}
    rest = encode_properties(Properties(subject="s")) + BODY
    entry = CONVERTER.dead_lettered(encode_section(MESSAGE_ANNOTATIONS, own) + rest, Origin.AMQP10, death())
    assert entry.endswith(rest)
    found = annotations(entry)
    assert {key: found[key] for key in own} == own


def test_a_message_that_never_died():
    assert CONVERTER.deaths(BODY, Origin.AMQP10) == []
    assert CONVERTER.deaths(encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): 1}) + BODY, Origin.AMQP10) == []


@pytest.mark.parametrize(
    "forged",
    [
        None,
        7,
        "text",
        [],
        [None, 7, "text", {}],
        [{Symbol("queue"): 7, Symbol("reason"): Symbol("expired"), Symbol("count"): ULong(1)}],
        [{Symbol("queue"): "q", Symbol("reason"): Symbol("boredom"), Symbol("count"): ULong(1)}],
        [{Symbol("queue"): "q", Symbol("reason"): Symbol("expired"), Symbol("count"): ULong(COUNT_MAX)}],
        [{Symbol("queue"): "q", Symbol("reason"): Symbol("expired"), Symbol("count"): "many"}],
    ],
)
def test_what_is_no_death_is_left_out(forged):
    entry = encode_section(MESSAGE_ANNOTATIONS, {DEATHS: forged}) + BODY
    assert CONVERTER.deaths(entry, Origin.AMQP10) == []
    assert CONVERTER.deaths(CONVERTER.dead_lettered(entry, Origin.AMQP10, death()), Origin.AMQP10) == [("q", REJECTED)]


def test_deaths_in_a_list_are_read_too():
    record = {Symbol("queue"): "q", Symbol("reason"): "maxlen", Symbol("count"): ULong(3)}
    assert told({DEATHS: [record]}) == [("q", MAXLEN)]


def test_deaths_are_bounded():
    found: dict[object, object] = {}
    for number in range(DEATHS_MAX + 5):
        found = enter(found, death(f"q{number}"))
    assert len(told(found)) == DEATHS_MAX
    assert told(found)[0][0] == f"q{DEATHS_MAX + 4}"
    assert found[Symbol("x-first-death-queue")] == "q0"


@pytest.mark.parametrize("entry", [b"\x00", b"\x00\x53\x72\xc1\x03\x02\xa1\x09" + BODY])
def test_what_cannot_be_decoded_stays_as_it_is(entry):
    assert CONVERTER.dead_lettered(entry, Origin.AMQP10, death()) is entry


@given(
    st.lists(
        st.builds(
            death,
            st.sampled_from(["a", "b", "ü" * 40]),
            st.sampled_from(DeathReason),
            st.floats(0, 4e9),
            ttl_ms=st.none() | st.integers(0, 2**40),
            routing_keys=st.lists(st.text(max_size=300), min_size=1, max_size=3).map(tuple),
        ),
        max_size=8,
    )
)
def test_deaths_are_told_by_recency(died):
    entry = BODY
    newest_first: list[tuple[str, DeathReason]] = []
    for one in died:
        entry = CONVERTER.dead_lettered(entry, Origin.AMQP10, one)
        key = (one.queue, one.reason)
        newest_first = [key, *(other for other in newest_first if other != key)]
    assert CONVERTER.deaths(entry, Origin.AMQP10) == newest_first
