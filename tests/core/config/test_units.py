"""Sizes and durations: exact in both directions, and refused with a list of the units that exist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.units import parse_bytes, parse_seconds, render_bytes, render_seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("1B", 1), ("64MiB", 64 * 2**20), ("1.5KiB", 1536), ("2 GiB", 2**31), ("3MB", 3_000_000)],
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0.0), ("250ms", 0.25), ("1.5s", 1.5), ("2min", 120.0), ("1h", 3600.0), ("1d", 86400.0)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "MiB", "-1B", "1 000B", "5 parsecs", "1e3B", "64mib", "5s\n", "٣s", "nan s"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match="must be a number with a unit"):
        parse_bytes(text)
    with pytest.raises(ValueError, match="must be a number with a unit"):
        parse_seconds(text.replace("B", "s") if text != "5s\n" else text)


def test_half_a_byte_is_refused():
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_bytes("1.5B")


@given(st.integers(0, 2**60))
def test_a_size_survives_its_rendering(size: int):
    assert parse_bytes(render_bytes(size % 10**15).strip('"')) == size % 10**15


@given(st.integers(0, 10**8).map(lambda milliseconds: milliseconds / 1000))
def test_a_duration_survives_its_rendering(seconds: float):
    assert parse_seconds(render_seconds(seconds).strip('"')) == pytest.approx(seconds, rel=1e-5)
