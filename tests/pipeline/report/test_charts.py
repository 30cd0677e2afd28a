"""The charts of the report, as SVG."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.charts import STRIPS_MAX, Bar, ChartSpan, Strip, Value, bars_chart, clock, round_up, strips_chart

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("value", "end"), [(0.0, 1.0), (0.07, 0.08), (1.0, 1.0), (9.2, 10.0), (12345.0, 15000.0)])
def test_an_axis_ends_a_little_above_the_largest_value(value: float, end: float):
    assert round_up(value) == pytest.approx(end)


@pytest.mark.slow
@given(st.floats(1e-9, 1e15))
def test_an_axis_has_room_and_is_not_mostly_empty(value: float):
    assert value * 0.999 <= round_up(value) <= value * 2


def strips(number: int) -> list[Strip]:
    return [Strip(f"link {n}", [Value(100, 0, 5), Value(110, 0, 10)]) for n in range(number)]


def test_each_strip_has_its_values_and_an_axis_of_its_own():
    small = Strip("small", [Value(100, 0, 0), Value(105, 1, 4), Value(110, 2, 8)], older=True)
    large = Strip("large", [Value(100, 0, 8_000), Value(110, 4_000, 8_000)])
    tree = ET.fromstring(strips_chart("t", [small, large], 100, 110))
    one, two = tree.findall(f"{SVG}polyline")
    assert one.get("points") == "78.0,86.0 413.0,55.0 748.0,24.0"
    assert two.get("points") == "78.0,114.0 748.0,114.0"
    assert (one.get("class"), two.get("class")) == ("line series0 dashed", "line series1")
    lower = tree.findall(f"{SVG}polygon")[1].get("points")
    assert lower.split()[2:] == ["748.0,145.0", "78.0,176.0"]
    texts = [text.text for text in tree.findall(f"{SVG}text")]
    assert {"8", "8,000"} <= set(texts)
    assert texts[-6:] == ["00:01:40", "00:01:42", "00:01:44", "00:01:46", "00:01:48", "00:01:50"]


def test_seconds_in_which_a_link_was_held_up_are_marked_by_how_long():
    strip = Strip("link", [Value(0, 0, 1)], held_up=[(0, 1.0), (5, 0.5)])
    tree = ET.fromstring(strips_chart("t", [strip], 0, 10))
    whole, half, key = (one for one in tree.findall(f"{SVG}rect") if one.get("class") == "held")
    assert float(whole.get("width")) == 2 * float(half.get("width")) == 67.0
    assert key.get("width") == "30"


@pytest.mark.parametrize(("length", "words"), [(60.0, "13:50:52"), (20_000.0, "13:50"), (200_000.0, "11-27 13:50")])
def test_times_are_as_exact_as_the_chart(length: float, words: str):
    assert clock(1795787452, of=length) == words


def test_a_chart_has_no_more_strips_than_fit_and_bands_behind_each():
    tree = ET.fromstring(strips_chart("t", strips(STRIPS_MAX + 3), 100, 110, [ChartSpan("closed", 102, 104)]))
    assert len(tree.findall(f"{SVG}polyline")) == STRIPS_MAX
    bands = [one for one in tree.findall(f"{SVG}rect") if one.get("class") == "span"]
    assert len(bands) == STRIPS_MAX + 1
    assert bands[0].get("width") == "134.0"


def test_long_names_are_wrapped_and_not_cut():
    name = "/queues/" + "orders." * 50
    for picture in (strips_chart("t", [Strip(name, [])], 0, 1), bars_chart("t", [Bar(name, 1, "w")])):
        tree = ET.fromstring(picture)
        assert name in "".join(text.text or "" for text in tree.findall(f"{SVG}text"))
        height = float(tree.get("viewBox").split()[3])
        assert all(float(text.get("y")) < height for text in tree.findall(f"{SVG}text"))


def test_bars_are_as_long_as_their_values():
    tree = ET.fromstring(bars_chart("t", [Bar("a", 4.0, "4 s"), Bar("b", 1.0, "1 s"), Bar("c", 0.0, "none")]))
    a, b, c = (float(bar.get("width")) for bar in tree.findall(f"{SVG}rect"))
    assert a == 4 * b > c == 0


@pytest.mark.slow
@given(st.text(max_size=20))
def test_names_cannot_leave_their_text(name: str):
    wild = f"<script>{name}&\"'</script>"
    for picture in (
        strips_chart(wild, [Strip(wild, [Value(0, 0, 1)])], 0, 1, [ChartSpan(wild, 0, 1)]),
        bars_chart(wild, [Bar(wild, 1, wild)]),
    ):
        assert "<script" not in picture
