"""Some of the runs of ``tests/pyspark_amqp10/kill.py``: one for each victim, on one driver until it is killed."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.pyspark_amqp10.kill import MODES, STAGES, VICTIMS, Laboratory, Run, laboratory, perform, plan
from tests.pyspark_amqp10.kill_jobs import share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def place() -> Iterator[Laboratory]:
    """With a driver that goes on from the cluster to its own process: another start of Spark takes longer."""
    with laboratory() as place:
        yield place


@pytest.mark.slow
@pytest.mark.spark
def test_an_executor_is_killed_that_reads_a_queue_with_another_one(place: Laboratory, tell: Callable[[object], None]):
    """On a standalone cluster: driver, two executors and their Python workers are processes of their own."""
    said: list[str] = []
    perform(
        place, [Run(0, victim="executor", stage="reading", mode="queue", readers=4)], said.append, with_cluster=True
    )
    assert len(said) == 1
    tell(said[0])


@pytest.mark.slow
@pytest.mark.spark
def test_worker_broker_and_driver_are_killed_amid_a_batch_and_every_message_is_a_row_once(
    place: Laboratory, spark: "SparkSession", tell: Callable[[object], None]
):
    """The session of the other tests goes on where the driver was killed: another start of Spark takes longer than what
    is tested here."""
    said: list[str] = []
    runs = [
        Run(1, victim="worker", stage="reading", mode="queue"),
        Run(2, victim="broker", stage="written", mode="queue"),
        Run(3, victim="worker", stage="reading", mode="queue", readers=4),
        Run(4, victim="broker", stage="planned", mode="queue", readers=4),
        Run(5, victim="driver", stage="planned", mode="queue"),
    ]
    perform(place, runs, said.append, spark)
    assert len(said) == len(runs)
    tell("\n".join(said))


def test_jobs_share_the_runs():
    runs = plan(100, readers=4)
    shares = [share(runs, f"{number}/3") for number in range(3)]
    assert sorted(run.number for one in shares for run in one) == list(range(100))
    assert share(runs, "0/1") == runs


def test_twenty_runs_on_a_cluster_are_every_victim_at_every_stage_of_a_queue():
    runs = plan(20, readers=4, with_cluster=True)
    assert len({(run.victim, run.stage) for run in runs}) == (len(VICTIMS) + 1) * len(STAGES) == 20


def test_thirty_runs_are_every_victim_at_every_stage_of_both_modes():
    assert len({(run.victim, run.stage, run.mode) for run in plan(30)}) == len(VICTIMS) * len(STAGES) * len(MODES) == 30


def test_fifteen_runs_with_several_readers_are_every_victim_at_every_stage_of_a_queue():
    runs = plan(15, readers=4)
    assert len({(run.victim, run.stage) for run in runs}) == len(VICTIMS) * len(STAGES) == 15
    assert {(run.mode, run.readers) for run in runs} == {("queue", 4)}
