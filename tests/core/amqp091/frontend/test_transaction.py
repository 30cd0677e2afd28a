"""What a channel holds back for tx.commit, by itself: limits, order, and how a rolled-back transaction is thrown
away."""

import pytest

from core.amqp091.errors import ChannelFault
from core.amqp091.frontend.transaction import DROPPED_AT_ONCE, Transaction
from core.config.amqp091 import Amqp091Settings
from tests.kit.engine import NOW


@pytest.fixture
def done() -> list[str]:
    """Everything that the transaction has carried out."""
    return []


@pytest.fixture
def transaction() -> Transaction:
    transaction = Transaction(Amqp091Settings(transaction_bytes_max=100, transaction_acks_max=3))
    transaction.selected = True
    return transaction


def held(transaction: Transaction, done: list[str], *names: str) -> None:
    """Let the transaction hold these operations back; publishes are in upper case."""
    for name in names:
        if name.isupper():
            transaction.hold_publishes(10, lambda now, name=name: done.append(name))
        else:
            transaction.hold_acknowledgements(1, lambda now, name=name: done.append(name))


def test_publishes_are_due_before_acknowledgements(transaction: Transaction, done: list[str]):
    held(transaction, done, "a", "P", "b", "Q")
    transaction.commit()
    held(transaction, done, "R")
    while transaction.due:
        transaction.due.popleft()(NOW)
    assert done == ["P", "Q", "a", "b"]
    transaction.commit()
    assert len(transaction.due) == 1, "of the next commit"


def test_what_is_behind_a_step_that_fails_is_abandoned(transaction: Transaction, done: list[str]):
    held(transaction, done, "P", "a")
    transaction.commit()
    transaction.abandon()
    assert not transaction.due
    assert transaction.dropped
    transaction.drop_some()
    assert not transaction.dropped
    transaction.abandon()
    assert not transaction.dropped, "there was nothing"


def test_a_rollback_goes_some_at_a_time_and_makes_room_at_once(transaction: Transaction, done: list[str]):
    for _ in range(10):
        transaction.hold_publishes(10, done.append)
    held(transaction, done, "a", "b", "c")
    transaction.rollback()
    for _ in range(10):
        transaction.hold_publishes(10, done.append)
    held(transaction, done, "a", "b", "c")
    transaction.drop_some()
    assert len(transaction.dropped) == 1, "acknowledgements are next"
    transaction.drop_some()
    assert not transaction.dropped
    assert done == []


def test_a_large_transaction_is_dropped_in_steps():
    transaction = Transaction(Amqp091Settings())
    for _ in range(2 * DROPPED_AT_ONCE + 1):
        transaction.hold_publishes(0, print)
    transaction.drop()
    steps = 0
    while transaction.dropped:
        transaction.drop_some()
        steps += 1
    assert steps == 3
    transaction.drop()
    assert not transaction.dropped


@pytest.mark.parametrize("bytes_held", [100, 101])
def test_bytes_are_bounded(transaction: Transaction, bytes_held: int):
    transaction.hold_publishes(60, print)
    if bytes_held <= 100:
        transaction.hold_publishes(bytes_held - 60, print)
        return
    with pytest.raises(ChannelFault, match="more than 100 bytes of messages"):
        transaction.hold_publishes(bytes_held - 60, print)


def test_ranges_of_acknowledgements_are_bounded(transaction: Transaction):
    transaction.hold_acknowledgements(2, print)
    with pytest.raises(ChannelFault, match="more than 3 acknowledgements"):
        transaction.hold_acknowledgements(2, print)


def test_outside_of_transaction_mode():
    transaction = Transaction(Amqp091Settings())
    for end in (transaction.commit, transaction.rollback):
        with pytest.raises(ChannelFault, match="not transactional"):
            end()
