"""The table of loads: its rows, what is chosen of them, what could not be run, and its place on a page."""

import os
from pathlib import Path

import pytest

from bench.broker import ROOT
from bench.declarations import GOAL, LATE_MS, RATES, judged
from bench.peers.artemis_queues import lacks
from bench.results import Entry, Results
from bench.scenario import ScenarioError
from bench.table.__main__ import main
from bench.table.groups import FILE, LoadGroup, choose, read_groups
from bench.table.measure import TableMeasurement
from bench.table.page import PageError, block, blocks_of, markdown, put
from bench.table.rows import rows
from bench.turns import runner
from tests.kit.loopback_broker import LoopbackBroker, dropping, serving

GROUPS = read_groups()
ENVIRONMENT = {
    "date": "2026-11-24", "commit": "c0ffee", "interpreter": "CPython 3.11.7", "machine": "m", "cpus": [0, 1],
    "fdatasync_p50_ms": 0.2,
}  # fmt: skip
PAGE = ROOT / "docs/benchmarks.md"
LISTED = [
    "091-bulk-12-keys-1",
    "091-bulk-12-keys-2",
    "091-bulk-12-keys-100",
    "091-bulk-12-keys-1000",
    "091-bulk-12-keys-10000",
    "bulk-12-ids",
    "bulk-12-properties",
    "bulk-12-priorities",
    "bulk-12",
    "unbatched-12-ids",
    "unbatched-12-properties",
    "unbatched-12-priorities",
    "unbatched-12",
    "lone-500",
    "lone-1000",
    "lone-2500",
    "lone-5000",
    "unbatched-12-pairs-100",
    "unbatched-12-links-100",
    "unbatched-12-competing-100",
    "unbatched-12-one-connection-10",
    "unbatched-12-connections-10",
    "unbatched-20-pairs-1000",
    "quorum-12",
    "quorum-unbatched-12",
    "bulk-4096",
    "bulk-65536",
    "bulk-1048576",
]


def entry(scenario, *costs, broker="Headgate 0.1", void="", client=None):
    runs = tuple({"rate": 1e6 / cost, "broker_cpu_us": cost, "void": void} for cost in costs)
    parameters = {} if client is None else {"client": client}
    return Entry(scenario=scenario, parameters=parameters, broker=broker, runs=runs)


def results(*entries, **not_run):
    return Results(environment=ENVIRONMENT, warm_up_seconds=1.0, entries=entries, not_run=not_run)


def group_of(name):
    [found] = [group for group in GROUPS if group.name == name]
    return found


def test_every_load_of_the_goals_is_in_the_table_and_every_client_has_rows():
    assert set(LISTED) <= {scenario.name for group in GROUPS for scenario in group.scenarios}
    assert {group.client for group in GROUPS} == {"own", "go-amqp", "amqp091-go", "proton", "pika"}
    assert {scenario.name for scenario in group_of("go-amqp").scenarios} >= {"unbatched-12", "unbatched-12-priorities"}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_each_goal_beside_a_scenario_has_it_in_its_group_so_that_both_run_by_turns(group):
    names = {scenario.name for scenario in group.scenarios}
    assert {name for scenario in group.scenarios for name in scenario.goal.cpu_ratio_max_to} <= names
    assert {scenario.client for scenario in group.scenarios} <= {group.client}
    assert {scenario.traffic.seconds for scenario in group.scenarios} <= {group.seconds}


def test_the_table_begins_with_unlike_messages():
    assert [GROUPS[0].scenarios[0].unlike, GROUPS[1].scenarios[0].unlike] == [True, True]


def test_a_chosen_row_brings_the_one_with_which_it_is_compared():
    [chosen] = choose(GROUPS, ["bulk-12-ids"])
    assert [scenario.name for scenario in chosen.scenarios] == ["bulk-12-ids", "bulk-12"]
    assert choose(GROUPS, ["declarations"]) == [group_of("declarations")]
    assert choose(GROUPS, []) == GROUPS


def test_a_row_that_does_not_exist_is_named(capsys):
    assert main(["--rows", "bulk-13"]) == 2
    assert "no row and no group of rows 'bulk-13'; --list shows them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[group]]\nname = 'a'\ntitle = 'b'\nscenario = ['bulk-12']\n", "unknown key 'scenario' in the group 'a'"),
        ("[[group]]\nname = 'a'\ntitle = 'b'\nscenarios = ['bulk-13']\n", "names a scenario 'bulk-13'"),
        ("[[group]]\nname = 'a'\ntitle = 'b'\nclient = 'pika'\nscenarios = ['bulk-12']\n", "the client pika speaks"),
        ("[[groups]]\n", "'group'"),
        ("[[group]\n", "rows.toml"),
    ],
)
def test_a_wrong_file_of_rows_is_refused(tmp_path, text, reason):
    path = tmp_path / FILE.name
    path.write_text(text)
    with pytest.raises(ScenarioError, match=reason):
        read_groups(path)


def test_one_row_is_measured_judged_and_written(tmp_path, capsys):
    files = ["--output", str(tmp_path / "table.json"), "--markdown", str(tmp_path / "table.md")]
    with serving(LoopbackBroker()) as url:
        where = ["--url", url, "--pid", str(os.getpid()), "--rows", "bulk-12", "--runs", "1", "--seconds", "0.5"]
        assert main([*where, *files, "--goals"]) == 3
    assert "bulk-12: rate at least 12 times the peer's: no result: NOT JUDGED" in capsys.readouterr().out
    [found] = Results.read(tmp_path / "table.json").entries
    assert (found.scenario, found.void, len(found.runs)) == ("bulk-12", "", 1)
    assert "| `bulk-12` | " in (tmp_path / "table.md").read_text()


