"""JSON in definitions files: what Python's reader tolerates against the standard is a problem with its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.definitions_file.json_values import (
    DEPTH_MAX,
    FILE_BYTES_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    VALUES_MAX,
    parse,
    problems_of,
    shown_path,
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file: it is not JSON: Expecting value in line 1, column 1"),
        ('{\n "a": 1,\n "b" 2}', "line 3, column 6"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ('{"a": 01}', "it is not JSON"),
        ('{"a": 1e400}', "a: the number is too large"),
        ('{"a": 1, "b": {"c": 2, "c": 3}}', "b.c: this key is there twice; keep one of them"),
        ('[{"a": [1, {"b": 1, "b": 1, "b": 1}]}]', "[0].a[1].b: this key is there twice"),
        (f'{{"a": {INTEGER_MAX + 1}}}', f"a: the number must be from {INTEGER_MIN} to {INTEGER_MAX}"),
        ('{"a": -' + "9" * 10_000 + "}", "a: the number must be from"),
        (r'{"a b": "x\ud800"}', r"""["a b"]: 'x\ud800' is no Unicode text"""),
        (r'{"x\udfff": 1}', r"the key 'x\udfff' is no Unicode text"),
        ("[" * 200_000, f"it is nested too deeply; at most {DEPTH_MAX} levels are read"),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), f"it is deeper than {DEPTH_MAX} levels"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_wrong_is_told_with_its_place(text, complaint):
    _, problems = parse(text.encode())
    assert len(problems) == 1
    assert complaint in str(problems[0])


def test_bytes_that_are_no_text():
    _, problems = parse(b'{"a": "\xff"}')
    assert [str(one) for one in problems] == ["the file: byte 7 is not UTF-8; save it as UTF-8"]


def test_a_byte_order_mark_is_passed_over():
    assert parse(b"\xef\xbb\xbf[1]") == ([1], [])


def test_a_file_that_is_too_large_is_not_even_decoded():
    _, problems = parse(b" " * (FILE_BYTES_MAX + 1))
    assert [str(one) for one in problems] == [f"the file: it has more than {FILE_BYTES_MAX} bytes; split it"]


def test_a_file_of_very_many_values_is_not_even_decoded():
    _, problems = parse(b"[]," * (VALUES_MAX // 2 + 1))
    assert f"more than {VALUES_MAX} values" in str(problems[0])


def test_every_problem_is_told():
    _, problems = parse(b'{"a": [1e999, {"b": 1, "b": 2}], "c": 99999999999999999999}')
    assert [problem.path for problem in problems] == ["a[0]", "a[1].b", "c"]


def test_objects_that_were_dropped_for_a_key_that_came_twice_are_taken_for_no_other():
    text = '{"x": {"y": {"z": 1, "z": 2}}, "x": ' + json.dumps([{"n": n} for n in range(1000)]) + "}"
    _, problems = parse(text.encode())
    assert [problem.path for problem in problems] == ["x"]


texts = st.text(st.characters(codec="utf-8"), max_size=4)
numbers = st.integers(INTEGER_MIN, INTEGER_MAX) | st.floats(allow_nan=False, allow_infinity=False)
plain_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(plain_values)
def test_a_valid_document_is_read_as_json_reads_it(value):
    assert parse(json.dumps(value).encode()) == (value, [])
    assert problems_of(value) == []


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(data):
    value, problems = parse(data)
    assert problems or problems_of(value) == []


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ((), ""),
        (("queues", 3, "arguments", "x-max-length"), "queues[3].arguments.x-max-length"),
        ((0, "a"), "[0].a"),
        (("a", 'say "b"'), 'a["say \\"b\\""]'),
        (("a", ""), 'a[""]'),
    ],
)
def test_paths_are_those_of_jq(path, shown):
    assert shown_path(path) == shown


def test_what_json_has_no_form_for():
    assert [str(one) for one in problems_of({"a": [b"x", float("nan")]})] == [
        "a[0]: b'x' has no form in JSON",
        "a[1]: nan has no form in JSON",
    ]
