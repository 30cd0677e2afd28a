"""The charts of the report, as SVG."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.charts import SERIES_MAX, Bar, Line, Span, bars_chart, lines_chart, round_up

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("value", "end"), [(0.0, 1.0), (0.07, 0.08), (1.0, 1.0), (9.2, 10.0), (12345.0, 15000.0)])
def test_an_axis_ends_a_little_above_the_largest_value(value: float, end: float):
    assert round_up(value) == pytest.approx(end)


@pytest.mark.slow
@given(st.floats(1e-9, 1e15))
def test_an_axis_has_room_and_is_not_mostly_empty(value: float):
    assert value * 0.999 <= round_up(value) <= value * 2


def test_lines_stand_where_their_values_are():
    tree = ET.fromstring(
        lines_chart("t", "messages", [Line("one", [(0, 0), (5, 50), (10, 100)]), Line("two", [], True)])
    )
    one, two = tree.findall(f"{SVG}polyline")
    assert one.get("points") == "78.0,256.0 413.0,135.0 748.0,14.0"
    assert (one.get("class"), two.get("class")) == ("line series0", "line series1 dashed")


def test_a_chart_has_no_more_lines_than_can_be_told_apart_and_bands_behind_them():
    lines = [Line(f"line {number}", [(0, 1)]) for number in range(SERIES_MAX + 3)]
    tree = ET.fromstring(lines_chart("t", "u", lines, [Span("closed", 2, 4)]))
    assert len(tree.findall(f"{SVG}polyline")) == SERIES_MAX
    band, key = tree.findall(f"{SVG}rect")
    assert (float(band.get("x")), key.get("class")) > (78, "")


def test_bars_are_as_long_as_their_values():
    tree = ET.fromstring(bars_chart("t", [Bar("a", 4.0, "4 s"), Bar("b", 1.0, "1 s"), Bar("c", 0.0, "none")]))
    a, b, c = (float(bar.get("width")) for bar in tree.findall(f"{SVG}rect"))
    assert a == 4 * b > c == 0


@pytest.mark.slow
@given(st.text(max_size=20))
def test_names_cannot_leave_their_text(name: str):
    wild = f"<script>{name}&\"'</script>"
    for picture in (
        lines_chart(wild, wild, [Line(wild, [(0, 1)])], [Span(wild, 0, 1)]),
        bars_chart(wild, [Bar(wild, 1, wild)]),
    ):
        assert "<script" not in picture