@pytest.mark.slow
def test_a_lost_message_voids_the_row(tmp_path, capsys):
    files = ["--output", str(tmp_path / "table.json"), "--markdown", str(tmp_path / "table.md"), "--patience", "1"]
    with serving(LoopbackBroker(fault=dropping(3))) as url:
        where = ["--url", url, "--pid", str(os.getpid()), "--rows", "bulk-12", "--runs", "1", "--seconds", "0.5"]
        assert main([*where, *files]) == 1
    assert "VOID bulk-12: Loopback: 1 lost" in capsys.readouterr().err
    assert "| `bulk-12` | VOID: Loopback: 1 lost" in (tmp_path / "table.md").read_text()


def test_a_row_whose_client_is_not_there_is_marked_as_not_run():
    def no_brokers():
        raise AssertionError("a broker was started")

    group = LoadGroup(name="other", title="another", client="erlang", scenarios=group_of("unbatched").scenarios[:1])
    measurement = TableMeasurement(open_brokers=no_brokers, runs=1, run=runner(1.0), say=lambda _: None)
    measurement.measure(group)
    found = results(**measurement.not_run)
    [row] = rows(group, found)
    assert "the client erlang is not installed" in row.note
    assert not row.met
    assert f"not run: {row.note}" in markdown(found, [group])


def test_a_peer_that_cannot_do_a_load_is_named_and_the_broker_is_measured_alone():
    own = entry("quorum-12", 5.0, 5.0)
    text = markdown(
        results(own, **{"quorum-12 on the peer": lacks(protocol="1.0", queue_type="quorum", routed=False)}), GROUPS
    )
    assert "`quorum-12`, the peer: not run: Artemis has no quorum queues." in text
    assert "| `quorum-12` | 5.0 (5.0–5.0) |" in text
    assert [
        lacks(protocol=one, queue_type="classic", routed=two) for one, two in (("0.9.1", False), ("1.0", True))
    ] == [
        "Artemis does not speak AMQP 0.9.1",
        "Artemis has no exchanges",
    ]
    assert lacks(protocol="1.0", queue_type="classic", routed=False) == ""


def test_each_row_has_its_goals_with_figure_and_verdict():
    peer = {"broker": "RabbitMQ 4.0.5"}
    text = markdown(
        results(
            entry("bulk-12-ids", 5.0, 9.0), entry("bulk-12-ids", 20.0, 20.0, **peer),
            entry("bulk-12", 2.0, 2.0), entry("bulk-12", 40.0, 40.0, **peer),
        ),
        GROUPS,
    )  # fmt: skip
    assert "| `bulk-12-ids` | CPU per message at most 0.4 times the peer's | 0.35 (0.3–0.4) | met |" in text
    assert "| `bulk-12-ids` | CPU per message at most 2 times that of bulk-12 | 3.5 (3–4) | **MISSED** |" in text
    assert "by turns on Headgate and on RabbitMQ 4.0.5" in " ".join(text.split())
    assert "3 of 4 goals are met" in " ".join(text.split())


def test_a_scenario_with_another_client_is_another_row():
    found = results(entry("unbatched-12", 5.0), entry("unbatched-12", 30.0, client="go-amqp"))
    assert [row.name for group in GROUPS for row in rows(group, found)] == ["unbatched-12", "unbatched-12 with go-amqp"]


def test_declarations_are_judged_by_their_rates_and_by_the_longest_wait():
    figures = {**dict.fromkeys(RATES, GOAL), "longest_wait_ms": LATE_MS + 1, "broker_cpu_us": 300.0, "void": ""}
    way = Entry(scenario="declarations, 0.9.1, pipelined", parameters={}, broker="Headgate 0.1", runs=(figures,) * 2)
    assert [one.met for one in judged(way)] == [True, True, True, False]
    assert "| 0.9.1, pipelined | Headgate 0.1 | 3,000 (3,000–3,000) |" in markdown(results(way), GROUPS)


def test_the_block_of_the_same_peer_is_replaced_and_no_other(tmp_path):
    alone = block(results(entry("bulk-12", 2.0)), GROUPS, tmp_path / "alone.json")
    beside = block(
        results(entry("bulk-12", 2.0), entry("bulk-12", 40.0, broker="RabbitMQ 4.0.5")),
        GROUPS,
        tmp_path / "beside.json",
    )
    page = f"before\n<!-- bench.table RabbitMQ: none -->\n<!-- end of bench.table -->\nbetween\n{alone}after\n"
    assert put(page, beside) == f"before\n{beside}between\n{alone}after\n"
    with pytest.raises(PageError, match="the page has no block for RabbitMQ: write the lines"):
        put(alone, beside)


@pytest.mark.parametrize("peer", blocks_of(PAGE.read_text()))
def test_the_page_has_the_figures_of_the_file_that_it_names(peer):
    file, text = blocks_of(PAGE.read_text())[peer]
    assert text == block(Results.read(ROOT / file), GROUPS, ROOT / Path(file))
