"""The scenarios over AMQP 0.9.1: they exist, have the promised goals, and differ from those over AMQP 1.0."""

import pytest

from amqp10.load.plan import Plan
from bench.scenario import ScenarioError, load_scenarios, read_scenario

SCENARIOS = {name: found[0] for name, found in load_scenarios().items()}
OLDER = {name: scenario for name, scenario in SCENARIOS.items() if scenario.protocol == "0.9.1"}


def test_both_shapes_are_there_with_and_without_confirms():
    kinds = {(one.traffic.shape, one.traffic.settled) for one in OLDER.values()}
    assert kinds == {("bulk", False), ("bulk", True), ("unbatched", False), ("unbatched", True)}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("091-bulk-12", 1 / 3),
        ("091-unbatched-12", 1 / 3),
        ("091-bulk-12-unconfirmed", 1 / 4),
        ("091-unbatched-12-unconfirmed", 1 / 2),
    ],
)
def test_the_goals_are_cpu_per_message_beside_the_peer(name, most):
    assert SCENARIOS[name].goal.cpu_ratio_max == pytest.approx(most, abs=1e-4)


@pytest.mark.parametrize("name", OLDER)
def test_every_application_speaks_it_and_results_say_so(name):
    scenario = OLDER[name]
    groups = scenario.processes("q")
    assert {one.protocol for group in groups for one in group} == {"0.9.1"}
    plan = Plan(url="amqp://localhost", traffic=scenario.traffic, applications=tuple(groups[0]))
    assert Plan.from_json(plan.to_json()) == plan
    assert scenario.parameters()["protocol"] == "0.9.1"


def test_older_result_files_stay_comparable():
    assert "protocol" not in SCENARIOS["bulk-12"].parameters()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('title = "x"\npattern = "sender"\nprotocol = "0.9"', "no such protocol: '0.9'"),
        ('title = "x"\npattern = "idle"\nprotocol = "0.9.1"', "measured over AMQP 1.0"),
    ],
)
def test_a_protocol_that_cannot_be_is_refused(tmp_path, text, reason):
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=reason):
        list(read_scenario(path))
