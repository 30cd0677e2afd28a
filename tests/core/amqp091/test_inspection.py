"""What the broker reads of a message in 0.9.1 encoding, and what dead-lettering and consumers write into it."""

from decimal import Decimal

import pytest

from core.amqp091.content import PROPERTIES_AT, body_of, entry_of, header_length
from core.amqp091.deaths import COUNT_MAX, DEATHS_MAX
from core.amqp091.inspection import PREVIEW_BYTES, Inspection
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from core.amqp091.table import Amqp091Timestamp, OpaqueString
from core.interface import Death, DeathReason
from core.message import Attributes, Origin

INSPECTION = Inspection()
HERE, ELSEWHERE = Origin.AMQP091, Origin.AMQP10
EXPIRED, REJECTED, MAXLEN = DeathReason.EXPIRED, DeathReason.REJECTED, DeathReason.MAXLEN
MALFORMED = entry_of(b"\x80\x00\x05", b"body")


def message(body: bytes = b"body", **properties) -> bytes:
    return entry_of(encode_properties(BasicProperties(**properties)), body)


def properties_of(entry: bytes) -> BasicProperties:
    return decode_properties(entry, PROPERTIES_AT, header_length(entry))


def death(queue: str = "q", reason: DeathReason = REJECTED, at: float = 1000.5, **more) -> Death:
    return Death(queue=queue, reason=reason, at=at, **{"exchange": "x", "routing_keys": ("k", "cc"), **more})


# --- headers


def test_headers_are_told_as_plain_values():
    headers = {
        "colour": "red",
        "x-number": 3,
        "opaque": OpaqueString(b"\xff"),
        "time": Amqp091Timestamp(2),
        "price": Decimal("1.5"),
        "nested": {"list": [Amqp091Timestamp(1), None, True]},
    }
    assert INSPECTION.routing_headers(message(headers=headers), HERE) == {
        "colour": "red",
        "x-number": 3,
        "opaque": b"\xff",
        "time": 2000,
        "price": 1.5,
        "nested": {"list": [1000, None, True]},
    }


@pytest.mark.parametrize(
    ("entry", "origin"),
    [
        (message(), HERE),
        (message(content_type="text/plain", delivery_mode=2), HERE),
        (message(headers={}), HERE),
        (MALFORMED, HERE),
        (message(headers={"a": 1}), ELSEWHERE),
    ],
)
def test_a_message_without_headers(entry, origin):
    assert INSPECTION.routing_headers(entry, origin) == {}
    assert INSPECTION.deaths(entry, origin) == []
    assert INSPECTION.filter_values([entry], origin) is None


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (message(headers={"x-stream-filter-value": "eu"}), "eu"),
        (message(headers={"x-stream-filter-value": 7}), None),
        (message(headers={"x-stream-filter-value": ""}), None),
        (message(headers={"nested": {"x-stream-filter-value": "eu"}}), None),
        (message(b"x-stream-filter-value", headers={"a": 1}), None),
        (message(b"x-stream-filter-value"), None),
    ],
)
def test_the_value_that_streams_filter_by(entry, value):
    assert INSPECTION.filter_values([entry], HERE) == (None if value is None else [value])
    assert INSPECTION.filter_values([message(), entry], HERE) == (None if value is None else [None, value])


def test_a_message_is_rendered_as_it_is_and_never_as_another():
    entry = message()
    assert INSPECTION.render(entry, Attributes(HERE), HERE) is entry
    with pytest.raises(AssertionError):
        INSPECTION.render(entry, Attributes(HERE), ELSEWHERE)


# --- headers that consumers get


def test_what_was_added_is_merged_and_nothing_else_changes():
    entry = message(headers={"x-a": 1, "b": "kept"}, message_id="m", expiration="5")
    entry = INSPECTION.annotated(entry, HERE, {"x-a": 2, "x-new": [True]})
    assert properties_of(entry) == BasicProperties(
        headers={"x-a": 2, "b": "kept", "x-new": [True]}, message_id="m", expiration="5"
    )
    assert body_of(entry) == b"body"


@pytest.mark.parametrize(
    ("entry", "origin", "added"),
    [(MALFORMED, HERE, {"x": 1}), (message(), HERE, {"x": object()}), (message(), ELSEWHERE, {"x": 1})],
)
def test_what_cannot_be_merged_changes_nothing(entry, origin, added):
    assert INSPECTION.annotated(entry, origin, added) == entry


