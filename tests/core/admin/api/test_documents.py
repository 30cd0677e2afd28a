"""Documents of definitions that are read entry by entry: the same as in one piece, in short steps, within bounds."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.admin.api.documents import ENTRIES_MAX, ENTRY_CHARACTERS_MAX, KEYS_MAX, reading_document
from core.slices import run_at_once

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5))
VALUES = PLAIN | st.lists(PLAIN | st.lists(PLAIN, max_size=2), max_size=3) | st.dictionaries(st.text(max_size=3), PLAIN)
DOCUMENTS = st.dictionaries(st.text(max_size=5), VALUES | st.lists(VALUES, max_size=8), max_size=5)


@given(DOCUMENTS, st.sampled_from([None, 1]), st.booleans(), st.integers(64, 200))
@example({}, 1, False, 64)
@example({"a": [], "b": [[], {}], "c": "[,]"}, None, True, 64)
@example({"a": ["é" * 30, "\U0001f600" * 20] * 40}, None, False, 64)
def test_what_is_read_is_the_document(document: dict[str, object], indent: int | None, ascii_only: bool, extra: int):
    """The window is so short that entries lie across its end."""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    longest = max((len(json.dumps([[value]], indent=indent)) for value in _entries(document)), default=0)
    assert run_at_once(reading_document(text.encode(), entry_max=longest + extra)) == document


def _entries(document: dict[str, object]):
    for key, value in document.items():
        yield key
        yield from value if isinstance(value, list) else [value]


@given(DOCUMENTS, st.data())
def test_a_document_that_is_cut_off_is_refused(document: dict[str, object], data: st.DataObject):
    content = json.dumps(document).encode()
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ValueError, match="near byte"):
        run_at_once(reading_document(content[:cut]))


@given(st.text(max_size=30))
def test_what_json_does_not_read_is_not_read(text: str):
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, dict):
        return
    with pytest.raises(ValueError, match=r"."):
        run_at_once(reading_document(text.encode()))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "'{' is expected"),
        (b"[]", "'{' is expected"),
        (b"{} {}", "something stands behind"),
        (b'{"a": 1,}', "near byte"),
        (b'{"a": [1,]}', "near byte"),
        (b'{"a": [1 2]}', "',' is expected"),
        (b'{"a" 1}', "':' is expected"),
        (b"{1: 1}", "no text"),
        (b'{"a": 1, "a": 2}', "there twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": [1e999]}', "too large"),
        (b'{"a": [9223372036854775808]}', "64 bits"),
        (b'{"a": ["\\ud800"]}', "surrogates not allowed"),
        (b'{"a": ["\xff"]}', "invalid start byte"),
        (b'{"a": ["\xc3', "unexpected end of data"),
        (b'{"a": ' + b"[" * 16 + b"]" * 16 + b"}", "deeper than 16"),
        (b'{"a": ["' + b"x" * 65536 + b'"]}', "an entry has more than 65536"),
        (b'{"a": ["' + b"x" * 200_000 + b'"]}', "unless an entry there has more than 65536"),
        (b'{"a": ' + b" " * 200_000 + b"}", "near byte"),
        (json.dumps(dict.fromkeys(map(str, range(KEYS_MAX + 1)))).encode(), "more than 100 keys"),
        (b'{"a": [' + (b"[" + b"[]," * 20_000 + b"1],") * 50 + b"1]}", "more than 2000000 values"),
        (b'{"b": [1], "a": [' + b"1," * (ENTRIES_MAX - 1) + b"1]}", "more than 250000 entries"),
    ],
)
def test_what_is_no_document_is_told_why(content: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        run_at_once(reading_document(content))


@pytest.mark.parametrize(
    ("content", "steps"),
    [
        (b'{"queues": [' + b'{"name": "q", "arguments": {}},' * 1000 + b"{}]}", 1000),
        (b'{"queues": [' + (b"[" + b"[]," * 20_000 + b"[]],") * 10 + b"{}]}", 200_000),
        (b"{" + b" " * 2**22 + b"}", 2**22 // (2 * ENTRY_CHARACTERS_MAX)),
    ],
    ids=["entries", "lists", "space"],
)
def test_others_may_have_their_turn_behind_each_entry(content: bytes, steps: int):
    assert sum(1 for _ in reading_document(content)) >= steps
