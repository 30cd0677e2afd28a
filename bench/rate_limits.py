"""Publish against rate limits and hold them to their numbers: `python -m bench.rate_limits`.

Each limit is the `publish-rate` of a policy for a queue of its own, to which one publisher sends as fast as it may,
from idle. The queue keeps its last 1000 messages. Limits whose sum is small are measured side by side, the others in
turn. A second connection looks at the queues and links many times a second.

A line has for each limit: the messages that the broker took in the time, how far that is from the limit, the largest
burst (messages beyond what the rate allows between two looks) with the most that it may be, and whether the link was
seen to wait for this limit. A limit is held when

- the messages are within 2 % of limit times seconds,
- no burst is larger than a bucket, which holds a quarter second, and the eighth that fills always, and a message each
  for rounding and for a new link,
- the row of the link had the limit's queue in `rate_limit`, and where a wait lasts 50 ms, the ledger of stalls had the
  reason `rate-limit`.

Examples:
  python -m bench.rate_limits
  python -m bench.rate_limits --flow adaptive --limits 10 100 1000 --seconds 10
  python -m bench.rate_limits --together 0

Exit status: 0 when all limits are held; 1 when one is not; 2 when nothing could be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from amqp10.load import wire
from amqp10.load.management import ManagementPair
from amqp10.load.plan import Application, Plan, PlannedTraffic
from amqp10.load.wire import WireError
from bench.broker import SCRATCH, Broker, BrokerError, started
from bench.environment import observe
from bench.run import HEADGATE
from bench.trial import LoadProcess, TrialError, conduct

LIMITS = (10, 25, 60, 150, 400, 1000, 3000, 10_000, 30_000, 100_000)
LOAD = [sys.executable, "-m", "amqp10.load"]
WITHIN = 0.02
BUCKET_SECONDS = 0.25
ALWAYS_FILLS = 1 / 8
"""Of a bucket, whatever the links hold unused."""
TOLD_BELOW = 20
"""A link that may send fewer messages a second waits 50 ms or longer for each, which is told."""
LOOK_SECONDS = 0.05
KEPT = 1000
"""Messages that a queue keeps. The oldest are dropped, so no consumer is needed."""
TOGETHER = 20_000
"""Limits are tried side by side as far as their sum, in messages a second, is no more than this: that many messages
take a fifth of a CPU."""
HEADING = f"{'limit/s':>10}{'messages':>12}{'off by':>9}{'burst':>10}{'at most':>10}  {'reason':12}"


@dataclass(frozen=True, slots=True)
class Sight:
    """How many messages a queue had been sent, at a moment between two others."""

    before: float
    after: float
    messages: int


@dataclass(slots=True)
class Looked:
    """What was seen of one limit."""

    limit: int
    sights: list[Sight] = field(default_factory=list)
    waited: bool = False
    """The row of its link named the limit."""
    told: bool = False
    """The ledger of stalls had the reason."""
    sent: int = 0

    @property
    def queue(self) -> str:
        """The queue with this limit."""
        return f"limited-{self.limit}"

    @property
    def burst_max(self) -> float:
        """The largest burst that is allowed, in messages."""
        return max(1.0, self.limit * BUCKET_SECONDS) * (1 + ALWAYS_FILLS) + 2

    @property
    def burst(self) -> float:
        """The most messages between two looks beyond what the rate allows in the longest time between them."""
        most, lowest = 0.0, float("inf")
        for sight in self.sights:
            if lowest < float("inf"):
                most = max(most, sight.messages - self.limit * sight.after - lowest)
            lowest = min(lowest, sight.messages - self.limit * sight.before)
        return most

    def off_by(self, seconds: float) -> float:
        """How far the messages are from the limit, as a share of it."""
        return self.sent / (self.limit * seconds) - 1

    def faults(self, seconds: float) -> list[str]:
        """What is not as it must be."""
        checks = (
            (abs(self.off_by(seconds)) > WITHIN, "RATE"),
            (self.burst > self.burst_max, "BURST"),
            (not self.waited, "REASON NOT SEEN"),
            (self.limit < TOLD_BELOW and not self.told, "NOT IN THE LEDGER"),
        )
        return [name for wrong, name in checks if wrong]

    def line(self, seconds: float) -> str:
        """A row of the table."""
        return (
            f"{self.limit:>10,}{self.sent:>12,}{self.off_by(seconds):>+9.2%}{self.burst:>10,.1f}{self.burst_max:>10,.1f}"
            f"  {'seen' if self.waited else 'not seen':12}{', '.join(self.faults(seconds)) or 'held'}"
        )


class Looks:
    """Looks at some limits many times a second while the block runs."""

    def __init__(self, management: ManagementPair, limits: Sequence[Looked]) -> None:
        self._management = management
        self._limits = {one.queue: one for one in limits}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._problem: WireError | OSError | None = None

    def __enter__(self) -> Self:
        self._look()  # before the first message
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        if self._problem is not None:
            raise BrokerError(f"the broker did not answer: {self._problem}")

    def _run(self) -> None:
        try:
            while not self._over.wait(LOOK_SECONDS):
                self._look()
        except (WireError, OSError) as problem:
            self._problem = problem

    def _look(self) -> None:
        before = time.monotonic()
        queues = self._management.rows("queues")
        after = time.monotonic()
        for row in queues:
            one, messages = self._limits.get(str(row.get("name"))), row.get("published")
            if one is not None and isinstance(messages, int):
                one.sights.append(Sight(before, after, messages))
        for row in self._management.rows("links"):
            one = self._limits.get(str(row.get("queue")))
            if one is not None and row.get("rate_limit") == f"queue {one.queue}":
                one.waited = True
        for row in self._management.rows("stalls"):
            one = self._limits.get(str(row.get("address")).removeprefix("/queues/"))
            if one is not None and row.get("reason") == "rate-limit":
                one.told = True


def groups(limits: Sequence[int], together: int) -> Iterator[list[int]]:
    """The limits in their order, in groups whose sums are at most ``together``; a larger one is alone."""
    group: list[int] = []
    for limit in limits:
        if group and sum(group) + limit > together:
            yield group
            group = []
        group.append(limit)
    if group:
        yield group


def measured(broker: Broker, limits: Sequence[int], seconds: float) -> list[Looked]:
    """Publish against some limits side by side. Raises BrokerError, TrialError, WireError, OSError."""
    found = [Looked(limit) for limit in limits]
    with ManagementPair(broker.url) as management, contextlib.ExitStack() as stack:
        processes = []
        for number, one in enumerate(found, 1):
            management.declare_queue(one.queue)
            _limit(management, one)
            plan = Plan(
                url=broker.url,
                traffic=PlannedTraffic(seconds=seconds, messages=int(2 * one.limit * (seconds + 1))),
                applications=(Application(publisher=number, publish_to=one.queue),),
            )
            processes.append(stack.enter_context(LoadProcess(plan, LOAD)))
        for process in processes:
            process.expect("ready")
        with Looks(management, found):
            outcome = conduct(processes)
        for number, one in enumerate(found, 1):
            one.sent = outcome.sent[number]
            management.delete_queue(one.queue)
            management.request("DELETE", f"/headgate/policies/{one.queue}", wire.NULL)
    if faults := {kind: count for kind, count in outcome.faults.items() if count}:
        raise TrialError(f"not all messages were confirmed: {faults}")
    return found


def _limit(management: ManagementPair, one: Looked) -> None:
    """Set the policy for the queue."""
    definition = wire.map_of(
        *(wire.string("publish-rate"), wire.uint(one.limit)),
        *(wire.string("max-length"), wire.uint(KEPT)),
    )
    policy = wire.map_of(
        *(wire.string("pattern"), wire.string(f"^{one.queue}$")),
        *(wire.string("apply_to"), wire.string("queues")),
        *(wire.string("definition"), definition),
    )
    management.request("PUT", f"/headgate/policies/{one.queue}", policy)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rate_limits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limits", type=int, nargs="+", default=LIMITS, help="messages a second (ten, up to 100,000)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to publish (30)")
    parser.add_argument("--flow", choices=("fixed", "adaptive"), default="fixed", help="the flow control (fixed)")
    parser.add_argument(
        "--together", type=int, default=TOGETHER, metavar="SUM",
        help="limits with at most this sum are measured side by side; 0: each alone (20,000)",
    )  # fmt: skip
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    asked = parser.parse_args(arguments)
    if min(asked.limits) < 1 or len(set(asked.limits)) < len(asked.limits):
        parser.error("--limits must be different numbers of 1 or more")
    if asked.seconds <= 0:
        parser.error(f"--seconds must be above 0, not {asked.seconds:g}")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Returns the exit status."""
    asked = parse(arguments)
    environment = observe(SCRATCH)
    where = f"commit {environment.commit}, {environment.interpreter}, {environment.machine}"
    print(f"{where}, {len(environment.cpus)} CPUs; {asked.flow} flow control, {asked.seconds:g} s", flush=True)
    print(HEADING, flush=True)
    held = 0
    try:
        with started(asked.start, configuration=f'[amqp10]\nflow = "{asked.flow}"\n') as broker:
            for group in groups(asked.limits, asked.together):
                for one in measured(broker, group, asked.seconds):
                    print(one.line(asked.seconds), flush=True)
                    held += not one.faults(asked.seconds)
    except (BrokerError, TrialError, WireError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2
    print(f"{held} of {len(asked.limits)} limits are held")
    return 0 if held == len(asked.limits) else 1


if __name__ == "__main__":
    sys.exit(main())
