"""A broker with fewer descriptors than clients, once each way; ``python -m tests.hostile.descriptor_limits`` does it
twenty times."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.descriptor_limits import AT_ONCE_SECONDS, USED_UP, run
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.cases import case
from tests.kit.limited_broker import limited_broker

REASON = "the limit of 1 connections is reached"


@pytest.mark.slow
@pytest.mark.parametrize("way", USED_UP)
def test_row_0_27_a_crowd_of_both_protocols_is_answered_and_no_other_client_is_disturbed(
    way: str, tmp_path: Path, tell: Callable[[object], None]
):
    seen = run(way, tmp_path, closed_seconds_max=AT_ONCE_SECONDS)
    tell(seen)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[BrokerAddress]:
    """A broker that may serve one connection, and serves one."""
    pika = importlib.import_module("pika")
    configuration = tmp_path / "broker.toml"
    configuration.write_text("[server]\nconnections_max = 1\n")
    with broker_process("--config", str(configuration)) as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
        yield broker
        connection.close()


@pytest.mark.interop
@case("amqp10_connection_max_SUITE", "shared with AMQP 0.9.1")
def test_pika_tells_why_it_is_not_served(full: BrokerAddress):
    """shared with AMQP 0.9.1 (amqp10_connection_max_SUITE)"""
    pika = importlib.import_module("pika")
    with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
        pika.BlockingConnection(pika.ConnectionParameters(full.host, full.port))
    assert f"ConnectionClosedByBroker: (506) 'RESOURCE_ERROR - {REASON}'" in str(caught.value)


@pytest.mark.interop
@case("amqp10_connection_max_SUITE", "shared with AMQP 0.9.1")
@pytest.mark.parametrize("login", ["guest:guest@", ""], ids=["PLAIN", "ANONYMOUS"])
def test_proton_tells_why_it_is_not_served(full: BrokerAddress, login: str):
    """shared with AMQP 0.9.1 (amqp10_connection_max_SUITE): the connection that fills the limit is pika's."""
    utils = importlib.import_module("proton.utils")
    with pytest.raises(utils.ConnectionClosed) as caught:
        utils.BlockingConnection(f"{login}{full.host}:{full.port}", timeout=5, allow_insecure_mechs=True)
    assert caught.value.condition == "amqp:resource-limit-exceeded"
    assert REASON in str(caught.value)


def test_row_0_28_the_limit_that_holds_is_logged_at_the_start(tmp_path: Path):
    with limited_broker(tmp_path, limit=256) as broker:
        pass
    (line,) = broker.logged("descriptor-limit")
    assert (line["total_limit"], line["sockets_limit"]) == (256, 160)
