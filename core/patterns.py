"""Regular expressions from operators and clients, matched in time that is linear in the length of the text.

RE2 does not backtrack, so no pattern makes a search of a name take long. It cannot do what needs backtracking, and such
a pattern is refused when it is compiled: lookahead and lookbehind, backreferences, conditions, atomic groups and
possessive repetition. ``\\d``, ``\\w``, ``\\s`` and ``\\b`` match ASCII only; ``\\pL`` is any letter.
"""

from typing import Any

EVERYTHING = (".*", "^.*")
"""Patterns that are found in every name, the empty one too. They are not compiled: a search takes 6 us, and most users
may do everything."""
MEMORY_BYTES_MAX = 2**20
"""The memory of one compiled pattern. A pattern of 255 bytes whose repetitions multiply needs more, and is refused."""
SPECIAL = frozenset("\\.[](){}*+?^$|")
"""Characters that do not stand for themselves in a pattern."""

NOT_THERE = {
    "invalid perl operator: (?=": "lookahead (?=",
    "invalid perl operator: (?!": "lookahead (?!",
    "invalid perl operator: (?<": "lookbehind (?<",
    "invalid perl operator: (?>": "atomic group (?>",
    "invalid perl operator: (?(": "condition (?(",
    "invalid perl operator: (?P": "backreference (?P=",
    "invalid perl operator: (?#": "comment (?#",
}
"""What RE2 says about constructs that it does not have, and the names of these constructs."""


class PatternError(ValueError):
    """The pattern cannot be used; the text names the part that is wrong."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile a pattern. Raises PatternError, which names the construct."""
        self.text = text
        self._compiled: Any = None
        if text in EVERYTHING:
            return
        import re2  # here and not above: it takes 1.5 MiB, and most brokers have no other pattern

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY_BYTES_MAX
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise PatternError(_shown(error)) from None

    @property
    def beginning(self) -> str:
        """Characters with which each name begins in which the pattern is found. Empty if that is not obvious."""
        text = self.text
        if not text.startswith("^") or "|" in text:
            return ""
        end = next((index for index, character in enumerate(text[1:], 1) if character in SPECIAL), len(text))
        if text[end : end + 1] in ("*", "?", "{"):
            end -= 1  # the last character may be missing
        return text[1:end]

    def found_in(self, name: str) -> bool:
        """Whether the pattern is found anywhere in the name."""
        return self._compiled is None or self._compiled.search(name) is not None


def _shown(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    for beginning, construct in NOT_THERE.items():
        if text.startswith(beginning):
            return f"the pattern language RE2 has no {construct}"
    if text.startswith("invalid escape sequence: \\") and text[-1:].isdigit():
        return f"the pattern language RE2 has no backreference {text[-2:]}"
    if text.startswith("bad repetition operator") and text.endswith("+"):
        return f"the pattern language RE2 has no possessive repetition {text[-2:]}"
    return text
