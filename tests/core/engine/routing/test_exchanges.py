"""The routing rules, each compared with a plain statement of the same rule."""

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from core.engine.routing.edges import Edge, Node
from core.engine.routing.exchanges import (
    DirectMatcher,
    Exchange,
    FanoutMatcher,
    HeadersMatcher,
    route,
)
from core.engine.routing.topic import TopicMatcher
from core.interface import ExchangeType
from core.work import Work
from tests.kit.engine import binding, exchange


def no_headers() -> dict[str, object]:
    raise AssertionError("only a headers exchange asks for headers")


def edge(key: str = "", destination: str = "q", **arguments: object) -> Edge:
    return Edge.of(binding("e", destination, key, **arguments))


def names(matcher, key: str) -> set[str]:
    return {node.name for node in matcher.match(key, no_headers, Work())}


def test_direct_needs_the_same_key():
    matcher = DirectMatcher()
    for key, destination in [("k", "a"), ("k", "b"), ("other", "c")]:
        matcher.add(edge(key, destination), {})
    assert names(matcher, "k") == {"a", "b"}
    assert names(matcher, "K") == set()
    matcher.remove(edge("k", "a"))
    matcher.remove(edge("other", "c"))
    assert names(matcher, "k") == {"b"}
    assert names(matcher, "other") == set()


def test_fanout_ignores_the_key():
    matcher = FanoutMatcher()
    matcher.add(edge("x", "a"), {})
    matcher.add(edge("y", "b"), {})
    assert names(matcher, "whatever") == {"a", "b"}
    matcher.remove(edge("x", "a"))
    assert names(matcher, "whatever") == {"b"}


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "", False),
        ("*", "a.b", False),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "ab", False),
        ("#.z", "z", True),
        ("#.z", "a.b.z", True),
        ("a.#.z", "a.z", True),
        ("a.#.z", "a.b.c.z", True),
        ("a.#.z", "a.b.c", False),
        ("*.#", "", False),
        ("#.#", "", True),
        ("#.*.#", "a", True),
        ("", "", True),
        ("", "a", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("*.*", ".", True),
    ],
)
def test_topic(pattern, key, matches):
    matcher = TopicMatcher()
    matcher.add(edge(pattern), {})
    assert names(matcher, key) == ({"q"} if matches else set())


WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=5).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6).map(".".join)


def as_expression(pattern: str) -> str:
    """The pattern as a regular expression over words, each followed by a dot."""
    words = pattern.split(".") if pattern else []
    return "".join({"*": r"[^.]*\.", "#": r"([^.]*\.)*"}.get(word, re.escape(word + ".")) for word in words)


@given(patterns=st.lists(WORDS, unique=True, max_size=8), gone=st.sets(st.integers(0, 7)), key=KEYS)
def test_topic_against_regular_expressions(patterns, gone, key):
    matcher = TopicMatcher()
    for pattern in patterns:
        matcher.add(edge(pattern, destination=pattern), {})
    left = [pattern for place, pattern in enumerate(patterns) if place not in gone]
    for pattern in patterns:
        if pattern not in left:
            matcher.remove(edge(pattern, destination=pattern))
    dotted = "".join(word + "." for word in key.split(".")) if key else ""
    assert names(matcher, key) == {p for p in left if re.fullmatch(as_expression(p), dotted)}


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1}, {"a": 2}, False),
        ({"x-match": "any"}, {"a": 2}, False),
        ({}, {}, True),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"x-match": "all", "x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)
def test_headers(arguments, headers, matches):
    matcher = HeadersMatcher()
    matcher.add(edge(), arguments)
    assert [node.name for node in matcher.match("", lambda: headers, Work())] == (["q"] if matches else [])
    matcher.remove(edge())
    assert matcher.match("", lambda: headers, Work()) == []


def graph(*declarations, bindings=()) -> dict[str, Exchange]:
    exchanges = {declaration.name: Exchange(declaration) for declaration in declarations}
    for made in bindings:
        exchanges[made.source].matcher.add(Edge.of(made), made.arguments)
    return exchanges


def test_every_queue_is_named_once():
    exchanges = graph(
        exchange("e"),
        bindings=[
            binding("e", "q", "k"),
            binding("e", "q", "l"),
            binding("e", "p", "k", a=1),
            binding("e", "p", "k"),
        ],
    )
    assert route(exchanges, "e", ("k", "l"), no_headers, Work()) == ["q", "p"]