# --- deaths


def test_the_first_death_takes_the_expiration_and_tells_it():
    entry = message(message_id="m", expiration="250", headers={"own": 1})
    entry = INSPECTION.dead_lettered(entry, HERE, death(reason=EXPIRED, ttl_ms=250))
    record = {
        "count": 1,
        "reason": "expired",
        "queue": "q",
        "time": Amqp091Timestamp(1000),
        "exchange": "x",
        "routing-keys": ["k", "cc"],
        "original-expiration": "250",
    }
    summary = {
        f"x-{which}-death-{what}": value
        for which in ("first", "last")
        for what, value in (("queue", "q"), ("reason", "expired"), ("exchange", "x"))
    }
    assert properties_of(entry) == BasicProperties(message_id="m", headers={"own": 1, "x-death": [record], **summary})
    assert body_of(entry) == b"body"


def test_deaths_of_one_queue_and_reason_are_counted_the_newest_stands_first():
    entry = message()
    for number, (queue, reason) in enumerate([("a", REJECTED), ("b", EXPIRED), ("a", EXPIRED), ("a", REJECTED)]):
        one = death(queue, reason, at=float(number), exchange=f"x{number}", routing_keys=(f"k{number}",))
        entry = INSPECTION.dead_lettered(entry, HERE, one)
    assert INSPECTION.deaths(entry, HERE) == [("a", REJECTED), ("a", EXPIRED), ("b", EXPIRED)]
    headers = properties_of(entry).headers
    assert headers is not None
    newest = headers["x-death"][0]
    assert (newest["count"], newest["time"], newest["exchange"], newest["routing-keys"]) == (
        2,
        Amqp091Timestamp(0),
        "x0",
        ["k0"],
    )
    assert (headers["x-first-death-queue"], headers["x-first-death-exchange"]) == ("a", "x0")
    assert (headers["x-last-death-reason"], headers["x-last-death-exchange"]) == ("rejected", "x3")


def test_only_the_newest_deaths_are_kept():
    entry = message()
    for number in range(DEATHS_MAX + 3):
        entry = INSPECTION.dead_lettered(entry, HERE, death(f"q{number}"))
    told = INSPECTION.deaths(entry, HERE)
    assert len(told) == DEATHS_MAX
    assert told[0] == (f"q{DEATHS_MAX + 2}", REJECTED)


GOOD = {"queue": "q", "reason": "maxlen", "count": 3}


@pytest.mark.parametrize(
    "claimed",
    [
        "text",
        {},
        ["text", GOOD],
        [{**GOOD, "reason": "boredom"}, GOOD],
        [{**GOOD, "count": True}, GOOD],
        [{**GOOD, "count": -1}, GOOD],
        [{**GOOD, "count": COUNT_MAX}, GOOD],
        [{**GOOD, "queue": 1}, GOOD],
    ],
)
def test_deaths_that_a_publisher_made_up(claimed):
    entry = message(headers={"x-death": claimed})
    good = isinstance(claimed, list)
    assert INSPECTION.deaths(entry, HERE) == ([("q", MAXLEN)] if good else [])
    entry = INSPECTION.dead_lettered(entry, HERE, death(reason=MAXLEN))
    described = INSPECTION.describe(entry, HERE)["deaths"]
    assert described == [{"queue": "q", "reason": "maxlen", "count": 4 if good else 1}]


@pytest.mark.parametrize(("entry", "origin"), [(MALFORMED, HERE), (message(), ELSEWHERE)])
def test_a_message_that_cannot_be_decoded_dies_as_it_is(entry, origin):
    assert INSPECTION.dead_lettered(entry, origin, death()) == entry


# --- what operators see


def test_a_message_is_described():
    entry = INSPECTION.dead_lettered(message(b"x" * 300, message_id="m1"), HERE, death())
    assert INSPECTION.describe(entry, HERE) == {
        "message_id": "m1",
        "deaths": [{"queue": "q", "reason": "rejected", "count": 1}],
        "body": b"x" * PREVIEW_BYTES,
    }


def test_so_much_is_described_as_can_be_decoded():
    assert INSPECTION.describe(MALFORMED, HERE) == {"message_id": None, "deaths": [], "body": b"body"}
    assert INSPECTION.describe(message(), ELSEWHERE) == {"message_id": None, "deaths": [], "body": b""}
