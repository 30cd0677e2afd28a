"""Tutorial 10: accepted messages are there again after the broker was killed.

This example starts a broker of its own, on a port and a data folder that no other program uses:

    python examples/10_kill_the_broker.py
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from tempfile import TemporaryDirectory

import trio

from amqp10.client import Message, ReceiverOptions, connect
from amqp10.wire.sections import Header

MESSAGES = 10_000


@contextmanager
def broker(data: str) -> Iterator[str]:
    """A broker on this data folder, killed at the end as by `kill -9`. Gives its URL."""
    command = [sys.executable, "-m", "amqp10", "serve", "--listen", "127.0.0.1:0", "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            yield next(word for word in ready.split() if word.startswith("amqp://"))
        finally:
            process.kill()


async def publish(url: str, queue: str, queue_type: str) -> None:
    """Declare a queue and wait until the broker has accepted all messages; half of them are durable."""
    async with connect(url) as connection:
        await connection.request("PUT", f"/queues/{queue}", {"arguments": {"x-queue-type": queue_type}})
        sender = await connection.open_sender(f"/queues/{queue}")
        for durable in (True, False):
            message = Message(b"kept" if durable else b"passing", header=Header(durable=durable)).encode()
            fates = await sender.send_many(repeat(message, MESSAGES))
            print(f"{queue}: {MESSAGES} messages, durable {durable}:", type(fates[0].fate).__name__)


async def count(url: str, queue: str) -> None:
    """Count the messages, and those that may have been delivered before."""
    async with connect(url) as connection:
        receiver = await connection.open_receiver(f"/queues/{queue}", options=ReceiverOptions(automatic=False))
        receiver.grant(2 * MESSAGES)
        await receiver.drain()
        messages = [delivery.message for delivery in receiver.receive_nowait(2 * MESSAGES)]
    kept = sum(message.body == b"kept" for message in messages)
    redelivered = sum(message.header is not None and not message.header.first_acquirer for message in messages)
    print(f"{queue}: {kept} durable, {len(messages) - kept} others, {redelivered} marked as redelivered")


def main() -> None:
    """Publish, kill, start again, count."""
    with TemporaryDirectory() as data:
        with broker(data) as url:
            trio.run(publish, url, "classic", "classic")
            trio.run(publish, url, "quorum", "quorum")
        print("killed")
        with broker(data) as url:
            trio.run(count, url, "classic")
            trio.run(count, url, "quorum")


if __name__ == "__main__":
    main()
