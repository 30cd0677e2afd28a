"""The speed of the load generator itself: `python -m bench.load_limit`.

A broker that is faster than its load generator cannot be measured. So this runs a publisher and a consumer in memory,
without a socket, against a peer that costs nothing, and prints nanoseconds per message. Sockets add to that: a system
call takes 2 to 4 µs, and in bulk some 0.2 µs per KiB.
"""

from __future__ import annotations

import sys
import time

from amqp10.load.consumer import LinkConsumer
from amqp10.load.messages import BURST_BYTES_MAX
from amqp10.load.plan import Application, Content, PlannedTraffic
from amqp10.load.publisher import LinkPublisher

MESSAGES = 200_000
WINDOW = 2**31 - 1


def publisher_seconds(traffic: PlannedTraffic, link_credit: int) -> float:
    """Time to make `MESSAGES` messages, with this much link credit each time none is left."""
    publisher = LinkPublisher(Application(publisher=1), traffic, 131072)
    publisher.start(0)
    before = time.perf_counter()
    while publisher.sent < MESSAGES:
        if not publisher.ready(WINDOW, 0):
            publisher.flow_received(publisher.sent, link_credit)
        first = publisher.sent
        publisher.burst(WINDOW, 0)
        publisher.settled(first, publisher.sent - 1, accepted=True, now_ns=0)
    return time.perf_counter() - before


def consumer_seconds(traffic: PlannedTraffic, per_read: int) -> float:
    """The time to check and settle `MESSAGES` messages, of which ``per_read`` arrive in each read."""
    publisher = LinkPublisher(Application(publisher=1), traffic, 131072)
    publisher.start(0)
    consumer = LinkConsumer(traffic, 2 * per_read)
    consumer.start(0)
    consumer.top_up()
    seconds = 0.0
    for first in range(0, MESSAGES // per_read * per_read, per_read):
        publisher.flow_received(first, per_read)
        data = b""
        while publisher.ready(WINDOW, 0):
            data += b"".join(publisher.burst(WINDOW, 0)[0])
        before = time.perf_counter()
        at = 0
        while at < len(data):
            at = consumer.transfers(data, at, 0)
        consumer.output()
        consumer.top_up()
        seconds += time.perf_counter() - before
    assert consumer.ledger.total == MESSAGES // per_read * per_read
    return seconds


def main() -> int:
    """Print the limits for the shapes and sizes in the scenarios."""
    print(f"{'':24}{'at a time':>10}{'publisher':>12}{'consumer':>12}   ns per message")
    cases: list[tuple[int, Content]] = [
        *((size, "alike") for size in (12, 256, 4096)),
        *((12, content) for content in ("ids", "properties", "priorities")),
    ]
    for size, content in cases:
        traffic = PlannedTraffic(size=size, content=content, messages=MESSAGES)
        for at_a_time in (one for one in (1, 10, 30, 100, 1000) if one * size < BURST_BYTES_MAX):
            made = publisher_seconds(traffic, at_a_time) / MESSAGES
            checked = consumer_seconds(traffic, at_a_time) / MESSAGES
            print(f"{size:>6} bytes {content:12}{at_a_time:>10}{made * 1e9:>12.0f}{checked * 1e9:>12.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
