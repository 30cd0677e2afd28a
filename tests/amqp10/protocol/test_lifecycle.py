"""The three life cycles: every pair of state and input, and every state is reached and left [2.4.6, 2.5.5]."""

from collections.abc import Iterator
from enum import Enum
from itertools import product

import pytest

from amqp10.protocol.lifecycle import (
    CONNECTION,
    LINK,
    SESSION,
    ConnectionState,
    IllegalTransition,
    Input,
    LinkState,
    SessionState,
    step,
)

MACHINES = {"connection": (CONNECTION, ConnectionState), "session": (SESSION, SessionState), "link": (LINK, LinkState)}
OPENING = (Input.OPENING_SENT, Input.OPENING_RECEIVED)
CLOSING = (Input.CLOSING_SENT, Input.CLOSING_RECEIVED, Input.FAULT)

machines = pytest.mark.parametrize(("table", "states"), MACHINES.values(), ids=MACHINES)


def first(states: type[Enum]) -> Enum:
    return next(iter(states))


def last(states: type[Enum]) -> Enum:
    return list(states)[-1]


def histories(table, start: Enum, length: int) -> Iterator[tuple[list[Input], Enum]]:
    """Every legal history of at most this length, with the state that it leads to."""
    yield [], start
    if length:
        for happened, following in table[start].items():
            for rest, end in histories(table, following, length - 1):
                yield [happened, *rest], end


@machines
def test_every_pair_is_a_legal_step_or_an_illegal_transition(table, states):
    assert set(table) == set(states)
    for state, happened in product(states, Input):
        if happened in table[state]:
            assert step(table, state, happened) is table[state][happened]
            assert table[state][happened] in states
        else:
            with pytest.raises(IllegalTransition, match=rf"{state.value}$"):
                step(table, state, happened)


@machines
def test_every_state_can_be_reached_and_leads_to_the_end(table, states):
    reached = {end for _, end in histories(table, first(states), 5)}
    assert reached == set(states)
    for state in states:
        assert last(states) in {end for _, end in histories(table, state, 4)}
    assert table[last(states)] == {}


@machines
def test_each_side_opens_once_and_closes_once(table, states):
    """While one side waits for the answer to its close, an open of the other side has no effect and is not counted."""
    for history, _ in histories(table, first(states), 6):
        open_until = next((place for place, happened in enumerate(history) if happened in CLOSING), len(history))
        assert all(history[:open_until].count(happened) <= 1 for happened in OPENING)
        assert history.count(Input.CLOSING_RECEIVED) <= 1
        assert history.count(Input.CLOSING_SENT) + history.count(Input.FAULT) <= 1


@machines
def test_we_close_only_what_one_of_us_has_opened(table, states):
    for history, _ in histories(table, first(states), 6):
        for place, happened in enumerate(history):
            if happened in (Input.CLOSING_SENT, Input.FAULT):
                assert Input.OPENING_SENT in history[:place] or Input.CLOSING_RECEIVED in history[:place]


@machines
def test_at_the_end_both_sides_have_closed(table, states):
    for history, end in histories(table, first(states), 6):
        both = Input.CLOSING_RECEIVED in history and bool({Input.CLOSING_SENT, Input.FAULT} & set(history))
        assert (end is last(states)) is both


@pytest.mark.parametrize(
    ("table", "start", "inputs", "end"),
    [
        (CONNECTION, ConnectionState.START, "OPENING_SENT OPENING_RECEIVED", ConnectionState.OPENED),
        (CONNECTION, ConnectionState.START, "OPENING_RECEIVED OPENING_SENT", ConnectionState.OPENED),
        (CONNECTION, ConnectionState.OPENED, "FAULT", ConnectionState.DISCARDING),
        (CONNECTION, ConnectionState.OPENED, "CLOSING_SENT CLOSING_RECEIVED", ConnectionState.END),
        (CONNECTION, ConnectionState.OPENED, "CLOSING_RECEIVED CLOSING_SENT", ConnectionState.END),
        (CONNECTION, ConnectionState.OPEN_SENT, "CLOSING_SENT OPENING_RECEIVED", ConnectionState.CLOSE_SENT),
        (SESSION, SessionState.UNMAPPED, "OPENING_RECEIVED OPENING_SENT", SessionState.MAPPED),
        (SESSION, SessionState.BEGIN_SENT, "CLOSING_SENT OPENING_RECEIVED CLOSING_RECEIVED", SessionState.ENDED),
        (SESSION, SessionState.MAPPED, "FAULT CLOSING_RECEIVED", SessionState.ENDED),
        (LINK, LinkState.DETACHED, "OPENING_SENT OPENING_RECEIVED", LinkState.ATTACHED),
        (LINK, LinkState.ATTACH_SENT, "CLOSING_SENT OPENING_RECEIVED CLOSING_RECEIVED", LinkState.GONE),
        (LINK, LinkState.ATTACHED, "CLOSING_RECEIVED FAULT", LinkState.GONE),
    ],
)
def test_histories_of_the_specification(table, start, inputs, end):
    state = start
    for name in inputs.split():
        state = step(table, state, Input[name])
    assert state is end
