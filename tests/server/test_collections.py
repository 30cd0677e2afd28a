"""One collection of garbage examines a bounded number of objects, however many new ones there are."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from types import FrameType

from core.process import bound_collections

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gc, json
from core.process import COLLECTED_MAX, bound_collections

gc.collect()
gc.freeze()
gc.disable()
gc.callbacks.append(bound_collections)
frozen = []
for count in (COLLECTED_MAX // 2, 2 * COLLECTED_MAX):
    before = gc.get_freeze_count()
    circle = []
    circle.append(circle)
    alive = [[number] for number in range(count)]
    del circle
    found = gc.collect(0)
    frozen.append([gc.get_freeze_count() - before, found])
print(json.dumps(frozen))
"""


def test_too_many_objects_are_not_examined():
    out = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    few, many = json.loads(out)
    assert few == [0, 1], "the circle among few objects is found"
    assert many[0] > 40_000
    assert many[1] == 0


def test_no_python_code_runs_while_the_list_of_all_objects_lives():
    """Another thread may run between any two steps of Python code."""
    called: list[object] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            called.append(argument)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        bound_collections("start", {"generation": 0})
    finally:
        sys.setprofile(before)
    assert sum in called
    assert gc.get_objects not in called, "only what is called from Python code is noted"
