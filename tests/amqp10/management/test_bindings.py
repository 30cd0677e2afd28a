"""Bindings over the real engine: made, listed, removed. Tests that are cases of the conformance list, C6, have its
names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.management.bindings import LISTED_MAX, arguments_hash
from amqp10.management.message import RESPONSE_BYTES_MAX
from core.interface import Binding
from tests.kit.management import (
    Console,
    binding_to_queue,
    bindings_path,
    queue_path,
)


@pytest.fixture
def console():
    return Console()


def test_bind_source_default_exchange(console):
    console.ask("PUT", "/queues/q", {})
    assert console.ask("POST", "/bindings", binding_to_queue("", "q", "my binding key")).status == 403


def test_bind_destination_default_exchange(console):
    binding = {"source": "amq.fanout", "destination_exchange": "", "binding_key": "k", "arguments": {}}
    assert console.ask("POST", "/bindings", binding).status == 403


def test_bind_source_line_feed(console):
    binding = {"source": "🤠\n😱", "destination_exchange": "amq.fanout", "binding_key": "k", "arguments": {}}
    assert console.ask("POST", "/bindings", binding).status == 400


def test_bind_destination_line_feed(console):
    binding = {"source": "amq.fanout", "destination_exchange": "🤠\n😱", "binding_key": "k", "arguments": {}}
    assert console.ask("POST", "/bindings", binding).status == 400


def test_bind_missing_queue(console):
    answer = console.ask("POST", "/bindings", binding_to_queue("amq.direct", "👀", "k"))
    assert (answer.status, answer.body) == (400, "there is no queue '👀'")


BAD_SEGMENTS = [
    "src=e1;dstq=q1;invalidkey=k1;args=",
    "src=e1;dstq=q1;key=k1",
    "src=e1;dstq=q1;key=k1;args=;",
    "src=e1;dstx=q1;key=k1;args=",
    "src=;dstq=q1;key=k1;args=",
    "src=e1;dstq=;key=k1;args=",
    "dstq=q1;src=e1;key=k1;args=",
    "src=e1;dstq=q1;key=k+1;args=",
    "src=e1;dstq=q1;key=k1;args=a+b",
    "src=e1;dstq=q1;key=%zz;args=",
    "src=%ff;dstq=q1;key=;args=",
    "",
]


@pytest.mark.parametrize("segment", BAD_SEGMENTS)
def test_unbind_bad_binding_path_segment(console, segment):
    assert console.ask("DELETE", f"/bindings/{segment}").status == 400


# --- bindings -------------------------------------------------------------------------------------------------


def test_a_binding_in_a_listing(console):
    console.ask("PUT", "/queues/q1", {})
    console.ask("POST", "/bindings", binding_to_queue("amq.topic", "q1", "a.*"))
    listed = console.ask("GET", bindings_path("amq.topic", "q1", "a.*"))
    assert listed.status == 200
    assert [list(item.items()) for item in listed.value] == [
        [
            ("source", "amq.topic"),
            ("destination_queue", "q1"),
            ("binding_key", "a.*"),
            ("arguments", {}),
            ("location", "/bindings/src=amq.topic;dstq=q1;key=a.%2A;args="),
        ]
    ]


def test_a_binding_between_exchanges_in_a_listing(console):
    binding = {"source": "amq.topic", "destination_exchange": "amq.fanout", "binding_key": "", "arguments": {}}
    assert console.ask("POST", "/bindings", binding).status == 204
    [listed] = console.ask("GET", "/bindings?src=amq.topic&dste=amq.fanout&key=").body
    assert listed["destination_exchange"] == "amq.fanout"
    assert listed["location"] == "/bindings/src=amq.topic;dste=amq.fanout;key=;args="
    assert console.ask("GET", "/bindings?src=amq.topic&dstq=amq.fanout&key=").body == []


def test_a_listing_without_a_key_has_all_keys(console):
    console.ask("PUT", "/queues/q", {})
    for key in ("a", "b"):
        console.ask("POST", "/bindings", binding_to_queue("amq.direct", "q", key))
    assert [item["binding_key"] for item in console.ask("GET", "/bindings?src=amq.direct&dstq=q").body] == ["a", "b"]
    assert [item["binding_key"] for item in console.ask("GET", "/bindings?src=amq.direct&dstq=q&key=b").body] == ["b"]


def test_a_query_is_form_encoded(console):
    console.ask("PUT", queue_path("q & a"), {})
    console.ask("POST", "/bindings", binding_to_queue("amq.direct", "q & a", "1+1=2"))
    for query in ("dstq=q+%26+a&src=amq.direct&key=1%2B1%3D2", "src=amq.direct&dstq=q%20%26%20a&key=1%2b1=2"):
        assert len(console.ask("GET", f"/bindings?{query}").body) == 1


@pytest.mark.parametrize(
    "query", ["", "?", "?src=a", "?src=a&key=k", "?dstq=q", "?dstq=q&key=k", "?src=a&dstq=q&dste=e&key=k"]
)
def test_a_listing_without_both_ends(console, query):
    assert console.ask("GET", f"/bindings{query}").status == 400


def test_of_bindings_that_differ_in_arguments_only_the_named_one_goes(console):
    console.ask("PUT", "/queues/q", {})
    for arguments in ({}, {"n": 1}, {"n": 2}, {"n": "1"}, {"n": True}):
        assert console.ask("POST", "/bindings", binding_to_queue("amq.headers", "q", "k", arguments)).status == 204
    listed = console.ask("GET", bindings_path("amq.headers", "q", "k")).body
    assert len({item["location"] for item in listed}) == 5
    [doomed] = [item for item in listed if item["arguments"] == {"n": 2}]
    assert console.ask("DELETE", doomed["location"]).status == 204
    left = console.ask("GET", bindings_path("amq.headers", "q", "k")).body
    assert left == [item for item in listed if item is not doomed]


def test_the_hash_does_not_depend_on_order_and_does_not_change():
    assert arguments_hash({"a": 1, "b": {"c": [1], "d": True}}) == arguments_hash({"b": {"d": True, "c": [1]}, "a": 1})
    assert arguments_hash({}) == ""
    assert arguments_hash({"x-match": "all", "n": 1}) == "45MhwoaMYDZjSU7k"


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(key=TEXT, arguments=st.dictionaries(TEXT.filter(lambda name: name != "x-match"), PLAIN, max_size=4))
def test_every_binding_can_be_listed_and_removed(key, arguments):
    console = Console()
    console.ask("PUT", "/queues/q", {})
    assert console.ask("POST", "/bindings", binding_to_queue("amq.headers", "q", key, arguments)).status == 204
    [listed] = console.ask("GET", bindings_path("amq.headers", "q", key)).body
    assert (listed["binding_key"], listed["arguments"]) == (key, arguments)
    assert console.ask("DELETE", listed["location"]).status == 204
    assert console.ask("GET", bindings_path("amq.headers", "q", key)).body == []


def test_too_many_bindings_to_list_ask_for_a_key(console):
    console.ask("PUT", "/queues/q", {})
    for number in range(LISTED_MAX + 1):
        binding = Binding(
            source="amq.direct", destination="q", destination_is_queue=True, binding_key=str(number), arguments={}
        )
        console.broker.bind(binding, "me")
    answer = console.ask("GET", "/bindings?src=amq.direct&dstq=q")
    assert answer.status == 400
    assert "key" in answer.body
    assert len(console.ask("GET", "/bindings?src=amq.direct&dstq=q&key=7").body) == 1


def test_an_answer_that_would_be_too_large_is_not_sent(console):
    console.ask("PUT", "/queues/q", {})
    for number in range(RESPONSE_BYTES_MAX // 100_000 + 1):
        arguments = {"n": number, "long": "x" * 100_000}
        assert console.ask("POST", "/bindings", binding_to_queue("amq.direct", "q", "k", arguments)).status == 204
    answer = console.ask("GET", bindings_path("amq.direct", "q", "k"))
    assert answer.status == 400
    assert "ask for less" in answer.body
