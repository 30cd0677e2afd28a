"""The state of a connection, and the three rules that find the slow stage."""

import pytest

from core.credit_flow.diagnosis import Amqp091ConnectionState, SlowStage, blocked_reason, connection_state, diagnose
from core.credit_flow.flow import CreditFlow, StageReading
from tests.kit.settings import GENERAL


def state(
    *alarms: str, blocked: bool = False, in_flow: bool = False, blocked_at: float | None = None, now: float = 100.0
) -> Amqp091ConnectionState:
    return connection_state(alarms=alarms, blocked=blocked, in_flow=in_flow, blocked_at=blocked_at, now=now)


def marked(name: str, *held_up_by: str) -> StageReading:
    return StageReading(name, True, held_up_by)


def unmarked(name: str) -> StageReading:
    return StageReading(name, False)


def test_row_4_14_a_connection_runs_unless_there_is_a_reason():
    assert state() is Amqp091ConnectionState.RUNNING


def test_row_4_15_an_alarm_blocks_connections_that_publish_and_lets_the_others_go_on():
    assert state("memory") is Amqp091ConnectionState.BLOCKING
    assert state("memory", blocked=True) is Amqp091ConnectionState.BLOCKED


def test_row_1_04_stage_credit_alone_is_flow():
    assert state(in_flow=True, blocked_at=0.0) is Amqp091ConnectionState.FLOW


@pytest.mark.parametrize(
    ("age", "expected"), [(4.999, Amqp091ConnectionState.FLOW), (5.0, Amqp091ConnectionState.RUNNING)]
)
def test_row_4_29_a_connection_remembers_its_last_block_for_five_seconds(age: float, expected: Amqp091ConnectionState):
    assert state(blocked_at=100.0 - age) is expected


def test_an_alarm_goes_before_flow():
    assert state("disk", in_flow=True, blocked_at=99.0) is Amqp091ConnectionState.BLOCKING
    assert state("disk", in_flow=True, blocked_at=99.0, blocked=True) is Amqp091ConnectionState.BLOCKED


def test_a_reader_that_is_still_stopped_after_the_alarm_is_blocked():
    assert state(blocked=True) is Amqp091ConnectionState.BLOCKED


@pytest.mark.parametrize(
    ("alarms", "text"),
    [
        (["memory"], "low on memory"),
        (["disk"], "low on disk"),
        (["disk", "memory"], "low on memory & disk"),
        (["memory", "disk"], "low on memory & disk"),
    ],
)
def test_the_reason_names_memory_before_disk(alarms: list[str], text: str):
    assert blocked_reason(alarms) == text


def test_row_1_13_no_mark_on_the_reader_means_no_bottleneck():
    assert diagnose(unmarked("reader"), [marked("channel 1", "q")], [marked("q", "store")]) is None


RULES = [
    (False, False, SlowStage.CHANNEL, "channel 1", "many small transient messages"),
    (True, False, SlowStage.QUEUE, "q", "many small persistent messages"),
    (True, True, SlowStage.STORE, "q", "many large persistent messages"),
]


@pytest.mark.parametrize(("channel", "queue", "stage", "name", "load"), RULES)
def test_row_1_13_the_bottleneck_is_the_first_stage_after_the_last_marked_one(
    channel: bool, queue: bool, stage: SlowStage, name: str, load: str
):
    found = diagnose(marked("reader"), [StageReading("channel 1", channel)], [StageReading("q", queue)])
    assert found is not None
    assert (found.stage, found.names) == (stage, (name,))
    assert f"The {stage} is the bottleneck" in found.sentence
    assert name in found.sentence
    assert load in found.sentence


def test_row_4_30_a_queue_that_no_channel_waits_for_does_not_count():
    """Another connection fills the queue."""
    found = diagnose(marked("reader", "channel 1"), [unmarked("channel 1")], [marked("q", "store")])
    assert found is not None
    assert (found.stage, found.names) == (SlowStage.CHANNEL, ("channel 1",))


def test_row_4_30_the_slow_one_of_several_is_named():
    found = diagnose(
        marked("reader", "channel 2"),
        [unmarked("channel 1"), marked("channel 2", "quorum"), marked("channel 3", "big")],
        [unmarked("classic"), unmarked("quorum"), marked("big", "store")],
    )
    assert found is not None
    assert (found.stage, found.names) == (SlowStage.QUEUE, ("quorum",))


def test_without_names_all_that_are_marked_are_suspects():
    found = diagnose(marked("reader"), [marked("channel 2"), marked("channel 1")], [marked("b"), unmarked("a")])
    assert found is not None
    assert (found.stage, found.names) == (SlowStage.STORE, ("b",))


def test_a_queue_that_was_deleted_meanwhile_is_still_a_finding():
    found = diagnose(marked("reader", "channel 1"), [marked("channel 1", "gone")], [])
    assert found is not None
    assert (found.stage, found.names) == (SlowStage.QUEUE, ())
    assert "no longer there" in found.sentence


@pytest.mark.parametrize(
    ("slow", "stage"),
    [(1, SlowStage.CHANNEL), (2, SlowStage.QUEUE), (3, SlowStage.STORE)],
    ids=lambda value: str(value),
)
def test_row_4_32_a_real_chain_is_diagnosed_whichever_stage_stands_still(slow: int, stage: SlowStage):
    chain = [CreditFlow(name, GENERAL) for name in ("reader", "channel 1", "q", "store")]
    while not chain[0].blocked:
        chain[0].send(chain[1], 1, 0.0)
        for at in range(1, slow):
            chain[at].ack(chain[at - 1], 1)
            chain[at].send(chain[at + 1], 1, 0.0)
    reader, channel, queue = (party.reading(60.0) for party in chain[:3])
    found = diagnose(reader, [channel], [queue])
    assert found is not None
    assert found.stage is stage
