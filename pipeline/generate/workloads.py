"""The generated loads: how one connection behaves in each second, and the answers that the tables must find.

A load is a number of like connections. A *beat* is the records of one of them in a second; it is repeated for every
connection and second, with other counts. In texts of a beat ``{n}`` stands for the connection's number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeline.tables.bottlenecks import CHANNEL, QUEUE, STORE

MICROSECONDS = 1_000_000
NEWER, OLDER = "amqp-1.0", "amqp-0-9-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatRecord:
    """One record of a beat. Times are microseconds after the beat's second began; ``since_us`` may be before it."""

    at_us: int
    kind: str
    link: str | None = None
    direction: str | None = None
    address: str | None = None
    reason: str | None = None
    culprit: str | None = None
    since_us: int | None = None
    seconds: float | None = None
    stage: str | None = None
    name: str | None = None
    blocks: int | None = None
    blocked: bool | None = None
    held_up_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Like connections, each with one link from a publisher."""

    protocol: str
    link: str
    address: str | None
    beat: tuple[BeatRecord, ...]
    bottleneck: str | None = None
    culprit: str | None = None
    """The culprit to be found, with ``{n}``; None when there is none."""


def activity(link: str, records: int) -> tuple[BeatRecord, ...]:
    """The records of a link that moves messages in each of so many intervals of a second."""
    step = MICROSECONDS // records
    return tuple(
        BeatRecord(at_us=number * step, kind="activity", link=link, direction="in") for number in range(records)
    )


def _stage(at_us: int, stage: str, name: str, held_up_by: str | None) -> BeatRecord:
    """A stage becomes blocked by the stage ``held_up_by``; without it, the stage is not blocked any more."""
    return BeatRecord(
        at_us=at_us,
        kind="stage",
        stage=stage,
        name=name,
        blocks=3 if held_up_by else None,
        blocked=held_up_by is not None,
        held_up_by=held_up_by,
    )


READER = (_stage(200_000, "reader", "c{n}", "c{n}/1"), _stage(600_000, "reader", "c{n}", None))
CHANNELS = (_stage(210_000, "channel", "c{n}/1", "orders-{n}"), _stage(590_000, "channel", "c{n}/1", None))
QUEUES = (_stage(220_000, "queue", "orders-{n}", STORE), _stage(580_000, "queue", "orders-{n}", None))


def older(records: int, stages: tuple[BeatRecord, ...], bottleneck: str | None, culprit: str | None) -> Load:
    """A 0.9.1 connection with one channel, whose stages are in flow in each second."""
    beat = (*activity("c{n}/1", records), *stages)
    return Load(
        protocol=OLDER, link="c{n}/1", address=None, beat=beat, bottleneck=bottleneck, culprit=culprit
    )  # fmt: skip


def newer(records: int, stalls: tuple[BeatRecord, ...] = ()) -> Load:
    """A 1.0 connection with one link, which stands still in part of each second or not at all."""
    return Load(
        protocol=NEWER,
        link="c{n}/0/0",
        address="/queues/orders-{n}",
        beat=(*activity("c{n}/0/0", records), *stalls),
        bottleneck=stalls[0].reason if stalls else None,
        culprit=stalls[0].culprit if stalls else None,
    )


def _stall(kind: str, at_us: int, since_us: int, seconds: float | None = None) -> BeatRecord:
    return BeatRecord(
        at_us=at_us,
        kind=kind,
        link="c{n}/0/0",
        direction="in",
        address="/queues/orders-{n}",
        reason="store-slow",
        culprit="store",
        since_us=since_us,
        seconds=seconds,
    )


STALLS = (
    _stall("unblocked", 200_000, -300_000, 0.5),
    _stall("blocked", 750_000, 700_000),
)
"""Stalls of half a second across each full second, reported 50 ms after they began. The last one does not end, and the
first one began before the first record: the tables must find both."""
STALL_US = 500_000


def loads(records: int) -> Mapping[str, Load]:
    """The loads by name, with so many activity records of a link in each second."""
    return MappingProxyType(
        {
            "links": newer(records),
            "channel": older(records, READER, CHANNEL, "c{n}/1"),
            "queue": older(records, (*READER, *CHANNELS), QUEUE, "orders-{n}"),
            "store": older(records, (*READER, *CHANNELS, *QUEUES), STORE, STORE),
            "free": older(records, (), None, None),
            "stalls": newer(records, STALLS),
        }
    )


NAMES: Mapping[str, str] = MappingProxyType(
    {
        "links": "AMQP 1.0 links that nothing holds up",
        "stalls": "AMQP 1.0 links that wait for syncs for half of their time",
        "free": "AMQP 0.9.1 connections that nothing holds up",
        "channel": "AMQP 0.9.1 connections with small transient messages: the channel is the bottleneck",
        "queue": "AMQP 0.9.1 connections with small persistent messages: the queue is",
        "store": "AMQP 0.9.1 connections with large persistent messages: the message store is",
        "ramp": "one AMQP 1.0 link whose publisher offers more and more",
    }
)
"""The workloads that can be generated, and their descriptions."""

RAMP_CAPACITY = 2_000
"""Messages per second that the ramp's queue accepts."""
RAMP_SECONDS = 80
RAMP_STEP = 50
"""By how many messages per second the offered rate grows in each second: up to twice the capacity."""
RAMP_RECORDS = 10
"""Activity records in a second."""


@dataclass(frozen=True, slots=True)
class RampSecond:
    """One second of the ramp."""

    transfers: int
    blocked_us: int


def ramp() -> list[RampSecond]:
    """The seconds of the ramp. Once the offered rate is above the capacity, the publisher stands still for the
    excess."""
    found = []
    for second in range(RAMP_SECONDS):
        offered = RAMP_STEP * (second + 1)
        carried = min(offered, RAMP_CAPACITY)
        found.append(RampSecond(carried, MICROSECONDS - MICROSECONDS * carried // offered))
    return found
