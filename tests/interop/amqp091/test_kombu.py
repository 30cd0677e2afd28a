"""kombu (over py-amqp) and a Celery application, on Headgate's AMQP 0.9.1 side."""

import importlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
TASKS = 1_000
WAIT_S = 20.0
"""How long a test waits for a message before it fails."""


@pytest.fixture
def kombu():
    return importlib.import_module("kombu")


@pytest.fixture
def connection(kombu, broker):
    with kombu.Connection(broker.url(path="//"), transport_options={"confirm_publish": True}) as connection:
        yield connection


def take(kombu, connection, queue, n):
    """Consume and acknowledge n messages; returns their payloads."""
    taken = []

    def receive(body, message):
        taken.append(body)
        message.ack()

    with connection.Consumer(queue, callbacks=[receive], accept=["json"], prefetch_count=10):
        while len(taken) < n:
            connection.drain_events(timeout=WAIT_S)
    return taken


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout"])
def test_what_a_producer_sends_a_consumer_takes(kombu, connection, queue_name, kind):
    exchange = kombu.Exchange(queue_name, kind, auto_delete=True)
    queue = kombu.Queue(queue_name, exchange, routing_key="key", auto_delete=True, expires=60, message_ttl=60)
    producer = connection.Producer(exchange=exchange, routing_key="key", serializer="json")
    bodies = [{"number": number, "half": number / 2, "list": [None, True, "ü"]} for number in range(100)]
    for body in bodies:
        producer.publish(body, declare=[queue], compression="zlib", headers={"double": 0.1, "nested": {"a": [1]}})
    assert take(kombu, connection, queue, len(bodies)) == bodies


def test_simple_queues_and_requeue(connection, queue_name):
    queue = connection.SimpleQueue(queue_name, no_ack=False)
    queue.put({"a": 1})
    message = queue.get(timeout=WAIT_S)
    assert message.headers == {}
    message.requeue()
    again = queue.get(timeout=WAIT_S)
    assert (again.payload, again.delivery_info["redelivered"]) == ({"a": 1}, True)
    again.ack()
    with pytest.raises(queue.Empty):
        queue.get(block=False)
    queue.close()
    connection.default_channel.queue_delete(queue_name)


def test_priorities(kombu, connection, queue_name):
    queue = kombu.Queue(queue_name, max_priority=10, auto_delete=True)(connection.default_channel)
    queue.declare()
    producer = connection.Producer(serializer="json")
    for priority in (2, 9, 5):
        producer.publish(priority, routing_key=queue_name, priority=priority)
    assert take(kombu, connection, queue, 3) == [9, 5, 2]


def test_the_connection_says_what_ended_it(kombu, connection, queue_name):
    amqp = importlib.import_module("amqp")
    channel = connection.channel()
    with pytest.raises(amqp.exceptions.NotFound):
        channel.queue_declare(queue_name, passive=True)
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0)  # another channel's fault has not hurt the connection
    with pytest.raises(amqp.exceptions.AMQPNotImplementedError):
        connection.default_channel.basic_qos(1, 0, False)


@pytest.mark.slow
def test_a_celery_application(broker, queue_name, tmp_path):
    """A worker of two processes with events, results by reply queues, remote control, retries and tasks for a later
    time."""
    environment = os.environ | {
        "AMQP091_BROKER": broker.url(path="//"),
        "AMQP091_TASK_QUEUE": queue_name,
        "AMQP091_TASKS": os.environ.get("AMQP091_TASKS", str(TASKS)),
        "PYTHONPATH": str(HERE),
    }
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-E", "--loglevel", "WARNING"]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            caller = subprocess.run(
                [sys.executable, HERE / "call_tasks.py"],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
        finally:
            worker.terminate()
            worker.wait(WAIT_S)
    assert caller.returncode == 0, (tmp_path / "worker.log").read_text()
    said = json.loads(caller.stdout)
    assert said == {"sums": "right", "chain": 10, "retried": 1, "in time": 3, "pongs": 1, "left": 0}
    assert worker.returncode == 0
