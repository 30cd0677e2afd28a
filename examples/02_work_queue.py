"""Tutorial 2: two workers share a queue, and link credit decides who gets how much. With Headgate's own client.

To run it:

    headgate queues declare tasks
    python examples/02_work_queue.py 10
    python examples/02_work_queue.py 1
"""

import os
import sys

import trio

from amqp10.client import Message, Receiver, ReceiverOptions, connect

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
BY_HAND = ReceiverOptions(automatic=False)
TASKS = 20


async def work(worker: Receiver, link_credit: int) -> int:
    """Do tasks until the queue has no more for this worker."""
    done = 0
    while True:
        worker.grant(link_credit)
        await worker.drain()
        tasks = worker.receive_nowait(link_credit)
        if not tasks:
            return done
        for task in tasks:
            task.accept()
            done += 1


async def main(link_credit: int) -> None:
    """Hand out twenty tasks while one of the workers is busy with something else."""
    async with connect(URL) as connection:
        sender = await connection.open_sender("/queues/tasks")
        await sender.send_many(Message(f"task {number}") for number in range(TASKS))

        busy = await connection.open_receiver("/queues/tasks", options=BY_HAND)
        quick = await connection.open_receiver("/queues/tasks", options=BY_HAND)
        busy.grant(link_credit)
        done = await work(quick, link_credit)

        print(f"with a link credit of {link_credit}:")
        print("  the quick worker did", done, "tasks")
        print("  the busy worker had", busy.waiting, "waiting for it")
        await work(busy, link_credit)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
