"""Percent-encoding: each text has one encoded form, and every other form is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.wire.percent import percent_decode, percent_encode


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_can_be_encoded(text):
    segment = percent_encode(text)
    assert "/" not in segment
    assert percent_decode(segment) == text


@pytest.mark.parametrize(
    ("segment", "complaint"),
    [("a b", "' ' must be percent-encoded, as '%20'"), ("50%", "two hexadecimal digits"), ("%ff", "are not UTF-8")],
)
def test_what_is_not_encoded_is_named(segment, complaint):
    with pytest.raises(ValueError, match=complaint):
        percent_decode(segment)


@given(st.text(st.sampled_from("aZ9-._~%fF2 ü+/"), max_size=12))
def test_decoding_takes_nothing_that_encoding_would_not_give(segment):
    try:
        text = percent_decode(segment)
    except ValueError:
        return
    assert percent_decode(percent_encode(text)) == text
    assert all(character.isascii() and (character.isalnum() or character in "-._~%") for character in segment)
