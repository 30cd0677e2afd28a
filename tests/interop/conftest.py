"""One broker process for all tests with other projects' clients, and python-qpid-proton connected to it.

Clients are imported here inside fixtures only: where they are not installed, the tests are skipped and counted.
"""

import importlib
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.kit.broker_process import BrokerAddress, broker_process


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerAddress]:
    """A broker with the default configuration."""
    with broker_process() as address:
        yield address


@pytest.fixture
def proton() -> ModuleType:
    """The module proton of python-qpid-proton."""
    return importlib.import_module("proton")


@pytest.fixture
def connect(broker: BrokerAddress) -> Iterator[Callable[..., Any]]:
    """A function that opens connections of proton to the broker (see ``tests.kit.proton_peer``). Its options are those
    of proton's connect."""
    kit = importlib.import_module("tests.kit.proton_peer")
    peers = []

    def connected(url: str = "", **options: Any) -> Any:
        peers.append(kit.ProtonPeer(url or broker.url(), options))
        return peers[-1]

    yield connected
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(connect: Callable[..., Any]) -> Any:
    """One open connection of proton."""
    return connect().opened()


@pytest.fixture
def queue_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"\W", "-", request.node.nodeid.split("/")[-1])


@pytest.fixture
def queue(peer: Any, queue_name: str) -> str:
    """The address of a new classic queue."""
    answer = peer.request("PUT", f"/queues/{queue_name}", {"arguments": {"x-queue-type": "classic"}})
    assert answer.subject == "201"
    return f"/queues/{queue_name}"
