"""One run: declares queues, fills a source, runs a client process, and accounts for the messages.

A run is void when messages were lost, duplicated, out of order, changed or refused, or when a queue does not hold the
expected messages. Stage credit and alarms are read while the client is still connected.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from amqp10.load.ledger import judge
from amqp10.load.management import ManagementPair
from amqp10.load.plan import Application, PlannedTraffic, Protocol
from amqp10.load.wire import WireError
from bench.broker import Broker
from bench.together.job import BODY_BYTES, Job, Report
from bench.trial import LoadProcess, TrialError, conduct, running

QueueKind = Literal["classic", "quorum"]

FILLER = 1000
"""The publisher id of the messages that fill a source; no publisher of a job has it."""
FILL_SECONDS = 3600.0
FILL_IN_FLIGHT = 5000
COUNT_PATIENCE_SECONDS = 20.0
"""How long to wait for messages that are on their way into a queue after the connection was closed."""
COUNT_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Brakes:
    """The blocks of the AMQP 0.9.1 connection's reader, and their duration."""

    blocks: int
    blocked_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run: the client's report, the queues' message counts, and the brakes where the broker reports them.

    taken, seconds: messages in each queue when the time was over, and when that was: messages that a socket still holds
      then do not count. counts: messages in each queue when nothing moved any more.
    """

    report: Report
    taken: dict[str, int]
    seconds: float
    counts: dict[str, int]
    brakes: Brakes | None


@contextlib.contextmanager
def queues(broker: Broker, kinds: Mapping[str, QueueKind]) -> Iterator[None]:
    """Declare durable queues with these names, and delete them afterwards."""
    try:
        with ManagementPair(broker.url) as management:
            for name, kind in kinds.items():
                management.delete_queue(name)
                management.declare_queue(name, queue_type=kind)
        yield
    finally:
        with ManagementPair(broker.url) as management:
            for name in kinds:
                management.delete_queue(name)


def fill(broker: Broker, queue: str, messages: int, protocol: Protocol) -> None:
    """Publish this many durable messages, in the protocol in which they are consumed, so that no message has to be
    converted."""
    traffic = PlannedTraffic(
        size=BODY_BYTES, durable=True, messages=messages, seconds=FILL_SECONDS, in_flight=FILL_IN_FLIGHT
    )  # fmt: skip
    application = Application(publisher=FILLER, publish_to=queue, protocol=protocol)
    with running(broker, traffic, [[application]]) as processes:
        outcome = conduct(processes)
    if outcome.sent != {FILLER: messages} or any(outcome.faults.values()):
        raise TrialError(f"{queue} could not be filled: {outcome.sent} of {messages} sent, {outcome.faults}")


def run_job(broker: Broker, job: Job) -> Outcome:
    """Let a client process do the job."""
    names = [*job.publish_to, *([job.consume_from] if job.consume_from else [])]
    with (
        ManagementPair(broker.url) as management,
        LoadProcess(job, [sys.executable, "-m", "bench.together"]) as process,
    ):
        process.expect("ready")
        begin = time.monotonic()
        process.go(time.monotonic_ns())
        process.expect("over")
        taken = {name: management.message_count(name) for name in names}
        seconds = time.monotonic() - begin
        report = Report.of(process.expect("report"))
        brakes = brakes_of(broker) if job.protocol == "0.9.1" else None
    wanted = dict(zip(job.publish_to, report.sent, strict=True))
    counts = {name: settled_count(broker, name, wanted.get(name)) for name in names}
    return Outcome(report, taken, seconds, counts, brakes)


def brakes_of(broker: Broker) -> Brakes | None:
    """The sum over all connections that have stage credit, of which a run has one. None when the broker does not report
    it."""
    if not broker.name.startswith("Headgate"):
        return None
    try:
        with ManagementPair(broker.url) as management:
            rows = management.rows("connections")
    except WireError:
        return None
    blocks = [count for row in rows if isinstance(count := row.get("stage_credit_blocks"), int)]
    seconds = [time for row in rows if isinstance(time := row.get("stage_credit_blocked_seconds"), int | float)]
    return Brakes(sum(blocks), float(sum(seconds))) if blocks else None


def settled_count(broker: Broker, queue: str, wanted: int | None) -> int:
    """Messages ready in the queue, once it holds the wanted number or the number does not change any more."""
    deadline = time.monotonic() + COUNT_PATIENCE_SECONDS
    before = -1
    with ManagementPair(broker.url) as management:
        while (count := management.message_count(queue)) != wanted and time.monotonic() < deadline:
            if wanted is None and count == before:
                break
            before = count
            time.sleep(COUNT_PAUSE_SECONDS)
    return count


def faults_of(job: Job, outcome: Outcome) -> str:
    """Why the run is void; empty when it is valid."""
    found = [outcome.report.faults] if outcome.report.faults else []
    end = outcome.report.end
    for queue, sent, published in zip(job.publish_to, outcome.report.sent, end.published, strict=True):
        least = published if job.batch else sent  # unconfirmed messages may be lost with the connection
        if not least <= outcome.counts[queue] <= sent:
            found.append(f"{least} to {sent} should be in queue {queue}, {outcome.counts[queue]} are")
    if job.consume_from:
        found += _consumer_faults(job, outcome)
    return "; ".join(found)


def _consumer_faults(job: Job, outcome: Outcome) -> list[str]:
    """Check that the consumer got the head of the backlog in order, and that the rest is in the queue.

    A message may be in both: its acknowledgement was still on its way when the connection was closed.
    """
    consumed = sum(count for _, count in outcome.report.received.get(FILLER, []))
    verdict = judge({FILLER: consumed}, [outcome.report.received])
    left = outcome.counts[job.consume_from]
    found = [] if verdict.clean else [str(verdict)]
    if not job.backlog - consumed <= left <= job.backlog - consumed + 2 * job.link_credit:
        found.append(f"{consumed} of {job.backlog} consumed, but {left} left in the queue")
    return found
