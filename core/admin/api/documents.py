"""A document of definitions as JSON, read an entry at a time: ``json.loads`` takes 0.2 to 1 s for the largest body.

A document is an object. Where one of its values is a list, each entry of the list is read by itself; any other value is
read in one piece. So is no more than :data:`ENTRY_CHARACTERS_MAX`: about a millisecond.
"""

import codecs
import json
import re

from core.admin.api.json_values import checking, no_constant
from core.slices import Walk

ENTRY_CHARACTERS_MAX = 64 * 1024
"""Of one entry. Names have 255 bytes and a policy's definition 4 KiB: the largest that can be made has a few KiB."""
KEYS_MAX = 100
"""Of the document. RabbitMQ writes a dozen."""
ENTRIES_MAX = 250_000
"""Of all lists. The shortest that declares something has 70 bytes, and the largest body 16 MiB."""
VALUES_MAX = 2_000_000
"""Of the document, so that one of brackets only is neither gigabytes nor forgotten in one long piece: as for a file
(:mod:`core.definitions_file.json_values`)."""

_WHITESPACE = re.compile(r"[ \t\n\r]*")
_READER = json.JSONDecoder(parse_constant=no_constant)


def reading_document(content: bytes, *, entry_max: int = ENTRY_CHARACTERS_MAX) -> Walk[dict[str, object]]:
    """The document. Raises ValueError for what is none or is too large; ``entry_max`` counts characters."""
    text = _Text(content, entry_max)
    document: dict[str, object] = {}
    entries_left = ENTRIES_MAX
    yield from text.take("{")
    more = (yield from text.next()) != "}"
    while more:
        key = text.value()
        if not isinstance(key, str):
            raise ValueError("a key of the document is no text")
        if key in document:
            raise ValueError(f"the key {key[:64]!r} of the document is there twice")
        if len(document) == KEYS_MAX:
            raise ValueError(f"the document has more than {KEYS_MAX} keys")
        yield from text.take(":")
        if (yield from text.next()) == "[":
            entries = yield from _entries(text, entries_left)
            entries_left -= len(entries)
            document[key] = entries
        else:
            document[key] = yield from _checked(text.value(), above=1)
        more = yield from text.goes_on("}")
    yield from text.take("}")
    if (yield from text.next()):
        raise ValueError("something stands behind the document")
    return document


def _entries(text: "_Text", at_most: int) -> Walk[list[object]]:
    entries: list[object] = []
    yield from text.take("[")
    more = (yield from text.next()) != "]"
    while more:
        if len(entries) == at_most:
            raise ValueError(f"the document has more than {ENTRIES_MAX} entries")
        entries.append((yield from _checked(text.value(), above=2)))
        more = yield from text.goes_on("]")
    yield from text.take("]")
    return entries


def _checked(value: object, above: int) -> Walk[object]:
    yield from checking(value, above=above)
    return value


class _Text:
    """The text, of which as much is decoded as one entry may have, and how far it has been read."""

    def __init__(self, content: bytes, entry_max: int) -> None:
        self._content = memoryview(content)
        self._entry_max = entry_max
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._decoded = 0
        """Bytes."""
        self._values = 0
        """So many at most begin in what is decoded."""
        self._window = ""
        self._at = 0
        """In the window."""

    def next(self) -> Walk[str]:
        """The next character that is not white space, which is not taken; "" at the end."""
        while True:
            self._fill()
            match = _WHITESPACE.match(self._window, self._at)
            assert match is not None  # of nothing, if there is none
            self._at = match.end()
            if self._at < len(self._window) or self._decoded == len(self._content):
                return self._window[self._at : self._at + 1]
            yield

    def take(self, mark: str) -> Walk[None]:
        """Raises ValueError where another character comes next."""
        found = yield from self.next()
        if found != mark:
            raise ValueError(f"{mark!r} is expected near byte {self._decoded}, there is {found!r}")
        self._at += 1

    def goes_on(self, end: str) -> Walk[bool]:
        """Whether a comma comes next, which is taken, and not this end, which is not. Raises ValueError for others."""
        if (yield from self.next()) == end:
            return False
        yield from self.take(",")
        yield from self.next()
        return True

    def value(self) -> object:
        """What begins at the next character. Raises ValueError."""
        try:
            value, end = _READER.raw_decode(self._window, self._at)
        except json.JSONDecodeError as error:
            raise ValueError(f"{error.msg} near byte {self._decoded}{self._perhaps_too_long()}") from None
        if end - self._at > self._entry_max:
            raise ValueError(f"an entry has more than {self._entry_max} characters")
        self._at = end
        return value

    def _fill(self) -> None:
        """So that one character more is there than an entry may have, or everything."""
        while len(self._window) - self._at <= self._entry_max and self._decoded < len(self._content):
            piece = self._content[self._decoded : self._decoded + self._entry_max]
            self._decoded += len(piece)
            is_last = self._decoded == len(self._content)
            text = self._decoder.decode(piece, is_last)
            self._values += sum(text.count(mark) for mark in (",", "[", "{"))
            if self._values > VALUES_MAX:
                raise ValueError(f"the document has more than {VALUES_MAX} values")
            self._window = self._window[self._at :] + text
            self._at = 0

    def _perhaps_too_long(self) -> str:
        if len(self._window) - self._at <= self._entry_max:
            return ""
        return f", unless an entry there has more than {self._entry_max} characters"
