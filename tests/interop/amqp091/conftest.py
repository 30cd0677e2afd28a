"""The broker for the clients of AMQP 0.9.1: Headgate, or another that AMQP091_URL names.

RabbitMQ 4.0 passed these tests first, so they can be run against it:

    AMQP091_URL=amqp://guest:guest@127.0.0.1:5673 python -m pytest tests/interop/amqp091
"""

import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.kit.broker_process import BrokerAddress


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> BrokerAddress:
    """The broker that all clients here connect to."""
    url = urlsplit(os.environ.get("AMQP091_URL", ""))
    if url.hostname and url.port:
        return BrokerAddress(url.hostname, url.port, pid=0)
    headgate: BrokerAddress = request.getfixturevalue("broker")
    return headgate


@pytest.fixture
def pika() -> ModuleType:
    """The module pika."""
    return importlib.import_module("pika")


@pytest.fixture
def opened(broker: BrokerAddress, pika: ModuleType) -> Iterator[Callable[..., Any]]:
    """A function that opens connections of pika. Its options are those of ``ConnectionParameters``."""
    connections = []

    def open_connection(**options: Any) -> Any:
        parameters = pika.ConnectionParameters(host=broker.host, port=broker.port, **options)
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield open_connection
    for connection in connections:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(opened: Callable[..., Any]) -> Any:
    """One open connection of pika."""
    return opened()


@pytest.fixture
def channel(connection: Any) -> Any:
    """One channel on this connection."""
    return connection.channel()
