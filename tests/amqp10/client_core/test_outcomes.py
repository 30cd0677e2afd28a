"""The record of outcomes: ranges come in any order, and every message has exactly the outcome that came for it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client_core.outcomes import FateRange, OpenOutcomes, Outcomes, Uncertain, as_fate, merged
from amqp10.wire.messaging import Accepted, Modified, Received, Rejected, Released

FATES = [Accepted(), Released(), Rejected()]


@st.composite
def posts_and_outcomes(draw):
    """The sizes of some posts, and outcomes for all of their messages, as ranges in any order."""
    sizes = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    total = sum(sizes)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, total - 1)), max_size=12))) if total > 1 else []
    edges = [0, *[cut for cut in cuts if cut < total], total]
    pieces = [(low, high - 1, draw(st.sampled_from(FATES))) for low, high in pairwise(edges) if low < high]
    return sizes, draw(st.permutations(pieces))


def open_posts(sizes: list[int]) -> tuple[OpenOutcomes, list[Outcomes]]:
    """A sender's record after posts of these sizes."""
    book, posts, following = OpenOutcomes(), [], 0
    for size in sizes:
        outcomes = Outcomes(following)
        if size:
            book.add(outcomes, size)
        outcomes.close()
        posts.append(outcomes)
        following += size
    return book, posts


@given(posts_and_outcomes())
def test_every_message_has_the_fate_that_came_for_it(case):
    sizes, pieces = case
    book, posts = open_posts(sizes)
    expected = {number: fate for low, high, fate in pieces for number in range(low, high + 1)}
    left = sum(sizes)
    for low, high, fate in pieces:
        assert book.missing == left
        book.note(low, high, fate)
        left -= high - low + 1
    assert book.missing == left == 0
    assert all(outcomes.done for outcomes in posts)
    found = {
        number: piece.fate
        for outcomes in posts
        for piece in outcomes.so_far()
        for number in range(piece.first, piece.last + 1)
    }
    assert found == expected
    assert [len(outcomes) for outcomes in posts] == sizes
    for outcomes in posts:
        ranges = outcomes.so_far()
        assert sum(piece.messages for piece in ranges) == len(outcomes)
        assert all(a.last < b.first and (a.last + 1 < b.first or a.fate != b.fate) for a, b in pairwise(ranges))


@given(posts_and_outcomes(), st.integers(0, 20))
def test_giving_up_is_the_fate_of_exactly_what_is_missing(case, n):
    sizes, pieces = case
    book, posts = open_posts(sizes)
    for low, high, fate in pieces[:n]:
        book.note(low, high, fate)
    missing = {number for low, high, _ in pieces[n:] for number in range(low, high + 1)}
    lost = Uncertain("the connection is gone")
    book.give_up(lost)
    assert book.missing == 0
    given_up = {
        number
        for outcomes in posts
        for piece in outcomes.so_far()
        if piece.fate == lost
        for number in range(piece.first, piece.last + 1)
    }
    assert given_up == missing


def test_fates_of_equal_neighbours_are_one_range_however_many_messages():
    outcomes = Outcomes(0)
    outcomes.extend(1_000_000)
    outcomes.close()
    for first in range(0, 1_000_000, 1000):
        outcomes.note(first, first + 999, Accepted())
    assert outcomes.so_far() == [FateRange(0, 999_999, Accepted())]
    assert merged([]) == []


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), max_size=8), posts_and_outcomes())
def test_messages_that_were_taken_away_have_no_fate_and_their_numbers_are_given_again(added, case):
    """Before its messages have fates, a post grows and shrinks at its end."""
    sizes, pieces = case
    book, posts = open_posts(sizes)
    last = Outcomes(sum(sizes))
    for more, fewer in added:
        book.add(last, more)
        book.add(last, -min(fewer, len(last)))
    assert book.missing == sum(sizes) + len(last)
    for low, high, fate in pieces:
        book.note(low, high, fate)
    assert all(outcomes.done for outcomes in posts)
    assert last.so_far() == []
    told: list[str] = []
    last.when_done = lambda: told.append("done")
    if len(last):
        book.note(last.first, last.end - 1, Accepted())
        assert (last.so_far(), told) == ([FateRange(sum(sizes), last.end - 1, Accepted())], [])
    last.close()
    assert (last.done, told, book.missing) == (True, ["done"], 0)


@pytest.mark.parametrize("state", [Accepted(), Rejected(), Released(), Modified()])
def test_an_outcome_of_the_specification_is_a_fate_and_no_outcome_is_uncertain(state):
    assert as_fate(state) is state
    assert (
        as_fate(None)
        == as_fate(Received(section_number=0, section_offset=0))
        == Uncertain("the broker settled without an outcome")
    )
