"""The client's record of outcomes: ranges come in any order, and every message has exactly the outcome that came for
it."""

from itertools import pairwise

import trio
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client import FateRange, Receipt, Uncertain
from amqp10.client.receipt import OpenReceipts, merged
from amqp10.wire.messaging import Accepted, Rejected, Released

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


def open_posts(sizes: list[int]) -> tuple[OpenReceipts, list[Receipt]]:
    """A sender's record after posts of these sizes."""
    book, receipts, following = OpenReceipts(), [], 0
    for size in sizes:
        receipt = Receipt(following)
        if size:
            book.add(receipt, size)
        receipt.close()
        receipts.append(receipt)
        following += size
    return book, receipts


@given(posts_and_outcomes())
def test_every_message_has_the_fate_that_came_for_it(case):
    sizes, pieces = case
    book, receipts = open_posts(sizes)
    expected = {number: fate for low, high, fate in pieces for number in range(low, high + 1)}
    left = sum(sizes)
    for low, high, fate in pieces:
        assert book.missing == left
        book.note(low, high, fate)
        left -= high - low + 1
    assert book.missing == left == 0
    assert all(receipt.done for receipt in receipts)
    found = {
        number: piece.fate
        for receipt in receipts
        for piece in receipt.so_far()
        for number in range(piece.first, piece.last + 1)
    }
    assert found == expected
    assert [len(receipt) for receipt in receipts] == sizes
    for receipt in receipts:
        ranges = receipt.so_far()
        assert sum(piece.messages for piece in ranges) == len(receipt)
        assert all(a.last < b.first and (a.last + 1 < b.first or a.fate != b.fate) for a, b in pairwise(ranges))


@given(posts_and_outcomes(), st.integers(0, 20))
def test_giving_up_is_the_fate_of_exactly_what_is_missing(case, n):
    sizes, pieces = case
    book, receipts = open_posts(sizes)
    for low, high, fate in pieces[:n]:
        book.note(low, high, fate)
    missing = {number for low, high, _ in pieces[n:] for number in range(low, high + 1)}
    lost = Uncertain("the connection is gone")
    book.give_up(lost)
    assert book.missing == 0
    given_up = {
        number
        for receipt in receipts
        for piece in receipt.so_far()
        if piece.fate == lost
        for number in range(piece.first, piece.last + 1)
    }
    assert given_up == missing


def test_fates_of_equal_neighbours_are_one_range_however_many_messages():
    receipt = Receipt(0)
    receipt.extend(1_000_000)
    receipt.close()
    for first in range(0, 1_000_000, 1000):
        receipt.note(first, first + 999, Accepted())
    assert receipt.so_far() == [FateRange(0, 999_999, Accepted())]
    assert merged([]) == []


async def test_waiting_ends_with_the_last_fate(autojump_clock):
    receipt = Receipt(5)
    receipt.extend(2)
    receipt.close()
    times: list[float] = []

    async def wait() -> None:
        await receipt.fates()
        times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.sleep(1)
        receipt.note(6, 6, Accepted())
        await trio.sleep(1)
        receipt.note(0, 5, Released())
    assert times == [2, 2]
    assert await receipt.fates() == [FateRange(5, 5, Released()), FateRange(6, 6, Accepted())]
