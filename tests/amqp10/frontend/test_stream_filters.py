"""The filters of a stream consumer's source, in every form that clients use [3.5.8]."""

import pytest

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.frontend.stream_filters import (
    FILTER,
    MATCH_UNFILTERED,
    OFFSET_SPEC,
    VALUES_MAX,
    check_unfiltered,
    stream_filters,
)
from amqp10.wire.types import Array, Described, Int, Symbol, Timestamp, UInt, ULong
from core.interface import StreamOptions, StreamPosition

WALL = 1_700_000_000.0


def read(**filters: object) -> StreamOptions:
    """Read filters by their short names, each described as clients do."""
    names = {"offset": OFFSET_SPEC, "values": FILTER, "unfiltered": MATCH_UNFILTERED}
    given = {names[key]: Described(Symbol(names[key]), value) for key, value in filters.items()}
    found = stream_filters(given, WALL)
    assert found.effective == given
    plain = stream_filters({key: value.value for key, value in given.items()}, WALL)
    assert plain.options == found.options
    return found.options


def test_without_filters_a_consumer_begins_with_what_comes_next():
    for none in (None, {}):
        assert stream_filters(none, WALL) == (StreamOptions(), {}, None)
    assert StreamOptions().position is StreamPosition.NEXT


@pytest.mark.parametrize(
    ("value", "position"),
    [
        ("first", StreamPosition.FIRST),
        ("last", StreamPosition.LAST),
        ("next", StreamPosition.NEXT),
        (Symbol("first"), StreamPosition.FIRST),
        (0, 0),
        (17, 17),
        (-1, 0),
        (ULong(2**63), 2**63),
        (UInt(5), 5),
        (Int(5), 5),
        (Timestamp(1_600_000_000_500), 1_600_000_000.5),
        ("10s", WALL - 10),
        ("5m", WALL - 300),
        ("1h", WALL - 3600),
        ("7D", WALL - 7 * 86_400),
        ("1M", WALL - 30 * 86_400),
        ("1Y", WALL - 365 * 86_400),
        ("0s", WALL),
    ],
)
def test_where_to_begin(value, position):
    found = read(offset=value).position
    assert found == position
    assert isinstance(found, float) == isinstance(position, float)


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ("apple", ("apple",)),
        (Symbol("apple"), ("apple",)),
        (["apple", "pear"], ("apple", "pear")),
        (Array(0xA1, ("apple", "pear")), ("apple", "pear")),
        ([""], ("",)),
    ],
)
def test_which_values_to_let_through(value, values):
    options = read(values=value, unfiltered=True)
    assert options.filter_values == values
    assert options.match_unfiltered
    assert not read(values=value).match_unfiltered


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (OFFSET_SPEC, "somewhere"),
        (OFFSET_SPEC, ""),
        (OFFSET_SPEC, "5 m"),
        (OFFSET_SPEC, "m"),
        (OFFSET_SPEC, "-5m"),
        (OFFSET_SPEC, "9999999999s"),
        (OFFSET_SPEC, True),
        (OFFSET_SPEC, 1.5),
        (OFFSET_SPEC, None),
        (OFFSET_SPEC, ["first"]),
        (FILTER, 7),
        (FILTER, []),
        (FILTER, ["apple", 7]),
        (FILTER, ["x"] * (VALUES_MAX + 1)),
        (FILTER, {"apple": 1}),
        (MATCH_UNFILTERED, "yes"),
        (MATCH_UNFILTERED, None),
    ],
)
def test_a_value_that_a_filter_cannot_have_is_refused_by_name(name, value):
    for given in (value, Described(Symbol(name), value)):
        with pytest.raises(LinkFault, match=f"{ErrorCondition.INVALID_FIELD}: .*{name}"):
            stream_filters({name: given}, WALL)


def test_a_described_value_says_itself_what_it_is():
    found = stream_filters({"start": Described(Symbol(OFFSET_SPEC), 3)}, WALL)
    assert found.options.position == 3
    assert list(found.effective) == ["start"]


SELECTOR = "apache.org:selector-filter:string"


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("jms-selector", "a = 1", "jms-selector"),
        ("jms-selector", Described(Symbol(SELECTOR), "a = 1"), SELECTOR),
        ("jms-selector", Described(ULong(0x468C00000004), "a = 1"), SELECTOR),
        ("no-local", Described(ULong(0x468C00000003), []), "apache.org:no-local-filter:list"),
        ("f", Described(Symbol("amqp:properties-filter"), {}), "amqp:properties-filter"),
        ("f", Described(ULong(0x174), {}), "amqp:application-properties-filter"),
        ("f", Described(ULong(0x120), "a = 1"), "amqp:sql-filter"),
        ("mine", Described(ULong(0x999), 1), "mine"),
    ],
)
@pytest.mark.parametrize("read_them", [lambda given: stream_filters(given, WALL), check_unfiltered])
def test_filters_that_are_not_there_are_refused_by_name(read_them, key, value, name):
    with pytest.raises(LinkFault, match=name) as refused:
        read_them({key: value})
    assert refused.value.condition == ErrorCondition.NOT_IMPLEMENTED


def test_a_filter_that_is_null_is_none():
    assert stream_filters({"jms-selector": None}, WALL).effective == {}
    check_unfiltered({"jms-selector": None, FILTER: None})


def test_a_queue_passes_over_what_holds_nothing_back():
    check_unfiltered({OFFSET_SPEC: "first", MATCH_UNFILTERED: True})
    check_unfiltered(None)
    with pytest.raises(LinkFault, match="one of streams"):
        check_unfiltered({FILTER: "apple"})
