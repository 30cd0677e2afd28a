"""Reads a JSON document of definitions entry by entry: ``json.loads`` would take 0.2 to 1 s for the largest body.

A document is an object. If one of its values is a list, each entry of the list is read separately; any other value is
read in one piece. No piece has more than :data:`ENTRY_CHARACTERS_MAX`, which takes about a millisecond.
"""

import codecs
import json
import re

from core.admin.api.json_values import checking, no_constant
from core.definitions_file.json_values import VALUES_MAX
from core.slices import Walk

ENTRY_CHARACTERS_MAX = 64 * 1024
"""The most characters of one entry. Names have up to 255 bytes and a policy's definition up to 4 KiB, so the largest
possible entry has a few KiB."""
KEYS_MAX = 100
"""The most keys of the document. RabbitMQ writes a dozen."""
ENTRIES_MAX = 250_000
"""The most entries of all lists together. The shortest entry that declares something has 70 bytes, and the largest body
has 16 MiB."""

_WHITESPACE = re.compile(r"[ \t\n\r]*")
_READER = json.JSONDecoder(parse_constant=no_constant)


def reading_document(content: bytes, *, entry_max: int = ENTRY_CHARACTERS_MAX) -> Walk[dict[str, object]]:
    """Return the document. Raises ValueError for a text that is no document or is too large. ``entry_max`` counts
    characters."""
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
    """The text of a document and the place of the reader in it. Only a part is decoded: somewhat more than one entry
    may have."""

    def __init__(self, content: bytes, entry_max: int) -> None:
        self._content = memoryview(content)
        self._entry_max = entry_max
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._decoded = 0
        """How many bytes of the content are decoded."""
        self._values = 0
        """An upper bound of the number of values that begin in the decoded part."""
        self._window = ""
        self._at = 0
        """The reader's place in the window."""

    def next(self) -> Walk[str]:
        """Return the next character that is not white space, without reading past it; "" at the end."""
        while True:
            self._fill()
            match = _WHITESPACE.match(self._window, self._at)
            assert match is not None  # an empty match, if there is no white space
            self._at = match.end()
            if self._at < len(self._window) or self._decoded == len(self._content):
                return self._window[self._at : self._at + 1]
            yield

    def take(self, mark: str) -> Walk[None]:
        """Read this character. Raises ValueError if another character comes next."""
        found = yield from self.next()
        if found != mark:
            raise ValueError(f"{mark!r} is expected near byte {self._decoded}, there is {found!r}")
        self._at += 1

    def goes_on(self, end: str) -> Walk[bool]:
        """Return whether a comma comes next, and read past it; False if ``end`` comes next, which is not read. Raises
        ValueError for any other character."""
        if (yield from self.next()) == end:
            return False
        yield from self.take(",")
        yield from self.next()
        return True

    def value(self) -> object:
        """Read and return the value that begins here. Raises ValueError."""
        try:
            value, end = _READER.raw_decode(self._window, self._at)
        except json.JSONDecodeError as error:
            raise ValueError(f"{error.msg} near byte {self._decoded}{self._perhaps_too_long()}") from None
        if end - self._at > self._entry_max:
            raise ValueError(f"an entry has more than {self._entry_max} characters")
        self._at = end
        return value

    def _fill(self) -> None:
        """Decode until the window has one character more than an entry may have, or until the end."""
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
