"""What the marks of stage credit mean: the state of a connection, and which stage holds it up.

A party is marked ``flow`` when a stage *after* it is slow; it is itself only waiting. So the bottleneck is the first
stage after the last marked one, on the way reader, channel, queue, message store:

| reader | a channel | a queue | the bottleneck |
|---|---|---|---|
| flow | none | | channel |
| flow | flow | none | queue |
| flow | flow | flow | message store |

Pure functions over plain values: who is asked for them, and when, is not known here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from core.credit_flow.flow import StageReading

CONNECTION_REMEMBERED = 5.0
"""A connection counts as held up for so long after its last block began, in seconds. Channels and queues forget after
one second (``REMEMBERED``), so a connection may be in flow alone: then it was held up and is not any more."""


class ConnectionState(StrEnum):
    """What an operator is shown of an AMQP 0.9.1 connection."""

    RUNNING = "running"
    FLOW = "flow"
    BLOCKING = "blocking"
    """There is an alarm, but the client has published nothing since, so it is still read from."""
    BLOCKED = "blocked"
    """There is an alarm and the client has published since: nothing is read from it."""


def connection_state(
    *, alarms: Collection[str], blocked: bool, in_flow: bool, blocked_at: float | None, now: float
) -> ConnectionState:
    """``alarms``: those that are on. ``blocked``: they have stopped the reader. ``in_flow``: stage credit stops it
    now. ``blocked_at``: when stage credit last began to, if ever; times are monotonic, in seconds."""
    recent = blocked_at is not None and now - blocked_at < CONNECTION_REMEMBERED
    if not alarms and (in_flow or recent):
        return ConnectionState.FLOW
    if blocked:
        return ConnectionState.BLOCKED
    return ConnectionState.BLOCKING if alarms else ConnectionState.RUNNING


def blocked_reason(alarms: Collection[str]) -> str:
    """The reason of connection.blocked: ``low on memory``, ``low on disk`` or ``low on memory & disk``; or that the
    broker is being drained."""
    if "drain-mode" in alarms:
        return "the broker is being drained"
    return "low on " + " & ".join(sorted(alarms, reverse=True))


class SlowStage(StrEnum):
    """What a publisher may wait for, in the order in which messages pass."""

    CHANNEL = "channel"
    QUEUE = "queue"
    STORE = "message store"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage that holds a connection up."""

    stage: SlowStage
    names: tuple[str, ...]
    """Which channels or which queues, sorted. Of the message store: the queues that wait for it."""
    sentence: str
    """The finding in words, with the load that typically leads to it."""


def diagnose(
    reader: StageReading, channels: Iterable[StageReading], queues: Iterable[StageReading]
) -> Bottleneck | None:
    """Why a connection's reader waits: the channels are its own, the queues all that its channels publish to. None
    when stage credit does not hold it up. Only what lies on its way counts: not a queue that waits for the store
    when no channel waits for that queue."""
    if not reader.in_flow:
        return None
    channels = _on_the_way([reader], channels)
    marked_channels = [channel for channel in channels if channel.in_flow]
    if not marked_channels:
        return _bottleneck(SlowStage.CHANNEL, channels)
    queues = _on_the_way(marked_channels, queues)
    marked_queues = [queue for queue in queues if queue.in_flow]
    if not marked_queues:
        return _bottleneck(SlowStage.QUEUE, queues)
    return _bottleneck(SlowStage.STORE, marked_queues)


def _on_the_way(held_up: Iterable[StageReading], stages: Iterable[StageReading]) -> list[StageReading]:
    """The stages that hold these ones up; all, where it is not known which."""
    stages = list(stages)
    named = {name for stage in held_up for name in stage.held_up_by}
    return [stage for stage in stages if stage.name in named] or stages


def _bottleneck(stage: SlowStage, found: Iterable[StageReading]) -> Bottleneck:
    names = tuple(sorted(reading.name for reading in found))
    return Bottleneck(stage, names, _SENTENCES[stage].format(", ".join(names) or "no longer there"))


_SENTENCES: Mapping[SlowStage, str] = MappingProxyType(
    {
        SlowStage.CHANNEL: "The channel is the bottleneck ({}): it takes messages on more slowly than they come in."
        " Typical of many small transient messages, where routing takes the time.",
        SlowStage.QUEUE: "The queue is the bottleneck ({}): it takes messages on more slowly than they are routed to"
        " it. Typical of many small persistent messages, where enqueueing or writing the index takes the time.",
        SlowStage.STORE: "The message store is the bottleneck (for {}): it writes more slowly than the queues hand"
        " bodies over. Typical of many large persistent messages, where the disk takes the time.",
    }
)
