"""``python -m bench.commit``: the rate of a quorum queue on a slow disk, for one link and for several.

Publishes to quorum queues over one connection, with one link for each queue, always as much as the broker's link credit
allows. A link has at most 255 messages under way (170, and 170 again when 85 are left). So with a given commit latency
its rate cannot be above 255 / latency. The output has the share of that rate, and the rate of several links together.

Slow the broker's disk from outside, for example with a preloaded library that delays fdatasync.

For example:

    python -m bench.commit --url amqp://guest:guest@127.0.0.1:5672 --links 1 2 4 8
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Sequence
from statistics import median

import trio

from amqp10.client import ClientConnection, ClientSettings, Message, Receipt, Sender, connect
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header

UNDER_WAY_MAX = 255
POST_MESSAGES = 17
"""How many messages are passed to the client at once: few, so that link credit is used as soon as it comes."""
WARM_UP_SECONDS = 0.5
PATIENCE_SECONDS = 0.5
SETTINGS = ClientSettings(unsettled_max=100_000)


class Meter:
    """Counts confirmed messages and samples latencies, after the warm-up."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.confirmed = 0
        self.accepted = 0
        """All accepted messages, with the warm-up. The queues must hold this many at the end."""
        self.latencies: list[float] = []

    def note(self, posted_at: float, messages: int) -> None:
        """Note that this many messages, posted at that time, are confirmed now."""
        now = time.monotonic()
        self.accepted += messages
        if posted_at >= self.begin:
            self.latencies.append(now - posted_at)
        if now >= self.begin:
            self.confirmed += messages


async def publish(sender: Sender, meter: Meter, body: bytes, until: float) -> None:
    """Keep the link full until that time."""
    encoded = Message(body, header=Header(durable=True)).encode()

    posted: deque[tuple[Receipt, float]] = deque()
    more = trio.Event()

    async def wait() -> None:
        while time.monotonic() < until or posted:
            if not posted:
                with trio.move_on_after(PATIENCE_SECONDS):
                    await more.wait()
                continue
            receipt, posted_at = posted.popleft()
            fates = await receipt.fates()
            assert all(isinstance(one.fate, Accepted) for one in fates), fates
            meter.note(posted_at, len(receipt))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        while time.monotonic() < until:
            receipt = await sender.post([encoded] * POST_MESSAGES)
            posted.append((receipt, time.monotonic()))
            more.set()
            more = trio.Event()


async def measure(connection: ClientConnection, links: int, seconds: float, body: bytes) -> tuple[float, float]:
    """Messages per second over all links, and the median latency of a confirm in seconds."""
    senders = []
    for number in range(links):
        name = f"commit-{number}"
        await connection.request("DELETE", f"/queues/{name}")
        await connection.request("PUT", f"/queues/{name}", {"arguments": {"x-queue-type": "quorum"}})
        senders.append(await connection.open_sender(f"/queues/{name}"))
    meter = Meter(time.monotonic() + WARM_UP_SECONDS)
    until = meter.begin + seconds
    async with trio.open_nursery() as nursery:
        for sender in senders:
            nursery.start_soon(publish, sender, meter, body, until)
    took = time.monotonic() - meter.begin
    kept = 0
    for number, sender in enumerate(senders):
        await sender.close()
        answer = await connection.request("GET", f"/queues/commit-{number}")
        assert isinstance(answer.body, dict)
        kept += int(answer.body["message_count"])
        await connection.request("DELETE", f"/queues/commit-{number}")
    if kept != meter.accepted:
        sys.exit(f"{meter.accepted} messages accepted, {kept} in the queues: no result")
    return meter.confirmed / took, median(meter.latencies)


async def run(given: argparse.Namespace) -> None:
    """Measure all numbers of links, one after the other."""
    single = 0.0
    async with connect(given.url, SETTINGS) as connection:
        for links in given.links:
            rate, latency = await measure(connection, links, given.seconds, b"x" * given.size)
            single = single or rate / links
            most = UNDER_WAY_MAX / latency
            print(
                f"{links} link(s): {rate:>9,.0f}/s, commit latency {latency * 1000:.2f} ms (median);"
                f" a link {rate / links / most:.0%} of {UNDER_WAY_MAX} / latency; {rate / single:.1f} x one link",
                flush=True,
            )


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.commit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1:5672")
    parser.add_argument("--links", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--size", type=int, default=12, help="bytes of a body (default 12)")
    trio.run(run, parser.parse_args(words))


if __name__ == "__main__":
    main()