def test_a_cycle_of_exchanges_ends():
    exchanges = graph(
        exchange("a", ExchangeType.FANOUT),
        exchange("b", ExchangeType.FANOUT),
        bindings=[
            binding("a", "b", to_exchange=True),
            binding("b", "a", to_exchange=True),
            binding("b", "b", to_exchange=True),
            binding("b", "q"),
        ],
    )
    assert route(exchanges, "a", ("",), no_headers, Work()) == ["q"]


def test_the_alternate_exchange_takes_what_no_binding_matches():
    exchanges = graph(
        exchange("e", alternate_exchange="rest"),
        exchange("rest", ExchangeType.FANOUT),
        bindings=[binding("e", "q", "k"), binding("rest", "r")],
    )
    assert route(exchanges, "e", ("k",), no_headers, Work()) == ["q"]
    assert route(exchanges, "e", ("l",), no_headers, Work()) == ["r"]


def test_alternates_in_a_circle_and_alternates_that_do_not_exist():
    exchanges = graph(
        exchange("a", alternate_exchange="b"),
        exchange("b", alternate_exchange="a"),
        exchange("c", alternate_exchange="missing"),
    )
    assert route(exchanges, "a", ("k",), no_headers, Work()) == []
    assert route(exchanges, "c", ("k",), no_headers, Work()) == []


def test_the_default_exchange_names_queues():
    assert route({}, "", ("q", "p", "q"), no_headers, Work()) == ["q", "p"]
    exchanges = graph(exchange("e", alternate_exchange=""))
    assert route(exchanges, "e", ("q",), no_headers, Work()) == ["q"]


WORDS = st.lists(st.sampled_from(["a", "b", "c", "*", "#"]), max_size=12)
KEYS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=14)


def found_by_hand(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return found_by_hand(pattern[1:], words) or (bool(words) and found_by_hand(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and found_by_hand(pattern[1:], words[1:])


@settings(max_examples=200)
@given(patterns=st.lists(WORDS, max_size=12), gone=st.sets(st.integers(0, 11)), words=KEYS)
def test_topic_matching_is_what_the_patterns_say(patterns, gone, words):
    matcher = TopicMatcher()
    edges = {Edge("t", Node(True, ".".join(pattern)), ".".join(pattern), ()): pattern for pattern in patterns}
    for edge in edges:
        matcher.add(edge, {})
    left = dict(edges)
    for index, edge in enumerate(edges):
        if index in gone:
            matcher.remove(edge)
            del left[edge]
    expected = {edge.destination.name for edge, pattern in left.items() if found_by_hand(pattern, words)}
    assert names(matcher, ".".join(words)) == expected


def test_patterns_of_many_wildcards_cost_no_more_than_their_words():
    matcher, work = TopicMatcher(), Work()
    for number in range(300):
        words = ["#" if index % 2 else ("*" if number >> index % 10 & 1 else "a") for index in range(40)]
        matcher.add(Edge("t", Node(True, "q"), ".".join([*words, str(number)]), ()), {})
    assert not list(matcher.match(".".join(["a"] * 120), dict, work))
    assert work.spent < 1000


RULES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, 1, "x", True]), max_size=4)


@settings(max_examples=200)
@given(
    rules=st.lists(st.tuples(st.sampled_from(["all", "any"]), RULES), max_size=10),
    gone=st.sets(st.integers(0, 9)),
    headers=st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1, "x", True, "y"]), max_size=4),
)
def test_headers_matching_is_what_the_bindings_say(rules, gone, headers):
    matcher = HeadersMatcher()
    edges = [Edge("h", Node(True, str(index)), str(index), index) for index in range(len(rules))]
    for edge, (how, wanted) in zip(edges, rules, strict=True):
        matcher.add(edge, {**wanted, "x-match": how})
    expected = set()
    for index, (how, wanted) in enumerate(rules):
        if index in gone:
            matcher.remove(edges[index])
            continue
        found = [
            name in headers and (value is None or (type(value), value) == (type(headers[name]), headers[name]))
            for name, value in wanted.items()
        ]
        if all(found) if how == "all" else any(found):
            expected.add(str(index))
    assert {node.name for node in matcher.match("", lambda: headers, Work())} == expected


def test_bindings_that_a_message_cannot_fulfil_are_not_looked_at():
    matcher, work = HeadersMatcher(), Work()
    common = {f"h{index}": "x" for index in range(20)}
    for number in range(500):
        matcher.add(Edge("h", Node(True, "q"), str(number), number), {**common, "last": number})
    assert matcher.match("", lambda: {**common, "last": -1}, work) == []
    assert work.spent < 100
