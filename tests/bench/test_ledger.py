"""The verdict over a run: exact counts of lost, duplicated, reordered and foreign messages."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from amqp10.load.ledger import Ledger, LedgerVerdict, judge


def ledger_of(*sequences, publisher=1):
    ledger = Ledger()
    for sequence in sequences:
        ledger.add(publisher, sequence, 1)
    return ledger


def verdict_on(sent, *sequences):
    return judge({1: sent}, [ledger_of(*sequences).ranges()])


def test_everything_once_and_in_order_is_clean():
    verdict = verdict_on(5, 0, 1, 2, 3, 4)
    assert verdict == LedgerVerdict()
    assert verdict.clean


def test_a_lost_message_is_counted_wherever_it_was():
    assert verdict_on(3, 1, 2) == LedgerVerdict(lost=1)
    assert verdict_on(3, 0, 2) == LedgerVerdict(lost=1)
    assert verdict_on(3, 0, 1) == LedgerVerdict(lost=1)
    assert verdict_on(3) == LedgerVerdict(lost=3)


def test_a_duplicate_is_not_also_reordered():
    assert verdict_on(4, 0, 1, 1, 2, 3) == LedgerVerdict(duplicated=1)
    assert verdict_on(4, 0, 1, 2, 3, 1) == LedgerVerdict(duplicated=1)


def test_two_exchanged_messages_are_one_out_of_order():
    assert verdict_on(4, 0, 2, 1, 3) == LedgerVerdict(reordered=1)


def test_a_message_that_was_not_sent_is_foreign():
    assert verdict_on(2, 0, 1, 2) == LedgerVerdict(foreign=1)
    assert judge({1: 1}, [ledger_of(0).ranges(), ledger_of(0, publisher=9).ranges()]) == LedgerVerdict(foreign=1)


def test_consumers_that_share_a_queue_may_take_turns():
    assert judge({1: 6}, [ledger_of(0, 2, 4).ranges(), ledger_of(1, 3, 5).ranges()]).clean


def test_the_same_message_at_two_consumers_is_a_duplicate():
    assert judge({1: 2}, [ledger_of(0, 1).ranges(), ledger_of(1).ranges()]) == LedgerVerdict(duplicated=1)


def test_a_run_costs_one_range():
    ledger = Ledger()
    ledger.add(1, 0, 100)
    ledger.add(1, 100, 50)
    assert ledger.ranges() == {1: [(0, 150)]}
    assert ledger.total == 150


@given(sent=st.integers(0, 12), consumers=st.lists(st.lists(st.integers(0, 15), max_size=20), max_size=3))
def test_the_verdict_equals_that_of_a_slow_and_simple_judge(sent, consumers):
    verdict = judge({1: sent}, [ledger_of(*sequences).ranges() for sequences in consumers])
    seen = Counter(sequence for sequences in consumers for sequence in sequences)
    late = 0
    for sequences in consumers:
        for index, sequence in enumerate(sequences):
            earlier = sequences[:index]
            late += sequence not in earlier and any(other > sequence for other in earlier)
    assert verdict == LedgerVerdict(
        lost=sum(sequence not in seen for sequence in range(sent)),
        duplicated=sum(count - 1 for count in seen.values()),
        reordered=late,
        foreign=sum(sequence >= sent for sequence in seen),
    )
