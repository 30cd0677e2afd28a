"""Some of the runs of ``tests/pyspark_amqp10/kill.py``: one for each victim, on one driver until it is killed."""

from typing import TYPE_CHECKING

import pytest

from tests.pyspark_amqp10.kill import MODES, STAGES, VICTIMS, Run, perform, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.spark
def test_worker_broker_and_driver_are_killed_amid_a_batch_and_every_message_is_a_row_once(spark: "SparkSession"):
    """The session of the other tests goes on where the driver was killed: another start of Spark takes longer than what
    is tested here."""
    said: list[str] = []
    runs = [
        Run(0, victim="worker", stage="reading", mode="queue"),
        Run(1, victim="broker", stage="written", mode="queue"),
        Run(2, victim="worker", stage="reading", mode="queue", readers=4),
        Run(3, victim="broker", stage="planned", mode="queue", readers=4),
        Run(4, victim="driver", stage="planned", mode="queue"),
    ]
    perform(runs, said.append, spark)
    assert len(said) == len(runs)


def test_thirty_runs_are_every_victim_at_every_stage_of_both_modes():
    assert len({(run.victim, run.stage, run.mode) for run in plan(30)}) == len(VICTIMS) * len(STAGES) * len(MODES) == 30


def test_fifteen_runs_with_several_readers_are_every_victim_at_every_stage_of_a_queue():
    runs = plan(15, readers=4)
    assert len({(run.victim, run.stage) for run in runs}) == len(VICTIMS) * len(STAGES) == 15
    assert {(run.mode, run.readers) for run in runs} == {("queue", 4)}
