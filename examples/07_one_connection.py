"""Tutorial 7: one connection with four links. One consumer is slow for a while. Which other links does it slow down?

To run it:

    python examples/07_one_connection.py
    python examples/07_one_connection.py --seconds 6 --chart docs/tutorials/07-one-connection.svg
"""

import argparse
import os
from collections.abc import Callable
from itertools import pairwise, repeat
from pathlib import Path

import trio
from rates_chart import Band, Line, svg

from amqp10.client import ClientConnection, Message, Receiver, Sender, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
QUEUE_LENGTH_MAX = 1_000
BATCH = 100
SLOW_S = 0.01
"""How long the slow consumer takes for a message, in its slow third of the time."""
SAMPLES = 60
MESSAGE = Message(b"x" * 12).encode()


class Pair:
    """A publisher and a consumer of one queue. Both pairs use the same connection."""

    def __init__(self, sender: Sender, receiver: Receiver) -> None:
        self.sender, self.receiver = sender, receiver
        self.consumed = 0
        self.reasons: dict[str, None] = {}

    async def publish(self) -> None:
        """Publish for ever, as fast as link credit allows."""
        await self.sender.post(repeat(MESSAGE))

    async def consume(self, is_slow: Callable[[], bool]) -> None:
        """Consume for ever: in batches, or one by one with a pause while this consumer is slow."""
        while True:
            batch = await self.receiver.receive_batch(1 if is_slow() else BATCH)
            if is_slow():
                await trio.sleep(SLOW_S)
            self.receiver.accept(batch[0].number, batch[-1].number)
            self.consumed += len(batch)

    def counts(self) -> tuple[int, int]:
        """Messages so far, out and in. It also notes the broker's reason when the publisher waits."""
        if self.sender.waiting_reason is not None:
            self.reasons[self.sender.waiting_reason] = None
        return self.sender.posted, self.consumed


async def open_pair(connection: ClientConnection, queue: str) -> Pair:
    """Declare a queue that makes its publishers wait when it is full, and open both ends of it."""
    arguments = {"x-max-length": QUEUE_LENGTH_MAX, "x-overflow": "block"}
    await connection.request("PUT", f"/queues/{queue}", {"arguments": arguments})
    return Pair(await connection.open_sender(f"/queues/{queue}"), await connection.open_receiver(f"/queues/{queue}"))


async def measure(seconds: float) -> tuple[list[tuple[float, ...]], Pair]:
    """Run both pairs; returns (time, messages so far on each of the four links), and the pair that was slow."""
    rows: list[tuple[float, ...]] = []
    async with connect(URL) as connection:
        quick = await open_pair(connection, "one-connection.quick")
        slow = await open_pair(connection, "one-connection.slow")
        began = trio.current_time()

        def in_slow_third() -> bool:
            return seconds / 3 <= trio.current_time() - began < seconds * 2 / 3

        async with trio.open_nursery() as nursery:
            nursery.start_soon(quick.publish)
            nursery.start_soon(slow.publish)
            nursery.start_soon(quick.consume, lambda: False)
            nursery.start_soon(slow.consume, in_slow_third)
            for sample in range(SAMPLES + 1):
                await trio.sleep_until(began + seconds * sample / SAMPLES)
                rows.append((trio.current_time() - began, *quick.counts(), *slow.counts()))
            nursery.cancel_scope.cancel()
        for queue in ("one-connection.quick", "one-connection.slow"):
            await connection.request("DELETE", f"/queues/{queue}")
    return rows, slow


def table(rows: list[tuple[float, ...]], titles: list[str]) -> str:
    """The messages per second of each link in each third of the time, as text."""
    ends = [rows[len(rows) * third // 3] for third in range(3)] + [rows[-1]]
    lines = [f"{'messages per second':20}{'before':>10}{'one is slow':>14}{'after':>10}"]
    for column, title in enumerate(titles, start=1):
        before, during, after = (
            (last[column] - first[column]) / (last[0] - first[0]) for first, last in pairwise(ends)
        )
        lines.append(f"{title:20}{before:10,.0f}{during:14,.0f}{after:10,.0f}")
    return "\n".join(lines)


def chart(rows: list[tuple[float, ...]], titles: list[str], seconds: float) -> str:
    """The same figures as a picture."""
    styles = ("first", "first dashed", "second", "second dashed")
    lines = [
        Line(
            title,
            style,
            [(b[0], (b[column] - a[column]) / (b[0] - a[0])) for a, b in pairwise(rows)],
        )
        for column, (title, style) in enumerate(zip(titles, styles, strict=True), start=1)
    ]
    return svg("Four links of one connection", lines, Band("one consumer is slow", seconds / 3, seconds * 2 / 3))


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(
        description="Four links of one connection, one of them slow for a third of the time."
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure (3)")
    parser.add_argument("--chart", type=Path, help="where to write the picture, an SVG file")
    chosen = parser.parse_args()
    rows, slow = trio.run(measure, chosen.seconds)
    titles = ["quick, published", "quick, consumed", "slow, published", "slow, consumed"]
    print(table(rows, titles))
    print("why the slow publisher waited:", *slow.reasons)
    if chosen.chart:
        chosen.chart.write_text(chart(rows, titles, chosen.seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
