"""A short and repeatable run of the 0.9.1 decoder's fuzz target."""

import pytest

from tests.fuzz.decoder091_checks import check, seeds
from tests.fuzz.decoder_checks import mutations


def test_the_byte_vectors():
    corpus = seeds()
    assert len(corpus) > 500
    for data in corpus:
        check(data)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_to_the_byte_vectors(seed):
    for data in mutations(seeds(), seed, 4000):
        try:
            check(data)
        except Exception as fault:
            pytest.fail(f"{data.hex(' ')}: {fault!r}")
