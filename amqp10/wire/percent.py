"""Percent-encoding of the segments of addresses, and of the paths of management requests [RFC 3986 2.1].

This is a module of its own for commands, which need nothing else of :mod:`amqp10.addresses` and should not load the
engine's interface with it.
"""

import re
from urllib.parse import quote, unquote_to_bytes

_ENCODED = re.compile(r"(?:[A-Za-z0-9\-._~]|%[0-9A-Fa-f]{2})*")


def percent_encode(text: str) -> str:
    """The text as one segment of an address."""
    return quote(text, safe="")


def percent_decode(segment: str) -> str:
    """The text that a segment stands for. Raises ValueError, whose text describes the mistake."""
    match = _ENCODED.match(segment)
    assert match is not None
    if match.end() != len(segment):
        stray = segment[match.end()]
        if stray == "%":
            raise ValueError("a '%' is not followed by two hexadecimal digits")
        raise ValueError(f"{stray!r} must be percent-encoded, as '{quote(stray, safe='')}'")
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise ValueError("the percent-encoded bytes are not UTF-8") from None
