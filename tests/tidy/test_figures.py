"""The figures are right for a small tree whose figures can be counted by hand, and can be made for this one."""

import gc
import json
from pathlib import Path
from textwrap import dedent

import pytest

from core.slices import gathered
from tests.kit.call_trace import traced_calls, traced_steps
from tests.tidy import figures
from tests.tidy.figures import ROOT, Measured
from tests.tidy.operation_calls import count_operations
from tests.tidy.source_tree import NOT_THE_BROKER_PROPER, circles

FILES = {
    "core/__init__.py": "",
    "core/clock.py": '''
        """A clock."""

        import sys


        class Clock:
            """Gives the time."""

            zone = 1  # whoever reads this
            # a stretch of time

            def now(self, place):
                return sys.maxsize + self.zone

            @property
            def pace(self):
                return self._pace

            @pace.setter
            def pace(self, value):
                self._pace = value
    ''',
    "core/ports.py": """
        from typing import TYPE_CHECKING, Protocol

        if TYPE_CHECKING:
            from core.inner.user import User

        class Watch(Protocol):
            pace: int
            def now(self, place): ...

        class Other(Protocol):
            def now(self, here): ...

        class Call(Protocol):
            def __call__(self): ...
    """,
    "core/inner/user.py": """
        from core import clock, ports

        class Clock: pass
        class User: pass
    """,
    "amqp10/client/link.py": "from core.clock import Clock\nlink = Clock()\n",
    "amqp10/management/control.py": "# one line\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Measured:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).strip(), encoding="utf-8")
    return Measured(tmp_path)


def test_lines_are_those_of_code(small: Measured):
    found = figures.lines(small).figures
    assert (
        found["room core"] == 10 + 8
    )  # the clock's class, its zone, its method of two lines, its property of six; the ports
    assert found["room core/inner"] == 2
    assert found["room amqp10/client"] == 1
    assert found["the broker proper"] == 20
    assert found["in all"] == 21


def test_importers_are_counted_with_those_for_types(small: Measured):
    assert small.product.importers()["core.clock"] == {"core.inner.user", "amqp10.client.link"}
    found = figures.importers(small)
    assert found.figures["modules with one importer"] == 2
    assert "core.ports (14 lines) is imported by core.inner.user" in found.lists["modules with one importer"]


def test_circles_are_found_at_run_time_and_for_types(small: Measured):
    assert small.product.circles(with_types_only=False) == []
    assert small.product.circles(with_types_only=True) == [["core.inner.user", "core.ports"]]


def test_circles_that_touch_are_one():
    graph = {"a": "b", "b": "ac", "c": "b", "d": "ae", "e": "f", "f": "e"}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_implementations_have_the_members_and_the_parameters(small: Measured):
    found = figures.protocols(small)
    assert found.lists["Protocols with one implementation or none"] == [
        "core.ports.Watch: core.clock.Clock",
        "core.ports.Other: nothing",
    ]
    assert found.lists["Protocols that are met by functions"] == ["core.ports.Call"]


def test_class_names_methods_and_words(small: Measured):
    assert figures.names(small).lists["class names defined twice"] == ["Clock: core.clock, core.inner.user"]
    assert small.classes.with_more_methods_than(0)["core.clock.Clock"] == 2
    found = figures.words(small).figures
    assert (found["word whoever"], found["word stretch"], found["word nobody"]) == (1, 1, 0)
    assert figures.surface(small).figures["the operator's surface"] == 1


@pytest.mark.slow
def test_no_modules_of_the_product_import_each_other_in_a_circle():
    product = Measured(ROOT).product
    assert product.circles(with_types_only=False) == []
    assert product.circles(with_types_only=True) == []


def test_what_tests_hand_in_counts_beside_one_implementation(small: Measured):
    (small.root / "tests").mkdir()
    (small.root / "tests/clocks.py").write_text(
        "class Stopped:\n    zone, pace = 0, 0\n    def now(self, place): ...\n",
        encoding="utf-8",
    )
    found = figures.protocols(small)
    assert found.lists["Protocols with several implementations"] == [
        "core.ports.Watch: core.clock.Clock, tests.clocks.Stopped"
    ]
    assert found.lists["Protocols with one implementation or none"] == ["core.ports.Other: nothing"]


@pytest.mark.slow
def test_a_protocol_has_two_implementations():
    assert figures.protocols(Measured(ROOT)).lists["Protocols with one implementation or none"] == []


@pytest.mark.slow
def test_a_public_class_name_exists_once():
    assert figures.names(Measured(ROOT)).lists["class names defined twice"] == []


def test_operations_cost_the_same_each_time():
    found = count_operations(ROOT)
    assert found == count_operations(ROOT)
    assert found.keys() == {"publish", "delivery", "flow", "alarm"}
    assert all(row.calls > row.moves > row.files > 10 for row in found.values())


def test_garbage_of_earlier_tests_costs_an_operation_no_call():
    leave_unfinished_generator()
    with traced_calls(ROOT) as calls, traced_steps(ROOT) as steps:
        made = [[number] for number in range(2 * gc.get_threshold()[0])]  # enough to start the garbage collector
    assert (len(made), calls, steps) == (2 * gc.get_threshold()[0], [], {})


def leave_unfinished_generator() -> None:
    """Leave a generator of the broker that has begun, and that only the garbage collector can free."""
    begun: list[object] = []
    walk = gathered(begun)
    begun.append(walk)
    next(walk)


def test_a_file_of_figures_is_compared_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    figures.main(["--only", "surface", "--json", str(tmp_path / "before.json")])
    written = json.loads((tmp_path / "before.json").read_text(encoding="utf-8"))
    lines = written["surface"]["figures"]["the operator's surface"]
    capsys.readouterr()
    figures.main(["--only", "surface", "--against", str(tmp_path / "before.json")])
    assert f"{lines:,} → {lines:>7,}" in capsys.readouterr().out


def test_an_unknown_section_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        figures.main(["--only", "size"])
    assert "'size' is no section; there are lines, importers" in capsys.readouterr().err


def test_what_the_broker_proper_leaves_out_exists():
    assert all((ROOT / folder).is_dir() for folder in NOT_THE_BROKER_PROPER)
