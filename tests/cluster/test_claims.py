"""The checker of claims: it agrees with a search over all orders, and finds what is wrong in known histories."""

from itertools import permutations
from math import inf
from random import Random

import pytest

from tests.cluster.claims import Seen, contradiction


def claim(begun, ended, epoch, node):
    return Seen(begun, ended, epoch, node, claims=True)


CASES = [
    ([], ""),
    ([claim(0, 1, 1, 5), Seen(2, 3, 1, 5)], ""),
    ([Seen(0, 1, 0, 0), claim(2, 3, 1, 5)], ""),
    ([claim(0, 9, 1, 5), Seen(1, 2, 1, 5)], ""),
    ([claim(0, inf, 1, 5), Seen(4, 5, 1, 5)], ""),
    ([claim(0, 1, 1, 5), claim(2, 3, 2, 6), Seen(2.5, 4, 1, 5)], ""),
    ([claim(0, 1, 1, 5), claim(2, 3, 2, 6), Seen(4, 5, 1, 5)], "epoch 2 begins at 4.000 or later"),
    ([claim(2, 3, 1, 5), Seen(0, 1, 1, 5)], "epoch 1 begins at 2.000 or later"),
    ([claim(0, 1, 1, 5), claim(0, 1, 1, 6)], "epoch 1 has two owners"),
    ([claim(0, 1, 1, 5), claim(4, 5, 1, 5)], "epoch 1 was claimed twice"),
    ([Seen(0, 1, 1, 5)], "has not claimed it"),
]


@pytest.mark.parametrize(("history", "why"), CASES)
def test_known_histories(history, why):
    found = contradiction(history)
    assert why in found
    assert bool(found) == bool(why)


def explained(history):
    """Search all orders of the steps that respect the time."""
    return any(is_possible(order) for order in permutations(history))


def is_possible(order):
    epoch, node = 0, 0
    for place, step in enumerate(order):
        if any(later.ended < step.begun for later in order[place + 1 :]):
            return False
        if step.claims and (step.epoch, step.node) != (epoch, node):
            if step.epoch != epoch + 1:
                return False
            epoch, node = step.epoch, step.node
        elif step.claims or (step.epoch, step.node) != (epoch, node):
            return False
    return True


def test_it_agrees_with_a_search_over_all_orders():
    rng = Random(1)
    answers = set()
    for _ in range(1500):
        history = []
        for epoch in (1, 2):
            begun = rng.randint(0, 5)
            history.append(claim(begun, begun + rng.randint(1, 6), epoch, epoch))
        for _ in range(rng.randint(1, 3)):
            begun, epoch = rng.randint(0, 8), rng.randint(0, 2)
            history.append(Seen(begun, begun + rng.randint(1, 4), epoch, epoch))
        assert (contradiction(history) == "") == explained(history), history
        answers.add(contradiction(history) == "")
    assert answers == {True, False}
