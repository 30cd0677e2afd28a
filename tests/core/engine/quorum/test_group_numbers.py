"""The numbers of the groups of a cluster, and the group of a queue."""

import pytest

from core.engine.quorum.group_numbers import (
    EVERY_NODE,
    OF_A_SIZE_MAX,
    SIZES,
    GroupNumbers,
    number_in_log,
    size_in,
    with_size,
)

IDENTITY = "0123456789abcdef" * 2


@pytest.mark.parametrize("everywhere", [1, 16, 64])
def test_each_group_has_one_size(everywhere: int):
    numbers = GroupNumbers(everywhere)
    found = [number for size in (EVERY_NODE, *SIZES) for number in numbers.of_size(size)]
    assert found == list(numbers.all) == list(range(1, len(numbers.all) + 1))
    assert all(numbers.size_of(number) == size for size in (EVERY_NODE, *SIZES) for number in numbers.of_size(size))
    assert list(numbers.sized) == [number for number in found if numbers.size_of(number) != EVERY_NODE]
    assert {len(numbers.of_size(size)) for size in SIZES} == {min(everywhere, OF_A_SIZE_MAX)}


def test_all_groups_fit_into_a_transaction_of_etcd():
    assert len(GroupNumbers(64).all) + 1 <= 128


def test_a_queue_without_a_size_is_in_the_group_in_which_it_always_was():
    assert GroupNumbers(16).of(IDENTITY) == number_in_log(IDENTITY) % 16 + 1


@pytest.mark.parametrize("size", SIZES)
def test_the_identity_says_the_size(size: int):
    identity = with_size(IDENTITY, size)
    assert size_in(identity) == size
    assert number_in_log(identity) == number_in_log(IDENTITY)
    numbers = GroupNumbers(64)
    assert numbers.size_of(numbers.of(identity)) == size
    assert with_size(IDENTITY, EVERY_NODE) == IDENTITY


@pytest.mark.parametrize("size", ["", "4", "x", "3-5"])
def test_an_identity_with_another_size_is_none(size: str):
    with pytest.raises(ValueError, match=r"."):
        size_in(f"{IDENTITY}-{size}")
