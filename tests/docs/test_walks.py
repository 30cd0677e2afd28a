"""The walks of CONTRIBUTING.md against a running broker, and the check itself against walks that are wrong."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType

import pytest
import trio

from tests.kit.walked_broker import calls_of_walks
from tests.kit.walks import BEGINNING, Step, first_mistake, functions_in, text_of_walks, walks_in

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = walks_in(PAGE)

Calls = Mapping[str, Sequence[CodeType]]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """The calls of the operations that the walks describe."""
    return trio.run(calls_of_walks, ROOT, tmp_path_factory.mktemp("data"))


def test_each_operation_has_a_walk(calls: Calls):
    assert WALKS.keys() == calls.keys()


@pytest.mark.parametrize("heading", WALKS)
def test_the_broker_calls_the_functions_of_a_walk_in_order(calls: Calls, heading: str):
    assert first_mistake(WALKS[heading], calls[heading], ROOT) is None


@pytest.mark.parametrize("heading", WALKS)
def test_a_walk_has_as_many_steps_as_a_page_holds(heading: str):
    assert 12 <= len(WALKS[heading]) <= 25


def test_functions_that_are_named_beside_the_steps_exist():
    text = text_of_walks(PAGE)
    linked = {ROOT / file for file in re.findall(r"\]\(([\w/]+\.py)\)", text)}
    named = set(re.findall(r"`([A-Z]\w*\.\w+)`", text))
    assert {"EpollReader.read_ready", "Admissions.reached"} <= named
    assert named - {function for file in linked for function in functions_in(file)} == set()


# --- the check itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", WALKS)
def test_two_steps_in_the_wrong_order_are_found(calls: Calls, heading: str):
    for number in range(1, len(WALKS[heading])):
        steps = list(WALKS[heading])
        earlier, later = steps[number - 1 : number + 1]
        steps[number - 1 : number + 1] = [later._replace(number=number), earlier._replace(number=number + 1)]
        message = f"{steps[number]}: the function is called before {steps[number - 1]}"
        assert first_mistake(steps, calls[heading], ROOT) == message


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"function": "SessionWindow.flow_came"}, "the file has no such function"),
        ({"file": "amqp10/session_window.py"}, "there is no such file"),
        ({"file": "amqp10/flow/link_credit.py"}, "the file has no such function"),
        ({"function": "SessionWindow.close"}, "the function is not called"),
        ({"number": 7}, "its number should be 6"),
    ],
)
def test_a_step_that_is_wrong_is_found(calls: Calls, changed: Mapping[str, object], why: str):
    steps = list(WALKS["A flow frame"])
    assert steps[5] == Step(6, "SessionWindow.flow_received", "amqp10/flow/session_window.py")
    steps[5] = Step(**(steps[5]._asdict() | changed))
    assert first_mistake(steps, calls["A flow frame"], ROOT) == f"{steps[5]}: {why}"


@pytest.mark.parametrize(
    "line",
    [
        "1. `Peer._read` reads.",
        "1. `Peer._read` in [core/server/peer.py](core/server/pump.py). It reads.",
        "1. `Peer._read` in [core/server/peer.py](core/server/peer.py).",
        "1) `Peer._read` in [core/server/peer.py](core/server/peer.py). It reads.",
    ],
)
def test_a_numbered_line_that_is_no_step_is_found(line: str):
    with pytest.raises(ValueError, match="cannot be read as a step"):
        walks_in(f"{BEGINNING}\n### A walk\n\n{line}\n")


def test_a_page_without_walks_is_found():
    with pytest.raises(ValueError, match="there is no heading"):
        walks_in("# Contributing\n")
