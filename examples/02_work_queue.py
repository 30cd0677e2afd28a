"""Tutorial 2: two workers share a queue, and link credit decides who gets how much.

To run it:

    headgate queues declare tasks
    python examples/02_work_queue.py 10
    python examples/02_work_queue.py 1
"""

import os
import sys

from proton import Message, Timeout
from proton.utils import BlockingConnection, BlockingReceiver

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
TASKS = 20


def main(link_credit: int) -> None:
    """Hand out twenty tasks while one of the workers is busy."""
    connection = BlockingConnection(URL, timeout=10)
    sender = connection.create_sender("/queues/tasks")
    for number in range(TASKS):
        sender.send(Message(body=f"task {number}"))

    busy = connection.create_receiver("/queues/tasks", name="busy")
    quick = connection.create_receiver("/queues/tasks", name="quick")
    for worker in (busy, quick):
        worker.link.flow(link_credit)

    # The busy worker looks at its tasks only when the quick one finds no more.
    print(f"with a link credit of {link_credit}:")
    print("  the quick worker did", work(quick), "tasks")
    print("  the busy worker had", work(busy), "waiting for it")
    connection.close()


def work(worker: BlockingReceiver) -> int:
    """Do tasks until none comes for half a second. ``receive`` grants one more whenever all link credit is used."""
    done = 0
    while True:
        try:
            worker.receive(timeout=0.5)
        except Timeout:
            return done
        worker.accept()
        done += 1


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
