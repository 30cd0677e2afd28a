"""The scenarios to measure, as TOML files in `scenarios/`, one file each.

    title = "…"
    pattern = "one-connection"     # one of those below
    count = 1                      # how many of what the pattern speaks of
    link_credit = 200              # of a consumer; a list makes one scenario per value
    queue_type = "classic"         # or quorum, stream
    protocol = "1.0"               # or 0.9.1: link_credit is the prefetch_count then
    [traffic]                      # the fields of `load.plan.Traffic`
    [goal]                         # optional: what the measured broker is held to; see `Goal`

Load patterns: *sender* only publishes; *receiver* empties a queue that was filled before; *one-connection* and
*two-connections* publish and consume at the same time; *many* has `count` senders and `count` receivers, a process
each, on one queue. Memory patterns: *idle*; *queued*: `count` messages; *idle-connections*: `count` connections;
*applications*: `count` applications, each of which publishes and consumes on one connection; *split-applications*: the
same with two connections each.

Every file is read strictly: an unknown key or a value of the wrong type is an error that names the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Literal, get_args

from bench.load.plan import Application, Protocol, Traffic

FOLDER = Path(__file__).parent / "scenarios"
UNBATCHED_IN_FLIGHT = 200
"""Unsettled messages of an unbatched publisher: the reference measurements had 200 senders that each wait for an
outcome."""

KEYS = {"title", "pattern", "count", "link_credit", "queue_type", "protocol", "traffic", "goal"}
LoadPattern = Literal["sender", "receiver", "one-connection", "two-connections", "many"]
QueueType = Literal["classic", "quorum", "stream"]
MemoryPattern = Literal["idle", "queued", "idle-connections", "applications", "split-applications"]


class ScenarioError(Exception):
    """A scenario file that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Limits for the measured broker; None where there is no limit.

    rate_ratio_min, cpu_ratio_max, p99_ratio_max compare with the peer in the same run; memory_max is in the unit of the
    memory measurement.
    """

    rate_ratio_min: float | None = None
    cpu_ratio_max: float | None = None
    p99_ratio_max: float | None = None
    memory_max: float | None = None

    @property
    def count(self) -> int:
        """How many limits are set."""
        return sum(limit is not None for limit in astuple(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One point to measure."""

    name: str
    title: str
    pattern: LoadPattern | MemoryPattern
    traffic: Traffic
    count: int = 1
    link_credit: int = 200
    queue_type: QueueType = "classic"
    protocol: Protocol = "1.0"
    goal: Goal = Goal()

    def __post_init__(self) -> None:
        if self.queue_type not in get_args(QueueType):
            raise ValueError(f"no such queue type: {self.queue_type!r}")
        if self.protocol not in get_args(Protocol):
            raise ValueError(f"no such protocol: {self.protocol!r}")
        if self.protocol != "1.0" and self.is_memory:
            raise ValueError("memory is measured over AMQP 1.0")
        if self.pattern == "receiver" and self.traffic.rate:
            raise ValueError("a receiver alone has nothing to do with an offered rate")

    @property
    def is_memory(self) -> bool:
        return self.pattern in get_args(MemoryPattern)

    def parameters(self) -> dict[str, object]:
        """All parameters that must be equal for two results to be comparable."""
        return {
            "pattern": self.pattern,
            "count": self.count,
            "link_credit": self.link_credit,
            "queue_type": self.queue_type,
            "traffic": self.traffic.parameters(),
            **({} if self.protocol == "1.0" else {"protocol": self.protocol}),  # older files lack it
        }

    def processes(self, queue: str) -> list[list[Application]]:
        """The applications of each load process."""
        if self.pattern in ("sender", "receiver"):
            one = self.publisher(queue) if self.pattern == "sender" else self.consumer(queue)
            return [[one]]
        if self.pattern == "one-connection":
            return [[replace(self.publisher(queue), consume_from=queue, link_credit=self.link_credit)]]
        publishers = [[self.publisher(queue, index)] for index in range(self.count)]
        return publishers + [[self.consumer(queue)] for _ in range(self.count)]

    def publisher(self, queue: str, index: int = 0) -> Application:
        return Application(publisher=index + 1, publish_to=queue, protocol=self.protocol)

    def consumer(self, queue: str) -> Application:
        return Application(consume_from=queue, link_credit=self.link_credit, protocol=self.protocol)


def load_scenarios(folder: Path = FOLDER) -> dict[str, list[Scenario]]:
    """All scenario files, by file name; a file with a list of link credits has several scenarios."""
    return {path.stem: list(read_scenario(path)) for path in sorted(folder.glob("*.toml"))}


def read_scenario(path: Path) -> Iterator[Scenario]:
    """The scenarios of one file."""
    try:
        table = tomllib.loads(path.read_text())
        _reject_unknown(
            table, {"title", "pattern", "count", "link_credit", "queue_type", "protocol", "traffic", "goal"}
        )
        traffic_table, goal_table = table.pop("traffic", {}), table.pop("goal", {})
        _reject_unknown(traffic_table, {field.name for field in fields(Traffic)})
        _reject_unknown(goal_table, {field.name for field in fields(Goal)})
        if table["pattern"] not in (*get_args(LoadPattern), *get_args(MemoryPattern)):
            raise ScenarioError(f"no such pattern: {table['pattern']!r}")
        if traffic_table.get("shape") == "unbatched":
            traffic_table.setdefault("in_flight", UNBATCHED_IN_FLIGHT)
        traffic, goal = Traffic.of(traffic_table), Goal(**goal_table)
        link_credits = table.pop("link_credit", 200)
        if isinstance(link_credits, int):
            yield Scenario(name=path.stem, traffic=traffic, goal=goal, link_credit=link_credits, **table)
            return
        for link_credit in link_credits:
            name = f"{path.stem}@{link_credit}"
            yield Scenario(name=name, traffic=traffic, goal=goal, link_credit=link_credit, **table)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, ScenarioError) as problem:
        raise ScenarioError(f"{path.name}: {problem}") from problem


def _reject_unknown(table: dict[str, object], known: set[str]) -> None:
    if unknown := sorted(set(table) - known):
        raise ScenarioError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
