"""Calls the tasks of tasks.py, waits for every result, and prints all of them as JSON."""

import json
import os

from celery import chain
from tasks import add, app, second_time_lucky

WAIT_S = 60.0


def main() -> None:
    """Run many small tasks, a chain, a retry, a task with a time to run at, and a remote control command."""
    tasks = int(os.environ["AMQP091_TASKS"])
    results = [add.delay(n, n) for n in range(tasks)]
    sums = [result.get(timeout=WAIT_S) for result in results]
    said = {
        "sums": "right" if sums == [n + n for n in range(tasks)] else sums,
        "chain": chain(add.s(1, 2), add.s(3), add.s(4)).delay().get(timeout=WAIT_S),
        "retried": second_time_lucky.delay().get(timeout=WAIT_S),
        "in time": add.apply_async((1, 2), countdown=0.2).get(timeout=WAIT_S),
        "pongs": len(app.control.ping(timeout=WAIT_S, limit=1)),
    }
    with app.connection_for_read() as connection:
        queue = os.environ["AMQP091_TASK_QUEUE"]
        said["left"] = connection.default_channel.queue_declare(queue, passive=True).message_count
    print(json.dumps(said))


if __name__ == "__main__":
    main()
