"""The line of the configuration that keeps the keys of a password."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.access import DIGEST_BYTES, ITERATIONS_MAX, ITERATIONS_MIN, ScramKeys

KEYS = st.sampled_from(sorted(DIGEST_BYTES.items())).flatmap(
    lambda hash_and_size: st.builds(
        ScramKeys,
        iterations=st.integers(ITERATIONS_MIN, ITERATIONS_MAX),
        salt=st.binary(min_size=12, max_size=32),
        stored_key=st.binary(min_size=hash_and_size[1], max_size=hash_and_size[1]),
        server_key=st.binary(min_size=hash_and_size[1], max_size=hash_and_size[1]),
        hash=st.just(hash_and_size[0]),
    )
)


@given(KEYS)
def test_keys_survive_their_line(keys: ScramKeys):
    assert ScramKeys.parse(keys.render()) == keys


def line(iterations: int = 4096, salt: bytes = b"s" * 16, stored: bytes = b"k" * 32, server: bytes = b"k" * 32) -> str:
    parts = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{parts[0]}${parts[1]}:{parts[2]}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret", "made by: headgate hash-password"),
        (line().replace("256", "1"), "made by"),
        (line() + "\n", "base64"),
        (line().replace("c3Nz", "c3N!"), "base64"),
        (line(iterations=4095), "4096 to 5000000 iterations"),
        (line(iterations=5_000_001), "4096 to 5000000 iterations"),
        (line(salt=b"short"), "salt of 12 bytes"),
        (line(stored=b"k" * 31), "keys of 32"),
        (line(server=b"k" * 33), "keys of 32"),
        (line().replace("256", "512"), "keys of 64"),
    ],
)
def test_anything_else_is_refused_and_not_repeated(text: str, words: str):
    with pytest.raises(ValueError, match=words) as caught:
        ScramKeys.parse(text)
    assert text not in str(caught.value)
