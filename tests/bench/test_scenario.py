"""Scenario files: those of the tree are valid and cover what is promised; broken ones are refused with a reason."""

import pytest

from bench.load.plan import Plan, Traffic
from bench.scenario import ScenarioError, load_scenarios, read_scenario

SCENARIOS = load_scenarios()
ALL = [scenario for scenarios in SCENARIOS.values() for scenario in scenarios]


def test_names_are_unique():
    names = [scenario.name for scenario in ALL]
    assert len(set(names)) == len(names)


def test_both_shapes_all_sizes_and_all_patterns_are_there():
    load = [scenario for scenario in ALL if not scenario.is_memory]
    assert {scenario.traffic.shape for scenario in load} == {"bulk", "unbatched"}
    assert {12, 256, 4096, 65536} <= {scenario.traffic.size for scenario in load}
    assert {scenario.traffic.settled for scenario in load} == {False, True}
    assert {scenario.pattern for scenario in load} == {
        "sender", "receiver", "one-connection", "two-connections", "many",
    }  # fmt: skip
    assert {scenario.pattern for scenario in ALL if scenario.is_memory} == {
        "idle", "queued", "idle-connections", "applications", "split-applications",
    }  # fmt: skip


def test_link_credit_is_swept():
    swept = [scenario.link_credit for scenario in SCENARIOS["link-credit"]]
    assert swept == [1, 10, 50, 100, 170, 200, 500, 1000, 5000]


def test_an_unbatched_publisher_waits_like_200_senders_unless_told_otherwise():
    assert SCENARIOS["unbatched-12"][0].traffic.in_flight == 200
    assert SCENARIOS["latency-5000"][0].traffic.in_flight == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('title = "x"', "pattern"),
        ('title = "x"\npattern = "nonsense"', "no such pattern"),
        ('title = "x"\npattern = "sender"\ncolour = 1', "unknown key 'colour'"),
        ('title = "x"\npattern = "sender"\n[traffic]\nspeed = 1', "unknown key 'speed'"),
        ('title = "x"\npattern = "sender"\n[traffic]\nsize = 4', "no room"),
        ('title = "x"\npattern = "sender"\n[traffic]\nsizes = [64, 4]', "a body of 4 bytes has no room"),
        ('title = "x"\npattern = "sender"\n[traffic]\nsizes = 64', "not iterable"),
        ('title = "x"\npattern = "sender"\n[traffic]\nsizes = [64, "a"]', "not supported between"),
        ('title = "x"\npattern = "sender"\n[traffic]\ncontent = "all"', "no such content: 'all'; known are alike, ids"),
        ('title = "x"\npattern = "sender"\n[traffic]\nkeys = 0', "between 1 and 100000, not 0"),
        ('title = "x"\npattern = "sender"\n[traffic]\nkeys = 100001', "not 100001"),
        ('title = "x"\npattern = "sender"\n[traffic]\nkeys = "2"', "not supported between"),
        ('title = "x"\npattern = "receiver"\n[traffic]\nsize = 20\nrate = 1.0', "offered rate"),
        ("title =", "broken.toml"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_reason(tmp_path, text, reason):
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=reason) as refusal:
        list(read_scenario(path))
    assert "broken.toml" in str(refusal.value)


@pytest.mark.parametrize("scenario", [one for one in ALL if not one.is_memory], ids=lambda scenario: scenario.name)
def test_a_plan_survives_its_journey_to_a_load_process(scenario):
    for group in scenario.processes("q"):
        plan = Plan(url="amqp://localhost", traffic=scenario.traffic, applications=tuple(group))
        assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_with_unlike_messages_survives_as_well():
    traffic = Traffic(content="priorities", keys=100, sizes=(12, 40))
    plan = Plan(url="amqp://localhost", traffic=traffic, applications=())
    assert Plan.from_json(plan.to_json()) == plan
    assert [len(traffic.padding(number)) for number in range(3)] == [0, 28, 0]


def test_older_result_files_stay_comparable():
    assert not {"content", "keys", "sizes"} & set(Traffic().parameters())
    unlike = Traffic(content="ids", keys=2, sizes=(12, 40)).parameters()
    assert (unlike["content"], unlike["keys"], unlike["sizes"]) == ("ids", 2, [12, 40])


def test_padding_is_the_same_everywhere_and_depends_on_the_seed():
    assert Traffic(size=50).padding() == Traffic(size=50).padding()
    assert len(Traffic(size=50).padding()) == 38
    assert len(Traffic(size=50, rate=1.0).padding()) == 30
    assert Traffic(size=50, seed=2).padding() != Traffic(size=50).padding()
