"""A short and repeatable run of the decoder's fuzz target."""

import pytest

from amqp10.wire.codec.decode import DEPTH_MAX
from tests.fuzz.decoder_checks import check, mutations, seeds


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


@pytest.mark.parametrize(
    "innermost", [b"\x45", b"\xc0\x01\x00", b"\xc1\x01\x00", b"\x40"], ids=["list0", "list8", "map8", "null"]
)
@pytest.mark.parametrize("levels", [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1])
def test_what_is_nested_as_deep_as_it_may_be_can_be_encoded_again(innermost: bytes, levels: int):
    """An empty list in its own format code was one level for the encoder, and none for the decoder."""
    check(b"\x00\x40" * levels + innermost)
    check(b"\x00" * levels + innermost + b"\x40" * levels)
