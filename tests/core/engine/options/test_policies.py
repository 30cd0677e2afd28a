"""Policies: which definitions are valid, which policy applies to a queue, and the effect of each key."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.options.arguments import QUEUE_ARGUMENTS, QUEUE_TYPES, queue_type
from core.engine.options.in_force import effective
from core.engine.options.policies import (
    APPLY_TO,
    DEFINITION_BYTES_MAX,
    KEYS,
    NODES_MAX,
    ONLY_OF_POLICIES,
    PRIORITY_MAX,
    TEXT_BYTES_MAX,
    Effect,
    Policies,
    acting,
    checked,
    key_effect,
    shown,
)
from core.errors import Invalid, LimitReached, NotFound, PreconditionFailed
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import exchange, queue

LAZY = {"queue-mode": "lazy"}

GOOD = {
    "target-group-size": 3,
    "queue-mode": "lazy",
    "max-length": 10,
    "max-length-bytes": 1000,
    "overflow": "reject-publish",
    "message-ttl": 0,
    "expires": 1,
    "dead-letter-exchange": "dead",
    "dead-letter-routing-key": "letters",
    "dead-letter-strategy": "at-least-once",
    "delivery-limit": 3,
    "consumer-timeout": 5000,
    "max-age": "7D",
    "stream-max-segment-size-bytes": 1_000_000,
    "max-link-credit": 100,
    "max-unsettled": 50,
    "max-unsettled-bytes": 100_000,
    "publish-rate": 500,
    "publish-rate-bytes": 1_000_000,
    "sync": "always",
    "deduplicate": True,
    "enqueued-time": True,
    "alternate-exchange": "other",
}
"""A value for each key that may appear alone."""


def policy(name="p", pattern="", definition=LAZY, priority=0, apply_to="all"):
    return PolicyDeclaration(name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition=definition)


def holding(*declarations, **settings):
    policies = Policies(**settings)
    for declaration in declarations:
        policies.set(declaration)
    return policies


def winner_of(policies, name="q", **arguments):
    winner = policies.winner(queue(name, **arguments))
    return None if winner is None else winner.name


def acting_of(policies, asked):
    return acting(asked, policies.winner(asked))


def shown_of(policies, asked):
    return shown(asked, policies.winner(asked))


# --- valid definitions ---------------------------------------------------------------------------------------


def test_every_key_has_a_good_value():
    assert set(GOOD) == {key for key in KEYS if not key.startswith("ha-")}
    for key, value in GOOD.items():
        assert checked(policy(definition={key: value})).declaration.definition == {key: value}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(b", "missing ): a(b"),
        ("[", "missing ]: ["),
        ("a**", "bad repetition operator: **"),
        ("((a{100}){100}){100}", "invalid repetition size: {100}"),
        ("a(?=b)", "has no lookahead (?="),
        ("(?<!a)b", "has no lookbehind (?<"),
        (r"(a)\1", r"has no backreference \1"),
        ("(?P<n>a)(?P=n)", "has no backreference (?P="),
        ("(?>a)", "has no atomic group (?>"),
        ("a*+b", "has no possessive repetition *+"),
        ("(a)?(?(1)b|c)", "has no condition (?("),
    ],
)
def test_a_pattern_that_is_no_regular_expression(pattern, why):
    with pytest.raises(Invalid, match=r"policy 'p': pattern .* is no regular expression: ") as refused:
        checked(policy(pattern=pattern))
    assert str(refused.value).endswith(why)


def test_no_pattern_takes_long():
    slow = checked(policy(pattern="(a+)+$"))
    assert slow.why_not("classic", "a" * 255 + "!") == "its pattern '(a+)+$' is not found in the name"
    assert slow.why_not("classic", "a" * 255) is None


def test_a_kept_policy_whose_pattern_cannot_be_used_is_shown_and_holds_for_nothing():
    policies = Policies()
    policies.restore([policy("old", pattern="(?=a)", priority=5), policy("new", pattern="a")])
    assert [row["name"] for row in policies.snapshot()] == ["old", "new"]
    asked = queue("a")
    winner = policies.winner(asked)
    assert winner is not None
    assert winner.name == "new"
    [(name, why)] = policies.unusable
    assert name == "old"
    assert why.endswith("has no lookahead (?=")
    policies.set(policy("old", pattern="a", priority=5))
    assert policies.unusable == []
    assert shown_of(policies, asked)["policy"] == "old"


@given(st.text(max_size=12))
def test_any_pattern_is_taken_or_refused(pattern):
    with suppress(Invalid):
        used = checked(policy(pattern=pattern)).pattern
        assert used is not None
        assert used.text == pattern


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ""}, "a policy needs a name that is not empty"),
        ({"name": "a\nb"}, "its name contains a line break"),
        ({"name": "n" * (TEXT_BYTES_MAX + 1)}, "its name is longer than 255 bytes"),
        ({"pattern": "ü" * TEXT_BYTES_MAX}, "its pattern is longer than 255 bytes"),
        ({"priority": True}, "priority is True, it must be an integer from"),
        ({"priority": PRIORITY_MAX + 1}, "priority is 2147483648"),
        ({"apply_to": "topics"}, "apply_to is 'topics', it must be one of all, queues, classic_queues"),
        ({"definition": {}}, "its definition is empty; it needs at least one key"),
        ({"definition": {"max_length": 1}}, "there is no key 'max_length'; there are alternate-exchange, "),
        ({"definition": {"max-length": -1}}, "max-length is -1, it must be an integer, 0 or more"),
        ({"definition": {"max-length": 10**30}}, "max-length is 1000000000000000000000000000000, it must be"),
        ({"definition": {"queue-mode": "slow"}}, "queue-mode is 'slow', it must be 'default' or 'lazy'"),
        ({"definition": {"expires": 0}}, "expires is 0, it must be an integer, 1 or more milliseconds"),
        ({"definition": {"max-age": "7 days"}}, "max-age is '7 days', it must be a number above 0"),
        ({"definition": {"max-link-credit": 0}}, "max-link-credit is 0, it must be an integer from 1 to 4294967295"),
        ({"definition": {"max-unsettled": 0}}, "max-unsettled is 0, it must be an integer from 1 to 4294967295"),
        ({"definition": {"max-unsettled": "5"}}, "max-unsettled is '5', it must be an integer from 1 to 4294967295"),
        ({"definition": {"max-unsettled-bytes": 0}}, "max-unsettled-bytes is 0, it must be an integer, 1 or more"),
        ({"definition": {"max-unsettled-bytes": True}}, "max-unsettled-bytes is True, it must be an integer"),
        ({"definition": {"overflow": None}}, "overflow is None"),
        ({"definition": {"dead-letter-exchange": "e" * DEFINITION_BYTES_MAX}}, "longer than 4096 bytes"),
        ({"definition": {"ha-mode": "some"}}, "ha-mode is 'some', it must be 'all', 'exactly' or 'nodes'"),
        ({"definition": {"ha-mode": "all", "ha-params": 2}}, "ha-mode 'all' takes no ha-params; leave 2 out"),
        ({"definition": {"ha-mode": "exactly"}}, "ha-params is missing, for ha-mode 'exactly' it must be an integer"),
        ({"definition": {"ha-mode": "exactly", "ha-params": ["a"]}}, r"ha-params is \['a'\], for ha-mode 'exactly'"),
        ({"definition": {"ha-mode": "exactly", "ha-params": 0}}, "ha-params is 0, it must be a count or a list"),
        ({"definition": {"ha-mode": "nodes", "ha-params": 2}}, "ha-params is 2, for ha-mode 'nodes' it must be a list"),
        ({"definition": {"ha-mode": "nodes", "ha-params": []}}, "ha-params is"),
        ({"definition": {"ha-mode": "nodes", "ha-params": ["n"] * (NODES_MAX + 1)}}, "a count or a list of nodes"),
        ({"definition": {"ha-params": 2}}, "ha-params needs an ha-mode beside it"),
        ({"definition": {"ha-sync-mode": "manual"}}, "ha-sync-mode needs an ha-mode beside it"),
        ({"definition": {"ha-mode": "all", "ha-sync-mode": "often"}}, "ha-sync-mode is 'often'"),
        ({"definition": {"ha-mode": "all", "ha-promote-on-shutdown": "never"}}, "'always' or 'when-synced'"),
        ({"definition": {"ha-mode": "all", "ha-sync-batch-size": 0}}, "ha-sync-batch-size is 0"),
    ],
)
def test_invalid_definitions(changes, text):
    with pytest.raises(Invalid, match=text):
        checked(policy(**changes))


# --- which policy applies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUEUE_TYPES)
@pytest.mark.parametrize("apply_to", APPLY_TO)
def test_what_a_policy_applies_to(kind, apply_to):
    policies = holding(policy(apply_to=apply_to))
    meant = apply_to in ("all", "queues") or apply_to.startswith(kind)
    assert winner_of(policies, x_queue_type=kind) == ("p" if meant else None)


def test_a_pattern_is_searched_for_anywhere_in_the_name():
    policies = holding(policy(pattern="ord.r"))
    assert winner_of(policies, "new.orders") == "p"
    assert winner_of(policies, "ordr") is None


def test_the_highest_priority_holds_and_among_equals_the_first_name():
    policies = holding(policy("b"), policy("a"), policy("high", "^h", priority=1), policy("low", priority=-1))
    assert winner_of(policies) == "a"
    assert winner_of(policies, "hq") == "high"
    policies.clear("a")
    assert winner_of(policies) == "b"
    assert [shown["name"] for shown in policies.snapshot()] == ["high", "b", "low"]


POLICIES = st.lists(
    st.builds(
        policy,
        name=st.sampled_from("abcdef"),
        pattern=st.sampled_from(["", "^q", "x$", "qx?", "[a-f]", "z"]),
        priority=st.integers(-2, 2),
        apply_to=st.sampled_from(list(APPLY_TO)),
    ),
    max_size=8,
)
QUEUES = st.builds(queue, st.sampled_from(["q", "qx", "abc", "x"]), x_queue_type=st.sampled_from(QUEUE_TYPES))


@given(declarations=POLICIES, cleared=st.sets(st.sampled_from("abcdef")), asked=QUEUES)
def test_the_winner_is_the_best_of_those_that_hold_whatever_happened_before(declarations, cleared, asked):
    policies = holding(*declarations)
    kept = {declaration.name: declaration for declaration in declarations}
    for name in cleared & kept.keys():
        policies.clear(name)
        del kept[name]
    candidates = [d for d in kept.values() if checked(d).why_not(queue_type(asked.arguments), asked.name) is None]
    best = min(candidates, key=lambda d: (-d.priority, d.name), default=None)
    found = policies.winner(asked)
    assert (None if found is None else found.declaration) == best

    explanation = policies.explain(asked)
    assert explanation.winner is found
    assert sorted(name for name, _ in explanation.losers) == sorted(kept.keys() - {best.name if best else None})
    for name, why in explanation.losers:
        assert (name in {d.name for d in candidates}) is ("its priority" in why)


def test_the_reasons_why_other_policies_do_not_apply():
    policies = holding(
        policy("a", priority=5),
        policy("b", priority=5),
        policy("low"),
        policy("streams", apply_to="streams", priority=9),
        policy("other", "^other", priority=9),
        policy("exchanges", apply_to="exchanges", priority=9),
    )
    assert dict(policies.explain(queue("q")).losers) == {
        "b": "its priority 5 is also that of 'a', whose name comes first",
        "low": "its priority 0 is below 5 of 'a'",
        "streams": "it applies to streams, and this is of type classic",
        "other": "its pattern '^other' is not found in the name",
        "exchanges": "it applies to exchanges, and this is of type classic",
    }


# --- the effect of the keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUEUE_TYPES)
@pytest.mark.parametrize("key", GOOD)
def test_a_key_acts_where_the_argument_of_its_name_would(key, kind):
    found = key_effect(key, GOOD[key], queue("q", x_queue_type=kind))
    expected = key in ONLY_OF_POLICIES or f"x-{key}" in QUEUE_ARGUMENTS[kind]
    assert found.effect is (Effect.ACTS if expected else Effect.NONE)


@pytest.mark.parametrize(
    ("key", "value", "argument", "effect"),
    [
        ("max-length", 10, 20, Effect.ACTS),
        ("max-length", 20, 20, Effect.ACTS),
        ("max-length", 30, 20, Effect.OVERRIDDEN),
        ("message-ttl", 1, 0, Effect.OVERRIDDEN),
        ("overflow", "block", "drop-head", Effect.OVERRIDDEN),
        ("dead-letter-exchange", "one", "other", Effect.OVERRIDDEN),
        ("queue-mode", "lazy", "default", Effect.ACTS),
        ("queue-mode", "default", "lazy", Effect.ACTS),
        ("sync", "always", "default", Effect.OVERRIDDEN),
    ],
)
def test_arguments_beside_a_policy(key, value, argument, effect):
    found = key_effect(key, value, queue("q", **{f"x-{key}": argument}))
    assert found.effect is effect
    assert f"x-{key} is {argument!r}" in found.why


@pytest.mark.parametrize(("age", "effect"), [("23h", Effect.ACTS), ("1D", Effect.ACTS), ("2D", Effect.OVERRIDDEN)])
def test_ages_are_compared_by_how_long_they_are(age, effect):
    assert key_effect("max-age", age, queue("q", x_queue_type="stream", x_max_age="24h")).effect is effect


def test_a_value_that_this_type_of_queue_does_not_take():
    found = key_effect("overflow", "reject-publish-dlx", queue("q", x_queue_type="quorum"))
    assert found.effect is Effect.NONE
    assert "for a queue of type quorum it must be 'drop-head', 'reject-publish' or 'block'" in found.why


@given(
    kind=st.sampled_from(QUEUE_TYPES),
    given_=st.dictionaries(st.sampled_from([*GOOD]), st.integers(0, 3), max_size=4),
    said=st.dictionaries(st.sampled_from([*GOOD]), st.integers(0, 3), min_size=1, max_size=4),
)
def test_the_keys_that_act_give_the_options_in_force(kind, given_, said):
    """The options from the effective keys and from the whole definition differ only where a key is not for the queue's
    type."""

    def values(chosen, prefix=""):
        made = {}
        for key, n in chosen.items():
            value = GOOD[key]
            if isinstance(value, bool):
                value = n % 2 == 0
            elif isinstance(value, int):
                value += n
            elif key == "max-age":
                value = f"{n + 1}h"
            made[prefix + key] = value
        return made

    arguments = {name: value for name, value in values(given_, "x-").items() if name in QUEUE_ARGUMENTS[kind]}
    asked = queue("q", **{"x-queue-type": kind, **arguments})
    policies = holding(policy(definition=values(said)))
    in_force = acting_of(policies, asked)
    assert in_force.keys() <= said.keys()
    known = {
        key: value
        for key, value in values(said).items()
        if key in ONLY_OF_POLICIES or f"x-{key}" in QUEUE_ARGUMENTS[kind]
    }
    assert effective(asked, in_force) == effective(asked, known)


def test_no_policy_no_keys():
    policies = Policies()
    assert acting_of(policies, queue("q")) == {}
    assert policies.explain(queue("q")).shown() == {
        "queue": "q",
        "policy": None,
        "keys": [],
        "losers": [],
        "copies": None,
        "notice": None,
    }


def test_row_4_12_lazy_by_policy_goes_before_the_argument():
    policies = holding(policy("Lazy", "^myqueue$", LAZY, apply_to="queues"))
    for mode in ("default", "lazy"):
        assert effective(
            queue("myqueue", x_queue_mode=mode), acting_of(policies, queue("myqueue", x_queue_mode=mode))
        ).lazy
    assert not effective(queue("myqueue2"), acting_of(policies, queue("myqueue2"))).lazy


# --- copies --------------------------------------------------------------------------------------------------

MIRROR = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}


def test_row_4_49_the_mirror_policy_is_taken_and_shown_with_a_notice():
    policies = holding(policy("mirror_queue", "^queue_", MIRROR, apply_to="queues"))
    of_queue = shown_of(policies, queue("queue_1"))
    assert of_queue["policy"] == "mirror_queue"
    assert of_queue["copies"] == "1 of 2 copies"
    assert "asks for ha-mode 'exactly'; this broker is one node without replication" in of_queue["notice"]
    assert [key["effect"] for key in policies.explain(queue("queue_1")).shown()["keys"]] == ["no effect"] * 3
    assert acting_of(policies, queue("queue_1")) == {}
    assert shown_of(policies, queue("other")) == {"policy": None, "copies": None, "notice": None}


def test_row_4_50_an_exclusive_queue_has_no_copies():
    policies = holding(policy("mirror_queue", "^queue_", MIRROR | {"max-length": 5}))
    exclusive = queue("queue_1", exclusive=True)
    assert shown_of(policies, exclusive) == {"policy": "mirror_queue", "copies": None, "notice": None}
    assert acting_of(policies, exclusive) == {"max-length": 5}
    whys = {key.key: key.why for key in policies.explain(exclusive).keys}
    assert whys["ha-mode"] == "an exclusive queue has no copies"


@pytest.mark.parametrize(
    ("definition", "copies"),
    [
        ({"ha-mode": "all"}, "1 of 1 copy"),
        ({"ha-mode": "nodes", "ha-params": ["a@x", "b@x", "c@x"]}, "1 of 3 copies"),
        ({"ha-mode": "exactly", "ha-params": 1, "ha-promote-on-shutdown": "always"}, "1 of 1 copy"),
        ({"ha-mode": "all", "ha-promote-on-shutdown": "when-synced", "ha-sync-batch-size": 50}, "1 of 1 copy"),
    ],
)
def test_how_many_copies_are_meant(definition, copies):
    assert shown_of(holding(policy(definition=definition)), queue("q"))["copies"] == copies


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_other_types_of_queues_are_not_mirrored(kind):
    policies = holding(policy(definition=MIRROR))
    asked = queue("q", x_queue_type=kind)
    assert shown_of(policies, asked)["copies"] is None
    assert policies.explain(asked).keys[0].why == f"a queue of type {kind} is not mirrored"


# --- exchanges -----------------------------------------------------------------------------------------------


def test_the_alternate_exchange_of_a_policy():
    policies = holding(policy("x", "^e", {"alternate-exchange": "other"}), policy("y", "^em", LAZY, priority=1))
    assert policies.alternate_exchange(exchange("e")) == "other"
    assert policies.alternate_exchange(exchange("f")) is None
    assert policies.alternate_exchange(exchange("em")) is None
    own = exchange("e", **{"alternate-exchange": "own"})
    assert policies.alternate_exchange(own) == "own"


# --- keeping them --------------------------------------------------------------------------------------------


class Notes:
    """A recorder of policies in memory, which refuses changes while it is full."""

    def __init__(self):
        self.noted = []
        self.full = False

    def set_policy(self, declaration):
        self._note(("set", declaration.name))

    def remove_policy(self, name):
        self._note(("remove", name))

    def _note(self, what):
        if self.full:
            raise PreconditionFailed("no space")
        self.noted.append(what)


def test_changes_are_recorded_and_told():
    notes, told = Notes(), []
    policies = Policies(recorder=notes, changed=lambda name: told.append((name, policies.count)))
    policies.set(policy("a"))
    policies.set(policy("a", priority=7))
    policies.clear("a")
    assert notes.noted == [("set", "a"), ("set", "a"), ("remove", "a")]
    assert told == [("a", 1), ("a", 1), ("a", 0)]


def test_what_cannot_be_recorded_does_not_happen():
    notes, told = Notes(), []
    policies = Policies(recorder=notes, changed=lambda name: told.append((name, policies.count)))
    policies.set(policy("a"))
    told.clear()
    notes.full = True
    for attempt in (lambda: policies.set(policy("b")), lambda: policies.clear("a")):
        with pytest.raises(PreconditionFailed):
            attempt()
    assert [shown["name"] for shown in policies.snapshot()] == ["a"]
    assert told == []


def test_what_was_recorded_is_restored_without_being_told_or_recorded():
    notes, told = Notes(), []
    policies = Policies(recorder=notes, changed=lambda name: told.append((name, policies.count)))
    policies.restore([policy("low"), policy("high", priority=1)])
    assert winner_of(policies) == "high"
    assert (notes.noted, told) == ([], [])


def test_the_number_of_policies_is_limited():
    policies = holding(policy("a"), policies_max=1)
    policies.set(policy("a", priority=3))
    with pytest.raises(LimitReached, match="the limit of 1 policies"):
        policies.set(policy("b"))


def test_clearing_what_is_not_there():
    with pytest.raises(NotFound, match="there is no policy 'gone'"):
        Policies().clear("gone")


def test_a_policy_as_plain_values():
    assert holding(policy("m", "^q", MIRROR, priority=3, apply_to="queues")).snapshot() == [
        {"name": "m", "pattern": "^q", "apply_to": "queues", "priority": 3, "definition": MIRROR}
    ]


@pytest.mark.parametrize(("durable", "exclusive"), [(False, False), (True, False), (True, True)])
def test_a_queue_without_arguments_and_policy_has_the_same_options_as_one_that_says_the_default(durable, exclusive):
    plain = replace(queue("q"), durable=durable, exclusive=exclusive)
    assert not plain.arguments
    assert effective(plain, {}) == effective(replace(plain, arguments={"x-queue-type": "classic"}), {})
