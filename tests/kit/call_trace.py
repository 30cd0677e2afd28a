"""Which functions of the broker are called while a block of a test runs, in order, and how many steps they take.

The garbage collector waits until the block ends. When it frees a generator that has not finished, for example one that
an earlier test left, the generator is entered once more to be closed, and that would count as a call of the block.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from tests.tidy.source_tree import BROKER_FOLDERS


@contextmanager
def traced_calls(root: Path) -> Iterator[list[CodeType]]:
    """Yield a list that grows by the code of each call in this thread, until the block ends.

    A call is the beginning of a Python function, or the next step of a generator or coroutine, whose code is in
    ``amqp10/`` or ``core/`` of the tree at ``root``. Functions in C, in libraries and in the tests are left out.
    """
    folders = tuple(f"{root / folder}/" for folder in BROKER_FOLDERS)
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            calls.append(frame.f_code)

    before = sys.getprofile()
    with _no_collection():
        sys.setprofile(note)
        try:
            yield calls
        finally:
            sys.setprofile(before)


@contextmanager
def traced_steps(root: Path = Path(__file__).parents[2]) -> Iterator[Counter[CodeType]]:
    """Yield how many steps each function of the broker takes in this thread, until the block ends.

    A step is a line that begins, or a loop's or comprehension's return to its first line, in the same files as for
    :func:`traced_calls`. A walk over many things takes as many steps, also where it calls nothing.
    """
    folders = tuple(f"{root / folder}/" for folder in BROKER_FOLDERS)
    steps: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _: object) -> object:
        if not frame.f_code.co_filename.startswith(folders):
            return None
        if event == "line":
            steps[frame.f_code] += 1
        return note

    before = sys.gettrace()
    with _no_collection():
        sys.settrace(note)
        try:
            yield steps
        finally:
            sys.settrace(before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Have the garbage collector wait until the block ends."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
