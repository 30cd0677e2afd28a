"""Reply codes, and reply texts that always fit a short string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.codec import decode_method, encode_method
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode, cut, quote
from core.amqp091.methods import ConnectionClose


def test_a_fault_knows_its_method_and_has_a_text_in_the_form_of_rabbitmq():
    fault = Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, "vhost x not found", 10, 40)
    assert (fault.code, fault.text, fault.class_id, fault.method_id) == (530, "vhost x not found", 10, 40)
    assert str(fault) == fault.reply_text == "NOT_ALLOWED - vhost x not found"


def test_a_fault_without_a_method():
    fault = ChannelFault(ReplyCode.NOT_FOUND, "no queue 'q'")
    assert (fault.class_id, fault.method_id) == (0, 0)


def test_the_levels_are_distinct():
    assert not issubclass(ChannelFault, Amqp091ConnectionFault)
    assert not issubclass(Amqp091ConnectionFault, ChannelFault)


@given(st.text(st.characters(), max_size=400))
def test_every_text_fits_a_close(text: str):
    fault = Amqp091ConnectionFault(ReplyCode.INTERNAL_ERROR, text)
    close = ConnectionClose(reply_code=fault.code, reply_text=fault.reply_text)
    assert decode_method(encode_method(close)) == close


@pytest.mark.parametrize("text", ["a" * 255, "€" * 85, ""])
def test_what_fits_is_not_cut(text: str):
    assert cut(text) == text


@pytest.mark.parametrize(("text", "fits"), [("a" * 256, "a" * 252 + "…"), ("€" * 86, "€" * 84 + "…")])
def test_what_does_not_fit_is_cut_between_characters(text: str, fits: str):
    assert cut(text) == fits


def test_quoted_bytes_are_escaped_and_bounded():
    assert quote(b"\xff'") == '''b"\\xff'"'''
    assert quote("n" * 49) == f"'{'n' * 48}'… (49 long)"
