"""The table of arguments: what each type of queue accepts, and the text of every refusal."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.options import arguments as module
from core.engine.options.arguments import INTEGER_MAX, QUEUE_ARGUMENTS, QUEUE_TYPES, check_queue, integer, one_of
from core.engine.options.in_force import effective
from core.errors import EngineError, Invalid, PreconditionFailed
from core.interface import AGE_SECONDS
from tests.kit.engine import queue

GOOD = {
    "x-queue-leader-locator": "client-local",
    "x-queue-master-locator": "min-masters",
    "x-max-length": 0,
    "x-max-length-bytes": INTEGER_MAX,
    "x-sync": "always",
    "x-overflow": "block",
    "x-message-ttl": 0,
    "x-expires": 1,
    "x-dead-letter-exchange": "",
    "x-dead-letter-strategy": "at-least-once",
    "x-single-active-consumer": True,
    "x-consumer-timeout": 1,
    "x-sequence": True,
    "x-deduplicate": True,
    "x-max-priority": 255,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-delivery-limit": -1,
    "x-deliver-limit": 10,
    "x-quorum-initial-group-size": 5,
    "x-quorum-target-group-size": 5,
    "x-max-in-memory-length": 0,
    "x-max-in-memory-bytes": 0,
    "x-max-age": "200000s",
    "x-stream-max-segment-size-bytes": 200,
    "x-stream-filter-size-bytes": 100,
    "x-enqueued-time": True,
    "x-initial-cluster-size": 3,
    "x-initial-group-size": 5,
}
"""One valid value for each argument that some type of queue has."""


def test_the_table_lists_every_argument_with_its_types():
    for kind, letter in zip(QUEUE_TYPES, "cqs", strict=True):
        for name in QUEUE_ARGUMENTS[kind]:
            assert re.search(rf"\b{name}\b", module.__doc__), name
            line = next(line for line in module.__doc__.splitlines() if re.search(rf"\b{name}\b", line))
            types = re.search(r"  (all|c q|[cqs]) ", line)
            if types is not None and types[1] != "all":
                assert letter in types[1], (name, kind)


@pytest.mark.parametrize("kind", QUEUE_TYPES)
@pytest.mark.parametrize("name", GOOD)
def test_an_argument_is_for_the_types_that_know_it(kind, name):
    declaration = queue("q", **{"x-queue-type": kind, name: GOOD[name]})
    if name in QUEUE_ARGUMENTS[kind]:
        check_queue(declaration)
        assert effective(declaration, {}).type.value == kind
    else:
        with pytest.raises(PreconditionFailed, match=f"argument {name} is not supported for type '{kind}'"):
            check_queue(declaration)


@pytest.mark.parametrize("kind", QUEUE_TYPES)
@given(value=st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.floats(), st.lists(st.text())))
def test_a_value_passes_or_the_refusal_names_argument_value_and_remedy(kind, value):
    for name, rule in QUEUE_ARGUMENTS[kind].items():
        if name in ("x-queue-type", "x-dead-letter-routing-key"):
            continue
        declaration = queue("q", **{"x-queue-type": kind, name: value})
        if rule.check(value):
            check_queue(declaration)
            continue
        with pytest.raises(PreconditionFailed) as refused:
            check_queue(declaration)
        assert str(refused.value) == f"queue 'q': argument {name} is {value!r}, it must be {rule.allowed}"


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"durable": False}, "not durable"),
        ({"exclusive": True}, "exclusive"),
        ({"auto_delete": True}, "auto-delete"),
    ],
)
def test_quorum_queues_and_streams_outlive_connections_and_consumers(kind, wrong, text):
    with pytest.raises(Invalid, match=f"queue 'q': a queue of type '{kind}' cannot be {text}; use type 'classic'"):
        check_queue(queue("q", x_queue_type=kind, **wrong))


@pytest.mark.parametrize("kind", ["fast", "", "Quorum", True, 1])
def test_other_types_there_are_not(kind):
    with pytest.raises(Invalid, match=f"there is no x-queue-type '{kind}'; use 'classic', 'quorum' or 'stream'"):
        check_queue(queue("q", x_queue_type=kind))


def test_arguments_of_the_client_s_own_are_kept():
    check_queue(queue("q", mine={"any": ["thing"]}, **{"": None}))


def test_unknown_arguments_are_refused():
    with pytest.raises(PreconditionFailed, match="x-later"):
        check_queue(queue("q", x_later=1))


def test_a_dead_letter_key_needs_its_exchange():
    check_queue(queue("q", x_dead_letter_exchange="e", x_dead_letter_routing_key="k"))
    with pytest.raises(PreconditionFailed, match="needs an x-dead-letter-exchange"):
        check_queue(queue("q", x_dead_letter_routing_key="k"))


def test_a_quorum_queue_does_not_dead_letter_what_it_rejects():
    with pytest.raises(PreconditionFailed, match="'drop-head', 'reject-publish' or 'block'"):
        check_queue(queue("q", x_queue_type="quorum", x_overflow="reject-publish-dlx"))


@pytest.mark.parametrize("age", ["1s", "7D", "12h", "999999999Y", "2M", "30m"])
def test_ages(age):
    declaration = queue("q", x_queue_type="stream", x_max_age=age)
    check_queue(declaration)
    assert effective(declaration, {}).max_age_s == int(age[:-1]) * AGE_SECONDS[age[-1]]


@pytest.mark.parametrize(
    "age", ["", "s", "0s", "-1s", "7", "7d", "7D ", "7 D", "1.5h", "07D", "1D12h", "٣D", 7, None, "1" * 10 + "s"]
)
def test_what_is_no_age(age):
    with pytest.raises(PreconditionFailed, match="a number above 0 with one of the units Y, M, D, h, m and s"):
        check_queue(queue("q", x_queue_type="stream", x_max_age=age))


@given(low=st.integers(-5, 5), width=st.integers(0, 5), value=st.integers(-20, 20))
def test_integers_are_within_their_bounds(low, width, value):
    assert integer(low, low + width).check(value) is (low <= value <= low + width)
    assert integer(low).check(value) is (value >= low)


def test_how_bounds_and_words_are_said():
    assert integer(0).allowed == "an integer, 0 or more"
    assert integer(1, unit="milliseconds").allowed == "an integer, 1 or more milliseconds"
    assert integer(1, 255).allowed == "an integer from 1 to 255"
    assert one_of("a", "b", "c").allowed == "'a', 'b' or 'c'"
    assert not one_of(1, 2).check(True)
    assert not integer(0).check(INTEGER_MAX + 1)
    assert not one_of("a").check(["a"])


@given(
    st.dictionaries(
        st.sampled_from([*GOOD, "x-unknown", "own"]), st.one_of(st.integers(), st.text(max_size=3)), max_size=4
    )
)
def test_nothing_else_is_ever_raised(arguments):
    for kind in QUEUE_TYPES:
        with suppress(EngineError):
            assert check_queue(queue("q", **{"x-queue-type": kind, **arguments})) is None
