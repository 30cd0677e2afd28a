"""The command of the simulation: its goals, its plot, and its command line."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.flow_simulation.__main__ import main, read
from bench.flow_simulation.goals import GOALS, rise
from bench.flow_simulation.model import PublisherSpec, QueueSpec, Scenario, Simulation
from bench.flow_simulation.plot import drawn
from bench.flow_simulation.policies import FixedPolicy


def test_every_goal_of_a_scenario_exists() -> None:
    assert {goal for scenario in read().values() for goal in scenario.goals} == set(GOALS)


def test_goals_are_judged_when_both_policies_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["near-and-far", "--seconds", "3"]) == 0
    assert "the far one at least 0.6 times a near one" in capsys.readouterr().out
    assert main(["near-and-far", "--seconds", "0.5", "--policy", "fixed"]) == 0
    assert "at least" not in capsys.readouterr().out


def test_a_missed_goal_is_told_by_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    """After a moment, a hundred publishers have not got equal shares yet."""
    assert main(["hundred-slow", "--seconds", "0.1"]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_the_rise_is_the_time_to_the_most_unconfirmed_messages() -> None:
    scenario = Scenario("s", [PublisherSpec(round_trip=0.0)], QueueSpec(rates=(100, 10), step=1.0))
    simulation = Simulation(scenario, FixedPolicy())
    simulation.history = [(0.5, 900), (1.01, 5), (1.2, 7), (1.9, 6), (3.05, 8), (3.9, 7), (4.5, 900)]
    assert rise(simulation) == pytest.approx(0.2)


def test_a_plot_is_a_picture_with_a_line_for_each_policy(tmp_path: Path) -> None:
    file = tmp_path / "step.svg"
    assert main(["step-near", "--seconds", "1.5", "--plot", str(file)]) in (0, 1)
    picture = ElementTree.parse(file).getroot()
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    assert all(len(line.attrib["points"].split()) == 700 for line in lines)


def test_a_plot_of_nothing_is_a_frame() -> None:
    assert ElementTree.fromstring(drawn("nothing", {"fixed": []}, 1.0)).tag.endswith("svg")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "is no scenario"),
        (["--seconds", "0"], "--seconds must be above 0"),
        (["--plot", "x.svg"], "--plot draws one scenario"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
