"""The sources against RabbitMQ 4: ``python -m tests.pyspark_amqp10.source_peer --peer-url amqp://guest:guest@HOST:PORT``.

The same tests of the connector that run with Headgate, with the peer in its place: streams whole, queues without what
needs a sequence number. What is left out stands in :data:`LEFT_OUT` with its reason. Queues are made with pika.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from tests.kit.broker_process import BrokerAddress

MODULES = ("test_stream_source.py", "test_queue_source.py", "test_spark_sources.py")
NUMBERS = "the peer stamps no sequence numbers: at least once, which has a test of its own"
REQUESTS = "it needs a request that is Headgate's own"
LEFT_OUT = {
    "test_a_crash_before_the_commit_of_a_batch_that_was_written": NUMBERS,
    "test_a_crash_amid_a_batch_that_was_planned": NUMBERS,
    "test_a_batch_of_which_messages_are_gone": NUMBERS,
    "test_a_broker_that_comes_back_is_connected_to_again": REQUESTS,
    "test_several_tasks_read_a_queue_as_one_reader_does": REQUESTS,
}
"""Tests that cannot be so with the peer, by the reason."""


class Peer:
    """A plugin of pytest: the fixtures of ``tests/pyspark_amqp10/spark_fixtures.py`` find the broker in it."""

    __name__ = "peer"
    """By which the fixtures find it."""

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        parts = urlsplit(url)
        assert (parts.username, parts.password) == ("guest", "guest"), "the tests connect as guest, password guest"
        assert parts.hostname is not None, f"{url} names no host"
        self.address = BrokerAddress(parts.hostname, parts.port or 5672, pid=0)
        self._url = url
        self._say = say

    def declare(self, name: str, *arguments: str) -> str:
        """Make a queue anew, with arguments written as ``x-queue-type=stream``; its address."""
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        given = dict(argument.split("=", 1) for argument in arguments)
        typed = {key: int(value) if value.isdigit() else value for key, value in given.items() if key != "x-sequence"}
        channel = connection.channel()
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments=typed)
        connection.close()
        return f"/queues/{name}"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what cannot be, and say so. A name that is no test is a mistake."""
        names = {item.name for item in items}
        assert names >= LEFT_OUT.keys(), f"no such test: {LEFT_OUT.keys() - names}"
        left_out = [item for item in items if item.name in LEFT_OUT]
        items[:] = [item for item in items if item.name not in LEFT_OUT]
        config.hook.pytest_deselected(items=left_out)
        self._say("")
        for item in left_out:
            self._say(f"left out: {item.name}: {LEFT_OUT[item.name]}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pyspark_amqp10.source_peer", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--peer-url", required=True, help="the broker, amqp://guest:guest@HOST:PORT")
    given = parser.parse_args()
    modules = [str(Path(__file__).parent / module) for module in MODULES]
    peer = Peer(given.peer_url, lambda text: print(text, flush=True))
    sys.exit(pytest.main(["-v", "--durations=12", "-p", "no:cacheprovider", *modules], plugins=[peer]))


if __name__ == "__main__":
    main()
