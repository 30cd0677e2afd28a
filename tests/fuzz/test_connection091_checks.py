"""A short and repeatable run of the fuzz target of AMQP 0.9.1 connections."""

import pytest

from tests.fuzz.connection091_checks import check, mutated, seeds


def test_the_seeds():
    for data in seeds():
        check(data)


@pytest.mark.parametrize("seed", range(4))
def test_scripts_of_mutated_records(seed: int):
    for script in mutated(seed, 100):
        try:
            check(script)
        except Exception as fault:
            pytest.fail(f"{script.hex(' ')}: {fault!r}")
