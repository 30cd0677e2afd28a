"""The scenarios to measure, as TOML files in `scenarios/`, one file each.

    title = "…"
    pattern = "one-connection"     # one of those below
    count = 1                      # how many of what the pattern speaks of
    link_credit = 200              # of a consumer; a list makes one scenario per value
    queue_type = "classic"         # or quorum, stream
    protocol = "1.0"               # or 0.9.1: link_credit is the prefetch_count then
    client = "own"                 # or another of `clients.programs.PROTOCOLS`
    through_exchange = false       # publish through an exchange although there is one routing key
    [traffic]                      # the fields of `load.plan.PlannedTraffic`
    [goal]                         # optional: what the measured broker is held to; see `Goal`

Load patterns: *sender* only publishes; *receiver* empties a queue that was filled before; the others publish and
consume at the same time:

    two-connections   a sender and a receiver on one queue
    one-connection    `count` pairs of a sender and a receiver, each pair with a queue and a session of its own, all on
                      one connection
    connections       the same pairs, each on a connection of its own
    pairs             `count` pairs with two connections each, and a queue of their own
    links             `count` senders on one session, and `count` receivers on one of another connection; a queue for
                      each pair
    many              `count` senders and `count` receivers, a process each, on one queue
    competing         a sender and `count` receivers on one queue
    fan-out           a sender to a fanout exchange, and `count` queues with a receiver each; a message counts once for
                      each delivery

Memory patterns: *idle*; *queued*: `count` messages; *idle-connections*: `count` connections; *applications*: `count`
applications, each of which publishes and consumes on one connection; *split-applications*: the same with two
connections each.

Every file is read strictly: an unknown key or a value of the wrong type is an error that names the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal, get_args

from amqp10.load.plan import Application, PlannedTraffic, Protocol, Shared
from bench.clients.programs import PROTOCOLS, Client, refusal

FOLDER = Path(__file__).parent / "scenarios"
UNBATCHED_IN_FLIGHT = 200
"""Unsettled messages of an unbatched publisher: the reference measurements had 200 senders that each wait for an
outcome."""

KEYS = {
    "title", "pattern", "count", "link_credit", "queue_type", "protocol", "client", "through_exchange",
    "traffic", "goal",
}  # fmt: skip
LoadPattern = Literal[
    "sender",
    "receiver",
    "one-connection",
    "two-connections",
    "connections",
    "pairs",
    "links",
    "many",
    "competing",
    "fan-out",
]
QueueType = Literal["classic", "quorum", "stream"]
MemoryPattern = Literal["idle", "queued", "idle-connections", "applications", "split-applications"]
QUEUE_EACH = ("one-connection", "connections", "pairs", "links", "fan-out")
"""The load patterns with `count` queues."""


class ScenarioError(Exception):
    """A scenario file that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Limits for the measured broker; None where there is no limit.

    rate_ratio_min, cpu_ratio_max, p50_ratio_max, p99_ratio_max compare with the peer in the same run; memory_max is in
    the unit of the memory measurement, p99_ms_max in milliseconds. cpu_ratio_max_to compares the CPU time per message
    with that of the measured broker in other scenarios of the same run, by their names.
    """

    rate_ratio_min: float | None = None
    cpu_ratio_max: float | None = None
    p50_ratio_max: float | None = None
    p99_ratio_max: float | None = None
    p99_ms_max: float | None = None
    memory_max: float | None = None
    cpu_ratio_max_to: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One point to measure."""

    name: str
    title: str
    pattern: LoadPattern | MemoryPattern
    traffic: PlannedTraffic
    count: int = 1
    link_credit: int = 200
    queue_type: QueueType = "classic"
    protocol: Protocol = "1.0"
    client: Client = "own"
    through_exchange: bool = False
    goal: Goal = Goal()

    def __post_init__(self) -> None:
        if self.queue_type not in get_args(QueueType):
            raise ValueError(f"no such queue type: {self.queue_type!r}")
        if self.protocol not in get_args(Protocol):
            raise ValueError(f"no such protocol: {self.protocol!r}")
        if self.protocol != "1.0" and self.is_memory:
            raise ValueError("memory is measured over AMQP 1.0")
        if self.traffic.sizes and self.is_memory:
            raise ValueError("memory is measured with bodies of one size")
        if self.routed and (self.is_memory or (self.pattern != "fan-out" and len(self.queues("")) > 1)):
            raise ValueError(f"routing keys lead to one queue, and pattern {self.pattern!r} has others")
        self._refuse_client()
        if self.pattern == "receiver" and self.traffic.rate:
            raise ValueError("a receiver alone has nothing to do with an offered rate")

    def _refuse_client(self) -> None:
        """Raise ValueError when the client cannot carry out this scenario."""
        if self.client not in PROTOCOLS:
            raise ValueError(f"no such client: {self.client!r}; known are {', '.join(PROTOCOLS)}")
        if self.client == "own":
            return
        if self.is_memory:
            raise ValueError(f"memory is measured with the client own, not {self.client}")
        if reason := refusal(self.client, self.protocol, self.traffic):
            raise ValueError(reason)
        if (most := max(map(len, self.processes("")))) > 1:
            raise ValueError(
                f"a process of the client {self.client} has one application, and pattern {self.pattern!r} with count "
                f"{self.count} has {most} in one process; choose the client own"
            )

    @property
    def is_memory(self) -> bool:
        return self.pattern in get_args(MemoryPattern)

    @property
    def unlike(self) -> bool:
        """Whether the messages differ in more than their body's numbers."""
        return self.traffic.content != "alike" or self.traffic.keys > 1 or bool(self.traffic.sizes)

    @property
    def routed(self) -> bool:
        """Whether messages go through an exchange that is declared for the run."""
        return self.through_exchange or self.traffic.keys > 1 or self.pattern == "fan-out"

    @property
    def copies(self) -> int:
        """How many deliveries a message becomes."""
        return self.count if self.pattern == "fan-out" else 1

    def parameters(self) -> dict[str, object]:
        """All parameters that must be equal for two results to be comparable."""
        return {
            "pattern": self.pattern,
            "count": self.count,
            "link_credit": self.link_credit,
            "queue_type": self.queue_type,
            "traffic": self.traffic.parameters(),
            **({} if self.protocol == "1.0" else {"protocol": self.protocol}),  # older files lack these
            **({} if self.client == "own" else {"client": self.client}),
            **({"through_exchange": True} if self.through_exchange else {}),
        }

    def queues(self, queue: str) -> list[str]:
        """The names of the queues that a run needs, made from this one."""
        if self.pattern in QUEUE_EACH and self.count > 1:
            return [f"{queue}-{index}" for index in range(self.count)]
        return [queue]

    def processes(self, queue: str) -> list[list[Application]]:
        """The applications of each load process."""
        queues = self.queues(queue)
        publishers = [self.publisher(name, index) for index, name in enumerate(queues)]
        consumers = [self.consumer(name) for name in queues]
        match self.pattern:
            case "sender":
                return [publishers]
            case "receiver":
                return [consumers]
            case "one-connection" | "connections":
                both = [replace(one, consume_from=one.publish_to, link_credit=self.link_credit) for one in publishers]
                return [_sharing(both, "connection") if self.pattern == "one-connection" else both]
            case "links":
                return [_sharing(publishers, "session"), _sharing(consumers, "session")]
            case "many":
                return [[self.publisher(queue, index)] for index in range(self.count)] + [consumers] * self.count
            case "competing":
                return [publishers, consumers * self.count]
            case "fan-out":
                return [[replace(publishers[0], exchange=exchange_of(queue))], consumers]
        return [publishers, consumers]

    def publisher(self, queue: str, index: int = 0) -> Application:
        exchange = exchange_of(queue) if self.routed else ""
        return Application(publisher=index + 1, publish_to=queue, exchange=exchange, protocol=self.protocol)

    def consumer(self, queue: str) -> Application:
        return Application(consume_from=queue, link_credit=self.link_credit, protocol=self.protocol)


