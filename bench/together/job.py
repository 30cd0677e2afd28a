"""The job of one client process on its one connection, and its report: plain data, a line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from amqp10.load.ledger import Range
from amqp10.load.plan import Application, PlannedTraffic, Protocol

Client = Literal["own", "pika", "proton"]

SAMPLE_SECONDS = 0.1
"""Seconds between two samples of the counters."""
BODY_BYTES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One connection's work.

    publish_to: a queue for each publisher; each sends durable messages of 12 bytes, as fast as possible.
    batch: how many messages a publisher sends before it waits for the confirms of all of them; 0: no confirms are sent,
      and in AMQP 1.0 all messages are sent settled.
    consume_from: a queue to consume from at the same time, if any, with acknowledgements.
    backlog: how many messages that queue holds; the run ends when they are consumed.
    link_credit: of the consumer; in AMQP 0.9.1 the prefetch_count.
    """

    url: str
    protocol: Protocol
    client: Client = "own"
    publish_to: tuple[str, ...] = ()
    batch: int = 0
    consume_from: str = ""
    backlog: int = 0
    link_credit: int = 200
    seconds: float = 10.0

    @property
    def traffic(self) -> PlannedTraffic:
        return PlannedTraffic(
            size=BODY_BYTES, settled=not self.batch, durable=True, seconds=self.seconds, messages=2**32 - 1
        )  # fmt: skip

    @property
    def applications(self) -> tuple[Application, ...]:
        """A session, or a pair of channels, for each publisher; the consumer shares the first one."""
        return tuple(
            Application(
                publisher=number + 1,
                publish_to=queue,
                consume_from="" if number else self.consume_from,
                link_credit=self.link_credit,
                batch=self.batch,
                protocol=self.protocol,
            )
            for number, queue in enumerate(self.publish_to or ("",))
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        fields = json.loads(line)
        return Job(**{**fields, "publish_to": tuple(fields["publish_to"])})


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters at this many seconds: one for each publisher, and the consumer's."""

    seconds: float
    published: tuple[int, ...]
    consumed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a job.

    samples: every 0.1 s; the last is the end of the run. Published are messages confirmed, or sent without confirms.
    sent: how many messages each publisher had sent when the connection was idle again.
    received: ranges of sequence numbers by publisher, in order of arrival.
    faults: why this is void; empty when it is valid.
    """

    samples: tuple[Sample, ...]
    sent: tuple[int, ...]
    received: dict[int, list[Range]]
    faults: str = ""

    @property
    def end(self) -> Sample:
        return self.samples[-1]

    def to_json(self) -> str:
        return json.dumps({"event": "report", **asdict(self)})

    @staticmethod
    def of(event: dict[str, object]) -> Report:
        """Read the event that `to_json` made."""
        fields = json.loads(json.dumps(event))
        return Report(
            samples=tuple(
                Sample(one["seconds"], tuple(one["published"]), one["consumed"]) for one in fields["samples"]
            ),
            sent=tuple(fields["sent"]),
            received={int(name): [(a, b) for a, b in ranges] for name, ranges in fields["received"].items()},
            faults=fields["faults"],
        )
