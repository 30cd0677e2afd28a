"""Scenario files: those of the tree are valid and cover what is promised; broken ones are refused with a reason."""

from typing import get_args

import pytest

from amqp10.load.plan import Plan, PlannedTraffic
from bench.scenario import LoadPattern, Scenario, ScenarioError, load_scenarios, read_scenario

SCENARIOS = load_scenarios()
ALL = [scenario for scenarios in SCENARIOS.values() for scenario in scenarios]


def test_names_are_unique():
    names = [scenario.name for scenario in ALL]
    assert len(set(names)) == len(names)


def test_both_shapes_all_sizes_and_all_patterns_are_there():
    load = [scenario for scenario in ALL if not scenario.is_memory]
    assert {scenario.traffic.shape for scenario in load} == {"bulk", "unbatched"}
    assert {12, 256, 4096, 65536, 1048576} <= {scenario.traffic.size for scenario in load}
    assert {scenario.traffic.settled for scenario in load} == {False, True}
    assert {scenario.pattern for scenario in load} == set(get_args(LoadPattern))
    assert {scenario.traffic.content for scenario in load} == {"alike", "ids", "properties", "priorities"}
    assert {scenario.pattern for scenario in ALL if scenario.is_memory} == {
        "idle", "queued", "idle-connections", "applications", "split-applications",
    }  # fmt: skip


def test_scenarios_with_unlike_messages_come_first():
    unlike = [any(scenario.unlike for scenario in scenarios) for scenarios in SCENARIOS.values()]
    assert unlike == sorted(unlike, reverse=True)
    assert unlike[0]
    assert not unlike[-1]


@pytest.mark.parametrize(
    ("names", "goal"),
    [
        ("091-bulk-12-keys-2 091-bulk-12-keys-100 091-bulk-12-keys-1000 091-bulk-12-keys-10000", (None, 0.5, None)),
        ("bulk-12-ids bulk-12-properties bulk-12-priorities", (None, 0.4, None)),
        ("unbatched-12", (None, 0.2, None)),
        ("bulk-12", (12.0, 0.05, None)),
        ("lone-500 lone-1000 lone-2500", (None, 0.4, None)),
        ("lone-5000", (None, 0.4, 1.0)),
        ("quorum-12", (6.0, None, None)),
        ("quorum-unbatched-12", (None, 0.2, None)),
        ("bulk-65536", (2.0, None, None)),
        ("bulk-1048576", (1.5, None, None)),
        ("unbatched-20-pairs-1000", (None, 0.25, None)),
    ],
)
def test_the_goals_beside_the_peer(names, goal):
    for name in names.split():
        found = SCENARIOS[name][0].goal
        assert (found.rate_ratio_min, found.cpu_ratio_max, found.p99_ms_max) == goal


@pytest.mark.parametrize(
    ("name", "other", "most"),
    [
        ("091-bulk-12-keys-10000", "091-bulk-12-keys-1", 2.0),
        ("bulk-12-ids", "bulk-12", 2.0),
        ("bulk-12-properties", "bulk-12", 2.0),
        ("bulk-12-priorities", "bulk-12", 2.0),
        ("bulk-12-pairs-100", "bulk-12", 3.0),
        ("bulk-12-links-100", "bulk-12", 1.3),
        ("bulk-12-one-connection-10", "bulk-12-connections-10", 1.3),
        ("bulk-12-competing-100", "bulk-12", 1.3),
    ],
)
def test_the_goals_beside_another_scenario(name, other, most):
    assert SCENARIOS[name][0].goal.cpu_ratio_max_to == {other: most}


def test_scenarios_that_goals_name_exist():
    names = {name for scenario in ALL for name in scenario.goal.cpu_ratio_max_to}
    assert names
    assert names <= {scenario.name for scenario in ALL}


def applications(pattern, count, **more):
    scenario = Scenario(name="s", title="", pattern=pattern, count=count, traffic=PlannedTraffic(), **more)
    return [
        [(one.publish_to, one.exchange, one.consume_from, one.shares) for one in group]
        for group in scenario.processes("q")
    ]


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("one-connection", [[("q-0", "", "q-0", "nothing"), ("q-1", "", "q-1", "connection")]]),
        ("connections", [[("q-0", "", "q-0", "nothing"), ("q-1", "", "q-1", "nothing")]]),
        (
            "links",
            [
                [("q-0", "", "", "nothing"), ("q-1", "", "", "session")],
                [("", "", "q-0", "nothing"), ("", "", "q-1", "session")],
            ],
        ),
        (
            "pairs",
            [
                [("q-0", "", "", "nothing"), ("q-1", "", "", "nothing")],
                [("", "", "q-0", "nothing"), ("", "", "q-1", "nothing")],
            ],
        ),
        ("competing", [[("q", "", "", "nothing")], [("", "", "q", "nothing")] * 2]),
        (
            "fan-out",
            [
                [("q-0", "q-exchange", "", "nothing")],
                [("", "", "q-0", "nothing"), ("", "", "q-1", "nothing")],
            ],
        ),
    ],
)
def test_patterns_share_connections_and_sessions(pattern, groups):
    assert applications(pattern, 2) == groups


def test_one_routing_key_goes_through_the_exchange_when_asked_to():
    [[(_, exchange, _, _)], _] = applications("two-connections", 1, through_exchange=True)
    assert exchange == "q-exchange"
    plain = Scenario(name="s", title="", pattern="sender", traffic=PlannedTraffic())
    assert "through_exchange" not in plain.parameters()


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_publishers_at_a_rate_start_one_after_the_other(count):
    traffic = PlannedTraffic(rate=5.0, size=20)
    leads = sorted(traffic.lead_ns(publisher) for publisher in range(1, count + 1))
    assert leads[0] == 0
    gaps = [b - a for a, b in zip(leads, [*leads[1:], 200_000_000], strict=True)]
    assert min(gaps) > 0
    assert max(gaps) < 2 * 200_000_000 / count


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
        (
            'title = "x"\npattern = "pairs"\ncount = 2\n[traffic]\nkeys = 2',
            "routing keys lead to one queue, and pattern 'pairs'",
        ),
        ('title = "x"\npattern = "queued"\n[traffic]\nkeys = 2', "routing keys lead to one queue"),
        ('title = "x"\npattern = "queued"\n[traffic]\nsizes = [12, 40]', "bodies of one size"),
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
    traffic = PlannedTraffic(content="priorities", keys=100, sizes=(12, 40))
    plan = Plan(url="amqp://localhost", traffic=traffic, applications=())
    assert Plan.from_json(plan.to_json()) == plan
    assert [len(traffic.padding(number)) for number in range(3)] == [0, 28, 0]


def test_older_result_files_stay_comparable():
    assert not {"content", "keys", "sizes"} & set(PlannedTraffic().parameters())
    unlike = PlannedTraffic(content="ids", keys=2, sizes=(12, 40)).parameters()
    assert (unlike["content"], unlike["keys"], unlike["sizes"]) == ("ids", 2, [12, 40])


def test_padding_is_the_same_everywhere_and_depends_on_the_seed():
    assert PlannedTraffic(size=50).padding() == PlannedTraffic(size=50).padding()
    assert len(PlannedTraffic(size=50).padding()) == 38
    assert len(PlannedTraffic(size=50, rate=1.0).padding()) == 30
    assert PlannedTraffic(size=50, seed=2).padding() != PlannedTraffic(size=50).padding()
