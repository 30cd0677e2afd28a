"""Generated events and the expected results, without Spark."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.observe.flow_events.schema import decode
from pipeline.generate.files import Answers, NotGenerated, generate
from pipeline.generate.workloads import NAMES, RAMP_CAPACITY, ramp
from pipeline.tables.packets import rows_of
from pipeline.tables.records import FLOW_EVENTS, arrow_schema


def made(folder: Path, workload: str = "links", **figures: object) -> Answers:
    wanted = {"events": 300, "connections": 3, "records": 4, "seed": 1} | figures
    return generate(folder, workload, progress=lambda done, of: None, **wanted)


def records(folder: Path) -> list[dict[str, object]]:
    return pq.read_table(folder).to_pylist()


def moved(rows: list[dict[str, object]], answers: Answers) -> dict[str, int]:
    transfers = dict.fromkeys(answers.transfers, 0)
    for row in rows:
        if row["kind"] == "activity":
            transfers[str(row["link"])] += int(str(row["transfers"]))
    return transfers


@pytest.mark.parametrize("workload", NAMES)
def test_every_workload_makes_as_many_records_as_it_says_and_its_answers_are_those_written(
    tmp_path: Path, workload: str
):
    answers = made(tmp_path / "events", workload)
    rows = records(tmp_path / "events")
    assert len(rows) == answers.events >= 300
    assert Answers.read(tmp_path / "events") == answers
    assert moved(rows, answers) == answers.transfers
    assert set(answers.culprits) == {row["connection"] for row in rows}


@pytest.mark.parametrize(("workload", "events"), [("links", 300), ("links", 7), ("queue", 301), ("store", 310)])
def test_exactly_as_many_as_were_asked_for_and_the_answers_are_those_of_the_cut_second(
    tmp_path: Path, workload: str, events: int
):
    answers = made(tmp_path / "events", workload, events=events, exactly=True)
    rows = records(tmp_path / "events")
    assert len(rows) == answers.events == events
    assert answers.seconds == len({row["at"].replace(microsecond=0) for row in rows})
    assert moved(rows, answers) == answers.transfers


@pytest.mark.parametrize(
    ("workload", "events", "words"),
    [("stalls", 300, "in whole seconds only"), ("ramp", 300, "in whole seconds only"), ("links", 6, "more than 6")],
)
def test_what_cannot_be_cut_is_told(tmp_path: Path, workload: str, events: int, words: str):
    with pytest.raises(NotGenerated, match=words):
        made(tmp_path / "events", workload, events=events, exactly=True)
    assert not (tmp_path / "events").exists()


def test_files_have_the_columns_of_flow_events(tmp_path: Path):
    made(tmp_path / "events", "queue")
    schema = pq.read_schema(tmp_path / "events" / "part-00001.parquet")
    assert schema.names == list(FLOW_EVENTS)
    plain = {field.name: field.type for field in arrow_schema(FLOW_EVENTS)}
    assert {field.name: getattr(field.type, "value_type", field.type) for field in schema} == plain


def test_the_same_seed_makes_the_same_events_and_another_others(tmp_path: Path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        made(tmp_path / name, seed=seed)
    a, b, c = (records(tmp_path / name) for name in "abc")
    assert a == b != c


def test_packets_are_what_the_broker_packs_and_hold_the_same_records(tmp_path: Path):
    made(tmp_path / "rows", "stalls")
    made(tmp_path / "packets", "stalls", packets=True)
    messages = records(tmp_path / "packets")
    assert [message["offset"] for message in messages] == list(range(len(messages)))
    assert [decode(message["body"]).sequence for message in messages] == list(range(len(messages)))
    unpacked = [row for message in messages for row in rows_of(message["body"])]
    kept = ("kind", "connection", "link", "direction", "transfers", "reason", "seconds")
    assert [tuple(row.get(name) for name in kept) for row in unpacked] == [
        tuple(row[name] for name in kept) for row in records(tmp_path / "rows")
    ]


def test_the_ramp_is_blocked_from_its_capacity_on():
    before = [second for second in ramp() if second.transfers < RAMP_CAPACITY]
    after = [second for second in ramp() if second.transfers == RAMP_CAPACITY]
    assert not any(second.blocked_us for second in before)
    assert [second.blocked_us for second in after] == sorted(second.blocked_us for second in after)
    assert after[-1].blocked_us == 500_000


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(NotGenerated, match="is not empty; name a new folder"):
        made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("wrong", [{"events": 0}, {"connections": 0}, {"records": 0}, {"records": 1001}])
def test_figures_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, int]):
    with pytest.raises(NotGenerated, match="must be 1 or more"):
        made(tmp_path / "events", **wrong)
    assert not (tmp_path / "events").exists()
