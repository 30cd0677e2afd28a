"""The examples for FastAPI and Django, driven without a port, against a broker in a process of its own."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from amqp10.client.scripts import connect
from tests.kit.broker_process import BrokerAddress, broker_process

pytestmark = [pytest.mark.slow, pytest.mark.interop]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerAddress]:
    with broker_process() as address:
        yield address


@pytest.fixture
def example(broker: BrokerAddress) -> Iterator[Callable[[str], ModuleType]]:
    """Returns a function that imports an example, which connects to the broker."""
    before, loaded = dict(os.environ), []
    os.environ["HEADGATE_URL"] = broker.url()

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name.removesuffix(".py").lstrip("0123456789_"), EXAMPLES / name)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        loaded.append(spec.name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(before)


def bodies(broker: BrokerAddress, n: int) -> list[object]:
    """The bodies of messages that are in the queue of the orders."""
    with connect(broker.url()) as connection, connection.open_receiver("/queues/orders") as receiver:
        found = []
        while len(found) < n:
            delivery = receiver.receive(within_s=30)
            found.append(delivery.message.body)
            delivery.accept()
    return found


def test_fastapi(broker: BrokerAddress, example: Callable[[str], ModuleType]):
    pytest.importorskip("fastapi")
    testing = pytest.importorskip("starlette.testclient")
    with testing.TestClient(example("16_fastapi_orders.py").app) as client:
        answers = [client.post("/orders", content=f"order {number}") for number in range(3)]
        assert {(answer.status_code, answer.json()["order"]) for answer in answers} == {(202, "accepted")}
        assert client.get("/waiting").json() == {"reason": None, "culprit": None, "remedy": None}
    assert bodies(broker, 3) == [b"order 0", b"order 1", b"order 2"]


def test_django(broker: BrokerAddress, example: Callable[[str], ModuleType]):
    pytest.importorskip("django")
    module = example("17_django_orders.py")
    transport = httpx.WSGITransport(app=module.application())
    with module.OPEN, httpx.Client(transport=transport, base_url="http://shop") as client:
        answers = [client.post("/orders", content=f"order {number}") for number in range(3)]
        assert {(answer.status_code, answer.json()["order"]) for answer in answers} == {(202, "accepted")}
        assert bodies(broker, 3) == [b"order 0", b"order 1", b"order 2"]
