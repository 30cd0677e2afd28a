"""``python -m bench.alarm``: the effect of a memory alarm on a consumer whose connection also publishes.

One connection with one session publishes to a queue and consumes from another one that holds a backlog. The consumer's
rate is measured before a memory alarm is raised, while it is on, and after it is cleared. The publisher must stand
still while the alarm is on, and go on afterwards. Exit status 3 when consuming falls below 95 % of its rate.

For example:

    python -m bench.alarm
    python -m bench.alarm --seconds 5 --runs 5
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median

from amqp10.load.management import ManagementPair
from amqp10.load.plan import Application, PlannedTraffic
from bench.backlog import OwnBroker, publish_to
from bench.broker import Broker
from bench.trial import running

TARGET, SOURCE = "alarm-target", "alarm-source"
SHARE_MIN = 0.95
BACKLOG_PER_SECOND = 800_000
"""How many messages of backlog there are for each second of the measurement: more than a consumer can take."""
SETTLE_SECONDS = 0.5


def rates(management: ManagementPair, seconds: float) -> tuple[float, float]:
    """Messages per second consumed from the source and accepted by the target, over this many seconds."""
    began = time.monotonic()
    consumed, published = management.counter(SOURCE, "accepted"), management.counter(TARGET, "published")
    time.sleep(seconds)
    took = time.monotonic() - began
    return (
        (management.counter(SOURCE, "accepted") - consumed) / took,
        (management.counter(TARGET, "published") - published) / took,
    )


def measure(broker: Broker, seconds: float) -> list[tuple[float, float]]:
    """The rates before, during and after the alarm."""
    total = 3 * seconds + 4 * SETTLE_SECONDS
    with ManagementPair(broker.url) as management:
        for queue in (TARGET, SOURCE):
            management.delete_queue(queue)
            management.declare_queue(queue)
    publish_to(broker, SOURCE, PlannedTraffic(messages=int(BACKLOG_PER_SECOND * total), seconds=3600.0), publisher=1)
    application = Application(publisher=1, publish_to=TARGET, consume_from=SOURCE, link_credit=200)
    traffic = PlannedTraffic(messages=100_000_000, seconds=total)
    phases = []
    with ManagementPair(broker.url) as management, running(broker, traffic, [[application]]) as processes:
        processes[0].go(time.monotonic_ns())
        time.sleep(SETTLE_SECONDS)
        phases.append(rates(management, seconds))
        management.set_alarm("memory", on=True)
        time.sleep(SETTLE_SECONDS)
        phases.append(rates(management, seconds))
        management.set_alarm("memory", on=False)
        time.sleep(SETTLE_SECONDS)
        phases.append(rates(management, seconds))
        if not management.counter(SOURCE, "messages_ready"):
            sys.exit(f"the consumer took more than {BACKLOG_PER_SECOND:,} messages a second, all there were: no result")
        processes[0].kill()
        time.sleep(SETTLE_SECONDS)
        for queue in (SOURCE, TARGET):
            check_all_there(management, queue)
    return phases


def check_all_there(management: ManagementPair, queue: str) -> None:
    """Check that every message that the queue accepted was consumed or is still there."""
    states = ("published", "accepted", "messages_ready", "messages_unacknowledged")
    published, *elsewhere = (management.counter(queue, name) for name in states)
    if published != sum(elsewhere):
        sys.exit(f"queue {queue}: {published} published, {sum(elsewhere)} accepted or there: no result")


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.alarm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of each phase (default 2)")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(words)
    shares = []
    for _ in range(given.runs):
        own = OwnBroker()
        try:
            before, during, after = measure(own.start()[0], given.seconds)
        finally:
            own.kill()
            own.remove()
        shares.append(during[0] / before[0])
        shown = ", ".join(f"{name} {c:,.0f}/s and {p:,.0f}/s" for name, (c, p) in
                          (("before", before), ("during", during), ("after", after)))  # fmt: skip
        print(f"consumed and published: {shown}; {shares[-1]:.0%} while the alarm was on", flush=True)
        if during[1] or not after[1]:
            sys.exit("the publisher did not stand still, or did not go on: no result")
    if median(shares) < SHARE_MIN:
        print(f"below {SHARE_MIN:.0%}")
        sys.exit(3)


if __name__ == "__main__":
    main()
