"""Which test shows which case of the conformance list: a mark on the test, and a reader of these marks.

The list itself is ``tests/conformance/cases.toml``; its table in the documentation is written by
``python -m tests.conformance.table``. The reader takes the marks from the source and does not import the modules, so
that the table can be written where a client library that some test needs is not installed.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def case(suite: str, name: str) -> Callable[[Test], Test]:
    """Mark a test as showing a case of the list. Its docstring begins with the case's label."""

    def mark(test: Test) -> Test:
        return test

    return mark


class MarkedTest(NamedTuple):
    """A mark as it stands in the source."""

    suite: str
    name: str
    path: str
    """The path relative to the root of the project, with slashes."""
    function: str
    docstring: str


def marked_tests(root: Path) -> Iterator[MarkedTest]:
    """Every mark under ``tests``, in the order of files and lines."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "@case(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for suite, name in _marks(node):
                    where = path.relative_to(root).as_posix()
                    yield MarkedTest(suite, name, where, node.name, ast.get_docstring(node) or "")


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="case"),
                args=[ast.Constant(value=str() as suite), ast.Constant(value=str() as name)],
            ):
                yield suite, name
