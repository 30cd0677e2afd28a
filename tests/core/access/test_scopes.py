"""The scopes of a token in RabbitMQ's grammar, and the rights that they give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access.rights import Rights
from core.access.scopes import Scopes, _fits, _regular, read_scopes
from core.errors import Forbidden, Invalid
from core.patterns import Pattern


def scopes(text: str, prefix: str = "broker.", **aliases: list[str]) -> Scopes:
    return read_scopes(text.split(), prefix, aliases)


def rights(text: str, host: str = "/") -> Rights:
    found = scopes(text)
    return Rights("alice", found.permission(host), topics=found.topics(host), tags=found.tags, virtual_host=host)


@pytest.mark.parametrize(
    ("scope", "name", "allowed"),
    [
        ("*/*", "anything", True),
        ("%2F/orders", "orders", True),
        ("%2F/orders", "orders2", False),
        ("%2F/orders", "myorders", False),
        ("%2f/orders.*", "orders.eu", True),
        ("%2F/orders.*", "ordersXeu", False),
        ("*/*.eu", "orders.eu", True),
        ("*/a*b*c", "a-b-c", True),
        ("*/a*b*c", "acb", False),
        ("*/a**c", "ac", True),
        ("*/50%25%2A", "50%*", True),
        ("*/50%25%2A", "50%x", False),
        ("*/a%20b", "a b", True),
        ("*/%C3%BC*", "über", True),
        ("other/*", "orders", False),
        ("/*/orders", "orders", False),
        ("*/ORDERS", "orders", False),
        ("*/*/*/*", "orders", False),
        ("*", "orders", False),
        ("*/%FF", "orders", False),
        ("*/%ZZ", "%ZZ", True),
        ("*/amq.default", "", True),
    ],
)
def test_a_scope_gives_the_right_to_the_names_that_its_pattern_matches_whole(scope: str, name: str, allowed: bool):
    for kind in ("configure", "write", "read"):
        assert rights(f"broker.{kind}:{scope}").may(kind, name) is allowed
    assert not rights(f"broker.read:{scope}").may("write", name)


def test_scopes_add_up():
    alice = rights("broker.read:*/a* broker.read:*/b* broker.write:*/c")
    assert [alice.may("read", name) for name in ("a1", "b1", "c")] == [True, True, False]
    assert [alice.may("write", name) for name in ("a1", "b1", "c")] == [False, False, True]


def test_a_virtual_host_is_open_to_those_with_a_scope_for_it():
    assert not rights("").welcome
    assert not rights("broker.tag:management").welcome
    assert not rights("broker.read:shop/*").welcome
    assert rights("broker.read:shop/*", host="shop").welcome
    assert rights("broker.read:s*/*", host="shop").may("read", "q")


def test_keys_of_topic_exchanges_need_a_scope_with_a_third_part():
    both = rights("broker.write:*/x* broker.write:*/x*/eu.* broker.read:*/*/*")
    assert both.restricts_topics("x1")
    assert both.may_use_topic("write", "x1", "eu.orders")
    assert not both.may_use_topic("write", "x1", "us.orders")
    assert both.may_use_topic("read", "x1", "us.orders")
    assert not both.may_use_topic("write", "y", "eu.orders")
    assert not rights("broker.write:*/* broker.read:*/*").may_use_topic("write", "x", "")
    assert not rights("broker.write:*/*/* broker.read:*/*/*").restricts_topics("x")
    with pytest.raises(Forbidden, match="write access to topic 'us' in exchange topic 'x1' in vhost '/' refused"):
        both.check_topic("write", "x1", "us")


def test_the_answer_for_an_exchange_is_kept_for_a_limited_number():
    topics = scopes("broker.write:*/*/k").topics("/")
    assert topics.get("x0") is topics.get("x0")
    for number in range(5000):
        topics.get(f"x{number}")
    assert len(topics._known) <= 4096


def test_tags():
    assert scopes("broker.tag:administrator broker.tag:x y.tag:z tag:no").tags == {"administrator", "x"}


def test_scopes_for_other_servers_give_nothing():
    assert scopes("read:*/* brokers.read:*/* other.read:*/* openid") == Scopes((), frozenset())


def test_an_empty_prefix_takes_scopes_as_they_are():
    assert scopes("read:*/*", prefix="").permission("/") is not None


def test_an_alias_stands_for_scopes_with_and_without_the_prefix():
    found = scopes("Orders.Admin", **{"Orders.Admin": ["tag:administrator", "broker.read:*/*", "nonsense"]})
    assert found.tags == {"administrator"}
    assert found.permission("/") == scopes("broker.read:*/*").permission("/")


def test_too_many_scopes_are_refused_before_they_become_patterns():
    scopes(" ".join(f"broker.read:*/queue-{number}" for number in range(200))).check()
    with pytest.raises(Invalid, match="the scopes for read"):
        scopes(" ".join(f"broker.read:*/{'a*' * 100}{number}" for number in range(200))).check()
    with pytest.raises(Invalid, match="the scopes for write with keys"):
        scopes(" ".join(f"broker.write:*/*/{'a*' * 100}{number}" for number in range(200))).check()


words = st.text(st.sampled_from("ab*%./ü\n"), max_size=8)


@given(words, words)
def test_both_ways_to_match_a_wildcard_agree(wildcard: str, name: str):
    expression = _regular(wildcard)
    assert (expression is not None and Pattern(f"(?s)^(?:{expression})$").found_in(name)) == _fits(wildcard, name)