def exchange_of(queue: str) -> str:
    """The name of the exchange of a run, made from its queue's."""
    return f"{queue}-exchange"


def _sharing(applications: list[Application], shares: Shared) -> list[Application]:
    """The applications, all but the first of which share a connection, or also the session, with the one before."""
    return applications[:1] + [replace(one, shares=shares) for one in applications[1:]]


def load_scenarios(folder: Path = FOLDER) -> dict[str, list[Scenario]]:
    """All scenario files by file name, those with unlike messages first; a file with a list of link credits has several
    scenarios."""
    found = {path.stem: list(read_scenario(path)) for path in sorted(folder.glob("*.toml"))}
    return dict(sorted(found.items(), key=lambda one: not any(scenario.unlike for scenario in one[1])))


def read_scenario(path: Path) -> Iterator[Scenario]:
    """The scenarios of one file."""
    try:
        table = tomllib.loads(path.read_text())
        _reject_unknown(table, KEYS)
        traffic_table, goal_table = table.pop("traffic", {}), table.pop("goal", {})
        _reject_unknown(traffic_table, {field.name for field in fields(PlannedTraffic)})
        _reject_unknown(goal_table, {field.name for field in fields(Goal)})
        if table["pattern"] not in (*get_args(LoadPattern), *get_args(MemoryPattern)):
            raise ScenarioError(f"no such pattern: {table['pattern']!r}")
        if "sizes" in traffic_table:
            traffic_table["sizes"] = tuple(traffic_table["sizes"])
        if traffic_table.get("shape") == "unbatched":
            traffic_table.setdefault("in_flight", UNBATCHED_IN_FLIGHT)
        traffic, goal = PlannedTraffic(**traffic_table), Goal(**goal_table)
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
