"""Three of the kills in one run, and that their audit finds what it is for. The script has all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from amqp10.client import Message
from amqp10.wire.types import ULong
from pyspark_amqp10.encoding import BATCH_ANNOTATION, ROW_ANNOTATION
from tests.pyspark_amqp10.kill_sink import BATCH_ROWS, STAGES, SUBJECTS, check, plan, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 3


def message(batch: int, row: int, body: str | None = None) -> Message:
    annotations = {BATCH_ANNOTATION: f"query/{batch}/0", ROW_ANNOTATION: ULong(row)}
    return Message(body=(body or f"{batch}-{row}").encode(), annotations=annotations)


def written() -> list[Message]:
    return [message(batch, row) for batch in range(BATCHES) for row in range(BATCH_ROWS)]


@pytest.mark.slow
@pytest.mark.spark
def test_worker_broker_and_driver_are_killed_each_in_the_middle_of_a_batch(
    spark: "SparkSession", tmp_path: Path, tell: Callable[[object], None]
):
    """On one job until it is killed. The session of the other tests finishes it: another start of Spark takes longer
    than what is tested here."""
    audit = run(["worker", "broker", "driver"], "sending", tmp_path / "run", spark)
    assert audit.starts >= 2
    tell(f"{audit.messages:,} messages, {audit.repeats:,} of them repeats; the job was started {audit.starts} times")


def test_twelve_runs_are_every_subject_at_every_stage():
    assert len(set(plan(12))) == len(STAGES) * len(SUBJECTS) == 12


def test_repeats_are_allowed_and_dropped():
    check([*written(), message(1, 0)], batches=BATCHES, repeated=True)


def test_none_need_come_twice_when_the_kill_was_between_batches():
    check(written(), batches=BATCHES, repeated=False)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (written(), "nothing was repeated"),
        ([*written()[1:], message(1, 0)], "2999 rows after dropping repeats, 3000 were written"),
        ([*written(), message(1, 0, "other")], "a row has come again as another"),
        ([*written(), message(BATCHES, 0)], "3001 rows after dropping repeats"),
    ],
    ids=["no repeats", "one is lost", "another body", "one too many"],
)
def test_the_audit_finds_what_is_wrong(messages: list[Message], complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        check(messages, batches=BATCHES, repeated=True)
