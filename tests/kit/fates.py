"""What becomes of the fields that a client may set: marks on the tests that show it, and a reader of these marks.

A field has one of three fates: the broker does what it says, refuses it, or ignores it. Each mark is a row of the page
that ``python -m tests.conformance.fields`` writes. As in ``tests.kit.cases``, the reader takes the marks from the
source.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def does(place: str, fields: str, what: str) -> Callable[[Test], Test]:
    """The broker does what these fields of ``place`` say. ``fields`` are separated by commas; text in parentheses
    behind a field says to which of its values the row applies."""
    return _unchanged


def refuses(place: str, fields: str, what: str) -> Callable[[Test], Test]:
    """The broker refuses these fields; ``what`` names the condition, and what it ends."""
    return _unchanged


def ignores(place: str, fields: str, what: str) -> Callable[[Test], Test]:
    """The broker takes no notice of these fields; ``what`` says why it may, or where the client sees it."""
    return _unchanged


def _unchanged(test: Test) -> Test:
    return test


FATES = (does.__name__, refuses.__name__, ignores.__name__)


class Row(NamedTuple):
    """One mark, as it stands in the source."""

    place: str
    fields: str
    fate: str
    what: str
    path: str
    """The path relative to the root of the project, with slashes."""
    function: str

    @property
    def names(self) -> tuple[str, ...]:
        """The fields without the text about their values."""
        return tuple(name.strip() for name in re.sub(r"\([^)]*\)", "", self.fields).split(","))


def rows(root: Path, files: tuple[str, ...]) -> Iterator[Row]:
    """Every mark in these files, in order."""
    for name in files:
        tree = ast.parse((root / name).read_text(encoding="utf-8"))
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Name(id=fate), args=arguments) if fate in FATES:
                        place, fields, what = (ast.literal_eval(argument) for argument in arguments)
                        yield Row(place, fields, fate, what, name, node.name)
