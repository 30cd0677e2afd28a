"""Tutorial 11: a publisher of AMQP 0.9.1 is held up by a slow queue, and the broker says by which one.

This example starts a broker of its own, whose disk is slow on purpose:

    python examples/11_why_it_waits.py
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import sleep

import pika

SLOW_DISK = """
[store]
sync_delay = "200ms"
"""
QUESTIONS_MAX = 50
"""The pause between two questions. The answer changes as soon as the first sync is waited for."""
HEADGATE = (sys.executable, "-m", "amqp10")


@contextmanager
def slow_broker() -> Iterator[str]:
    """A broker whose every sync takes 200 ms longer. Gives its URL."""
    with TemporaryDirectory() as folder:
        config = Path(folder) / "broker.toml"
        config.write_text(SLOW_DISK, encoding="utf-8")
        command = [*HEADGATE, "serve", "--config", str(config), "--listen", "127.0.0.1:0", "--data", f"{folder}/data"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            ready = process.stdout.readline()
            try:
                yield next(word for word in ready.split() if word.startswith("amqp://"))
            finally:
                process.kill()


def publish(url: str, answered: Event) -> None:
    """Publish without confirms until the answer is known. Only one of the two queues waits for syncs."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("quick", durable=True)
    channel.queue_declare("slow", durable=True, arguments={"x-queue-type": "quorum"})
    while not answered.is_set():
        channel.basic_publish("", "quick", b"hello")
        channel.basic_publish("", "slow", b"hello")
    connection.close()


def headgate(url: str, *arguments: str) -> str:
    """The output of a command."""
    command = [*HEADGATE, *arguments, "--url", url]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=30).stdout


def main() -> None:
    """Publish, and ask why it takes so long."""
    with slow_broker() as url:
        answered, answer = Event(), ""
        publisher = Thread(target=publish, args=[url, answered])
        publisher.start()
        for _ in range(QUESTIONS_MAX):
            sleep(0.1)
            answer = headgate(url, "why", "c1")
            if "bottleneck" in answer:
                break
        answered.set()
        print(answer, end="")
        publisher.join()


if __name__ == "__main__":
    main()
