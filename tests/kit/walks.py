"""The walks of CONTRIBUTING.md as data, and the check of a walk against the calls of a running broker.

A walk is a heading with numbered steps below it, and a step begins with the name of a function and a link to its file::

    ### A flow frame

    1. `Peer._read` in [core/server/peer.py](core/server/peer.py). What it does.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

BEGINNING = "\n## Three walks through the code\n"
STEP = re.compile(r"(?P<number>\d+)\. `(?P<function>[\w.]+)` in \[(?P<file>[^\]]+)\]\((?P=file)\)\. \S")


class Step(NamedTuple):
    """One step of a walk: a function by its qualified name, in a file by its path inside the tree."""

    number: int
    function: str
    file: str

    def __str__(self) -> str:
        return f"step {self.number}, {self.function} in {self.file}"


def text_of_walks(page: str) -> str:
    """The part of the page that holds the walks. Raises ValueError for a page without it."""
    _, beginning, below = page.partition(BEGINNING)
    if not beginning:
        raise ValueError(f"there is no heading {BEGINNING.strip()!r}")
    return below.partition("\n## ")[0]


def walks_in(page: str) -> dict[str, list[Step]]:
    """The steps of each walk by its heading. Raises ValueError for a numbered line that cannot be read as a step."""
    sections = text_of_walks(page).split("\n### ")[1:]
    return {heading: list(_steps(text)) for heading, _, text in (section.partition("\n") for section in sections)}


def _steps(text: str) -> Iterator[Step]:
    for line in text.splitlines():
        if re.match(r"\d", line):
            step = STEP.match(line)
            if step is None:
                raise ValueError(f"cannot be read as a step: {line!r}")
            yield Step(int(step["number"]), step["function"], step["file"])


def first_mistake(steps: Sequence[Step], calls: Sequence[CodeType], root: Path) -> str | None:
    """The first step that is wrong, with the reason, or None for a walk that is right.

    ``calls`` are in order. Right is a walk whose steps are numbered from 1, whose functions exist in the tree at
    ``root`` and are called, and whose order is that of the first call of each function.
    """
    first_calls: dict[tuple[str, str], int] = {}
    for place, code in enumerate(calls):
        first_calls.setdefault((code.co_filename, code.co_qualname), place)
    before: Step | None = None
    last_place = -1
    for number, step in enumerate(steps, start=1):
        file = root / step.file
        if step.number != number:
            return f"{step}: its number should be {number}"
        if not file.is_file():
            return f"{step}: there is no such file"
        if step.function not in functions_in(file):
            return f"{step}: the file has no such function"
        place = first_calls.get((str(file), step.function))
        if place is None:
            return f"{step}: the function is not called"
        if place <= last_place:
            return f"{step}: the function is called before {before}"
        before, last_place = step, place
    return None


@cache
def functions_in(file: Path) -> frozenset[str]:
    """The qualified names of the functions and methods of a module."""
    return frozenset(_functions(ast.parse(file.read_text(encoding="utf-8")).body))


def _functions(body: Sequence[ast.stmt], inside: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{inside}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inside + node.name
