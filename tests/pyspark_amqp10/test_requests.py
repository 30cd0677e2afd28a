"""Requests to a broker's management node: whom one can ask about a queue, and what becomes of a refusal."""

from collections.abc import Callable

import pytest

from pyspark_amqp10.login import Login
from pyspark_amqp10.requests import QueueFacts, facts_before_name, queue_path


@pytest.mark.parametrize(
    ("broker", "path"),
    [
        ({"product": "RabbitMQ", "version": "4.0.5", "information": "Licensed under the MPL 2.0"}, "/queues/a%2Fb"),
        ({"product": "RabbitMQ", "version": "10.1.0"}, "/queues/a%2Fb"),
        ({"product": "RabbitMQ", "version": "3.13.7"}, None),
        ({"product": "RabbitMQ", "version": "?"}, None),
        ({"product": "RabbitMQ"}, None),
        ({"product": "RabbitMQ", "version": "4.0.5", "information": "Headgate 1.0"}, "/headgate/queues/a%2Fb"),
        ({"product": "qpid-cpp", "version": "4.0.5"}, None),
        ({}, None),
    ],
)
def test_who_can_be_asked_about_a_queue(broker: dict[str, object], path: str | None):
    before_name = facts_before_name(broker)
    assert (before_name and queue_path("/queues/a%2Fb", before_name)) == path


@pytest.mark.slow
def test_a_broker_that_refuses_is_not_asked_again(broker_options: dict[str, str], declare: Callable[..., str]):
    address = declare("facts")
    login = Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])
    with login.connect() as connection:
        facts = QueueFacts(connection)
        assert facts.of("/exchanges/amq.direct/facts") is None
        shown = facts.of(address)
        assert shown is not None
        assert shown["messages_ready"] == 0
        assert QueueFacts(connection, ask=False).of(address) is None
        assert facts.of("/queues/none") is None
        assert facts.of(address) is None
