"""Limits of memory and disk space: their three forms, both conventions of units, and what is refused."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import ConfigError, Settings, load, render
from core.config.alarms import AlarmSettings, parse_free_limit, parse_watermark
from core.config.units import LIMIT_UNITS, explain_convention, parse_limit

SEED = {
    "k": 2**10, "kiB": 2**10, "M": 2**20, "MiB": 2**20, "G": 2**30, "GiB": 2**30,
    "kB": 10**3, "MB": 10**6, "GB": 10**9,
}  # fmt: skip
GIB = 2**30


def read(tmp_path: Path, text: str) -> AlarmSettings:
    path = tmp_path / "broker.toml"
    path.write_text(f"[alarms]\n{text}\n")
    return load(path).alarms


@pytest.mark.parametrize(("unit", "size"), SEED.items())
def test_row_4_20_units_of_the_table(unit: str, size: int):
    assert parse_limit(f"3{unit}", "binary") == 3 * size
    assert LIMIT_UNITS["binary"] == SEED


SINCE_3_13 = {
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
    "kiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
}  # fmt: skip


@pytest.mark.parametrize(("unit", "size"), SINCE_3_13.items())
def test_row_4_20_units_since_3_13(unit: str, size: int):
    assert parse_limit(f"3{unit}", "decimal") == 3 * size
    assert LIMIT_UNITS["decimal"] == SINCE_3_13


@given(
    whole=st.integers(0, 10**12),
    thousandths=st.integers(0, 999),
    convention=st.sampled_from(["binary", "decimal"]),
    data=st.data(),
)
def test_row_4_20_every_size_is_exact_or_refused(whole, thousandths, convention, data):
    unit = data.draw(st.sampled_from(sorted(LIMIT_UNITS[convention])))
    exact = (whole + Fraction(thousandths, 1000)) * LIMIT_UNITS[convention][unit]
    text = f"{whole}.{thousandths:03}{unit}"
    if exact.denominator == 1:
        assert parse_limit(text, convention) == exact
    else:
        with pytest.raises(ValueError, match="whole number of bytes"):
            parse_limit(text, convention)
    assert parse_limit(str(whole), convention) == whole


@given(text=st.text(max_size=12), convention=st.sampled_from(["binary", "decimal"]))
def test_row_4_20_any_text_is_a_size_or_refused_with_the_convention(text, convention):
    try:
        size = parse_limit(text, convention)
    except ValueError as error:
        refusal = str(error)
    else:
        assert size >= 0
        return
    assert "whole number" in refusal or explain_convention(convention) in refusal


@pytest.mark.parametrize(
    "text", ["1KiB", "1g", "1Mi", "1TB", "-1", "1e9", "MB", "", "1 0", "٣MB", "1GB\n", "absolute 1"]
)
def test_row_4_20_what_is_not_in_the_table_is_refused_and_the_convention_is_named(text: str):
    with pytest.raises(ValueError, match="unit convention binary: 1M is 1048576 bytes"):
        parse_limit(text, "binary")


def test_row_4_20_the_convention_is_a_setting_and_is_named_in_the_error(tmp_path: Path):
    assert read(tmp_path, 'disk_free_limit = "1G"').free_limit.limit(GIB) == 2**30
    assert read(tmp_path, 'unit_convention = "decimal"\ndisk_free_limit = "1G"').free_limit.limit(GIB) == 10**9
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, 'unit_convention = "decimal"\ndisk_free_limit = "1g"')
    (problem,) = caught.value.problems
    assert 'broker.toml:3: alarms.disk_free_limit = "1g":' in problem
    assert "unit convention decimal: 1M is 1000000 bytes" in problem


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ("0.4", 429496729),
        ('"0.4"', 429496729),
        ("{ relative = 0.4 }", None),
        ("1.0", GIB),
        ("1", GIB),
        ("0", 0),
        ("{ absolute = 1073741824 }", GIB),
        ('{ absolute = "512M" }', 512 * 2**20),
        ('"absolute 512M"', 512 * 2**20),
        ('"512MB"', 512 * 10**6),
        ('"2GiB"', GIB),
    ],
)
def test_row_4_19_watermarks_relative_and_absolute(tmp_path: Path, written: str, limit: int | None):
    """An absolute watermark is never above the memory that the machine has."""
    if limit is None:
        with pytest.raises(ConfigError, match=r"relative 0\.4"):
            read(tmp_path, f"memory_watermark = {written}")
    else:
        assert read(tmp_path, f"memory_watermark = {written}").watermark.limit(GIB) == limit


@pytest.mark.parametrize("text", ["1.1", "3", "1.000000001"])
def test_row_4_18_a_watermark_above_all_memory_is_refused(tmp_path: Path, text: str):
    with pytest.raises(ConfigError, match=f"the watermark {text} is above 1.0, which is all memory"):
        read(tmp_path, f"memory_watermark = {text}")


@pytest.mark.parametrize("written", ["true", "[0.4]", "-0.4", "nan", '"absolute 0.4.1"', '{ absolute = "1g" }', "{}"])
def test_what_is_no_watermark(tmp_path: Path, written: str):
    with pytest.raises(ConfigError, match=r"alarms\.memory_watermark"):
        read(tmp_path, f"memory_watermark = {written}")


@given(share=st.fractions(0, 1, max_denominator=1000), total=st.integers(1, 2**45))
def test_a_share_is_cut_to_whole_bytes(share: Fraction, total: int):
    text = f"{float(share):.6f}"
    assert parse_watermark(text, "binary").limit(total) == Fraction(text) * total // 1


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ("1000000000", 10**9),
        ('"1GB"', 10**9),
        ("{ mem_relative = 1.0 }", GIB),
        ('"mem_relative 1.5"', 3 * GIB // 2),
        ("{ mem_relative = 2 }", 2 * GIB),
        ("0", 0),
    ],
)
def test_row_4_27_disk_limits(tmp_path: Path, written: str, limit: int):
    assert read(tmp_path, f"disk_free_limit = {written}").free_limit.limit(GIB) == limit


@pytest.mark.parametrize(
    "text", ["mem_relative 1GB", "mem_relative", "mem_relative -1", "mem_relative 1001", "50 potatoes"]
)
def test_row_4_27_what_is_no_disk_limit(text: str):
    with pytest.raises(ValueError, match=r"mem_relative|no size"):
        parse_free_limit(text, "binary")


def test_row_4_27_mem_relative_is_rounded():
    assert parse_free_limit("mem_relative 0.5", "binary").limit(3) == 2


def test_row_4_22_the_default_and_its_limits(tmp_path: Path):
    assert AlarmSettings().paging_ratio == 0.5
    assert read(tmp_path, "paging_ratio = 1.5").paging_ratio == 1.5
    with pytest.raises(ConfigError, match="must be at least"):
        read(tmp_path, "paging_ratio = -0.1")


def test_what_is_written_is_kept(tmp_path: Path):
    path = tmp_path / "broker.toml"
    settings = load(None, {"alarms.memory_watermark": 0.5, "alarms.disk_free_limit": {"mem_relative": 1.5}})
    path.write_text(render(settings))
    assert load(path) == settings != Settings()
