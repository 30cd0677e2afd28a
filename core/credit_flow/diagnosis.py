"""Interprets the states of stage credit: the state of a connection, and the stage that is its bottleneck.

A party has the state ``flow`` when a stage *after* it is slow, so the party itself only waits. Messages pass reader,
channel, queue and message store in this order. The bottleneck is the first stage after the last one with the state
``flow``:

| reader | a channel | a queue | the bottleneck |
|---|---|---|---|
| flow | none | | channel |
| flow | flow | none | queue |
| flow | flow | flow | message store |

This module has pure functions over plain values.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from core.credit_flow.flow import StageReading

CONNECTION_REMEMBERED = 5.0
"""Seconds for which a connection counts as held up after its last block began. Channels and queues count for one second
only (``REMEMBERED``), so a connection may be the only one in flow: then it was held up recently, and is not any
more."""


class Amqp091ConnectionState(StrEnum):
    """The state of an AMQP 0.9.1 connection, as shown to operators."""

    RUNNING = "running"
    FLOW = "flow"
    BLOCKING = "blocking"
    """An alarm is on, but the client has not published since, so its socket is still read."""
    BLOCKED = "blocked"
    """An alarm is on and the client has published since: its socket is not read."""


def connection_state(
    *, alarms: Collection[str], blocked: bool, in_flow: bool, blocked_at: float | None, now: float
) -> Amqp091ConnectionState:
    """Return the state of a connection. ``alarms``: those that are on. ``blocked``: alarms have stopped the reader.
    ``in_flow``: stage credit stops the reader now. ``blocked_at``: when it last began to, or None. Times are monotonic
    seconds."""
    recent = blocked_at is not None and now - blocked_at < CONNECTION_REMEMBERED
    if not alarms and (in_flow or recent):
        return Amqp091ConnectionState.FLOW
    if blocked:
        return Amqp091ConnectionState.BLOCKED
    return Amqp091ConnectionState.BLOCKING if alarms else Amqp091ConnectionState.RUNNING


def blocked_reason(alarms: Collection[str]) -> str:
    """Return the reason for connection.blocked: ``low on memory``, ``low on disk``, ``low on memory & disk``, or that
    the broker is being drained."""
    if "drain-mode" in alarms:
        return "the broker is being drained"
    return "low on " + " & ".join(sorted(alarms, reverse=True))


class SlowStage(StrEnum):
    """The stages for which a publisher may wait, in the order in which messages pass them."""

    CHANNEL = "channel"
    QUEUE = "queue"
    STORE = "message store"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage that holds a connection up."""

    stage: SlowStage
    names: tuple[str, ...]
    """The names of the channels or queues, sorted. For the message store: the queues that wait for it."""
    sentence: str
    """The finding in words, with the load that typically leads to it."""


def diagnose(
    reader: StageReading, channels: Iterable[StageReading], queues: Iterable[StageReading]
) -> Bottleneck | None:
    """Find the stage for which a connection's reader waits; None if stage credit does not hold it up. ``channels`` are
    those of the connection, ``queues`` all queues to which its channels publish. Only stages on the reader's path
    count: for example not a queue that waits for the store if no channel waits for that queue."""
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
    """Return the stages that hold these ones up; all stages if it is unknown which."""
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
