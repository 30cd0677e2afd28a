"""The lines of keys in a file, found without a grammar of our own."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from core.config.lines import Path, line_numbers

TEXT = '''\
# a comment
top = 1

[a]   # with a comment
x = """
[not.a.table]
y = 2
"""
"quoted key" = [
  1,
  2,
]
inline = { deep = { deeper = true } }
dotted.key = 3

[a.b]
z = 1
[[people]]
name = "one"
[people.home]
city = "x"
[[people]]
name = 'two'
'''


def test_each_key_has_its_line():
    assert line_numbers(TEXT) == {
        ("top",): 2,
        ("a",): 4,
        ("a", "x"): 5,
        ("a", "quoted key"): 9,
        ("a", "inline"): 13,
        ("a", "inline", "deep"): 13,
        ("a", "inline", "deep", "deeper"): 13,
        ("a", "dotted"): 14,
        ("a", "dotted", "key"): 14,
        ("a", "b"): 16,
        ("a", "b", "z"): 17,
        ("people", 0): 18,
        ("people", 0, "name"): 19,
        ("people", 0, "home"): 20,
        ("people", 0, "home", "city"): 21,
        ("people", 1): 22,
        ("people", 1, "name"): 23,
    }


def test_windows_line_ends_are_lines_too():
    assert line_numbers("a = 1\r\n\r\nb = 2\r\n") == {("a",): 1, ("b",): 3}


KEYS = st.lists(st.text("abcd", min_size=1, max_size=3), unique=True, min_size=1, max_size=5)
VALUES = st.sampled_from(["1", '"x"', "[1,\n2]", '"""\nb = 1\n"""', "{ q = 1 }"])


@given(KEYS, st.lists(VALUES, min_size=5, max_size=5), st.integers(0, 3))
def test_every_key_of_a_valid_text_has_the_line_where_it_is_written(keys: list[str], values: list[str], blank: int):
    text = "\n" * blank
    expected: dict[Path, int] = {}
    for key, value in zip(keys, values, strict=False):
        expected[(key,)] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    assert set(tomllib.loads(text)) == set(keys)
    lines = line_numbers(text)
    assert {path: line for path, line in lines.items() if len(path) == 1} == expected
