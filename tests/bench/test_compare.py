"""Result files: they are written, read, and compared only when both were measured alike."""

from dataclasses import replace

import pytest

from bench import compare, report
from bench.compare import Refused
from bench.goals import judge, judge_beside
from bench.results import Entry, ResultError, Results, Spread
from bench.scenario import Goal

ENVIRONMENT = {"commit": "a", "interpreter": "CPython 3.11.7", "machine": "m", "fdatasync_p50_ms": 0.2}


def entry(*rates, broker="Headgate 0.1", void="", **more):
    runs = [{"rate": rate, "broker_cpu_us": 1e6 / rate, "p50_ms": None, "void": void, **more} for rate in rates]
    return Entry(scenario="s", parameters={"size": 12}, broker=broker, runs=tuple(runs))


def results(*entries, **environment):
    return Results(environment={**ENVIRONMENT, **environment}, warm_up_seconds=1.0, entries=entries)


def test_a_file_comes_back_as_it_was_written(tmp_path):
    written = results(entry(100.0, 110.0, 90.0))
    written.write(tmp_path / "folder" / "one.json")
    assert Results.read(tmp_path / "folder" / "one.json") == written


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultError):
        Results.read(path)


def test_figures_are_median_and_range_over_the_runs():
    figures = entry(100.0, 110.0, 90.0).figures
    assert figures["rate"] == Spread(median=100.0, low=90.0, high=110.0)
    assert "p50_ms" not in figures


def test_a_ratio_is_of_medians():
    [rate, cpu] = compare.compare(results(entry(100.0, 101.0)), results(entry(200.0, 202.0), commit="b"))
    assert (rate.figure, cpu.figure) == ("rate", "broker_cpu_us")
    assert rate.ratio == pytest.approx(2.0)
    assert cpu.ratio == pytest.approx(0.5)
    assert "no difference" not in str(rate)


def test_overlapping_ranges_show_no_difference():
    [rate, _] = compare.compare(results(entry(100.0, 120.0)), results(entry(110.0, 130.0)))
    assert "no difference shown" in str(rate)


def test_another_disk_speed_is_no_obstacle_another_machine_is():
    compare.compare(results(entry(1.0)), results(entry(1.0), fdatasync_p50_ms=9.0))
    with pytest.raises(Refused, match="machine: m against n"):
        compare.compare(results(entry(1.0)), results(entry(1.0), machine="n"))
    with pytest.raises(Refused, match="interpreter"):
        compare.compare(results(entry(1.0)), results(entry(1.0), interpreter="PyPy"))


def test_a_changed_scenario_is_refused():
    changed = replace(entry(1.0), parameters={"size": 13})
    with pytest.raises(Refused, match="has changed"):
        compare.compare(results(entry(1.0)), results(changed))


def test_a_void_entry_is_refused():
    with pytest.raises(Refused, match="3 lost"):
        compare.compare(results(entry(1.0)), results(entry(1.0, void="3 lost")))


def test_brokers_are_matched_by_product_and_can_be_chosen():
    before = results(entry(1.0), entry(5.0, broker="RabbitMQ 4.0.5"))
    after = results(entry(1.0, broker="Headgate 0.2"), entry(5.0, broker="RabbitMQ 4.0.5"))
    assert len(compare.compare(before, after)) == 4
    assert {change.broker for change in compare.compare(before, after, broker="Rabbit")} == {"RabbitMQ"}


def test_the_command_line_refuses_with_its_own_exit_status(tmp_path, capsys):
    results(entry(1.0)).write(tmp_path / "a")
    results(entry(1.0), machine="n").write(tmp_path / "b")
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "missing")]) == 2
    assert "unlike environments" in capsys.readouterr().err


def test_goals_are_judged_by_ratio_to_the_peer():
    goal = Goal(rate_ratio_min=5.0, cpu_ratio_max=0.25)
    mine, peer = entry(500.0), entry(100.0, broker="RabbitMQ 4.0.5")
    assert [one.met for one in judge(goal, mine, peer)] == [True, True]
    assert [one.met for one in judge(goal, entry(450.0), peer)] == [False, True]
    assert [one.met for one in judge(goal, mine, None)] == [None, None]
    assert [one.met for one in judge(goal, mine, entry(100.0, void="1 lost"))] == [None, None]


def test_a_limit_in_milliseconds_needs_no_peer():
    goal = Goal(p99_ms_max=1.0)
    [met] = judge(goal, entry(5.0, p99_ms=0.9), None)
    [missed] = judge(goal, entry(5.0, p99_ms=1.1), None)
    assert (str(met), met.met) == ("p99 at most 1 ms: 0.9 (0.9–0.9): met", True)
    assert missed.met is False


@pytest.mark.parametrize(
    ("others", "met"),
    [
        ({"alike": entry(200.0)}, True),
        ({"alike": entry(201.0)}, False),
        ({}, None),
        ({"alike": entry(200.0, void="1 lost")}, None),
    ],
)
def test_goals_beside_another_scenario_need_its_result(others, met):
    [found] = judge_beside(Goal(cpu_ratio_max_to={"alike": 2.0}), entry(100.0), others)
    assert found.met is met
    assert "at most 2 times that of alike" in found.goal


def test_files_with_a_scenario_of_two_clients_are_compared_client_by_client():
    other = replace(entry(5.0), parameters={"size": 12, "client": "pika"})
    changes = compare.compare(results(entry(1.0), other), results(entry(1.0), other))
    assert [(change.figure, change.ratio) for change in changes] == [("rate", 1.0), ("broker_cpu_us", 1.0)] * 2


def test_a_void_entry_is_reported_as_such():
    assert "VOID: 2 reordered" in report.line(entry(5.0, void="2 reordered"))


def test_a_sweep_is_a_table():
    swept = [
        replace(entry(rate, client_cpu_us=1.0, resident_mib=1.0), scenario=f"link-credit@{at}")
        for at, rate in ((1, 10.0), (50, 5000.0))
    ]
    lines = report.sweeps([*swept, entry(1.0)]).splitlines()
    assert [line.split() for line in lines[-2:]] == [["1", "10"], ["50", "5,000"]]
