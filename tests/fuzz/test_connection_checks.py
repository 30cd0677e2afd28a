"""A short and repeatable run of the connection's fuzz target."""

import pytest

from tests.fuzz.connection_checks import check, mutated, record, records, seeds


def test_a_script_is_its_records():
    script = record(0, b"ab") + record(3, b"") + record(2, b"c")
    assert list(records(script)) == [(0, b"ab"), (3, b""), (2, b"c")]
    assert list(records(script[:-1] + b"\xff")) == [(0, b"ab"), (3, b""), (2, b"\xff")]
    assert list(records(script[:-1])) == [(0, b"ab"), (3, b""), (2, b"")]


def test_the_seeds():
    for data in seeds():
        check(data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_scripts_of_mutated_records(seed: int):
    for script in mutated(seed, 250):
        try:
            check(script)
        except Exception as fault:
            pytest.fail(f"{script.hex(' ')}: {fault!r}")
