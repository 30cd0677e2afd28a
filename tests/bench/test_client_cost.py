"""The cost of clients: the table, and a run of each client for a moment."""

import pytest

from amqp10.client.scripts import connect
from bench.client_cost.__main__ import command, median, table
from bench.client_cost.one_client import CLIENTS, QUEUE
from tests.kit.broker_process import broker_process


def test_the_table_has_medians_and_a_dash_for_what_a_client_cannot_do():
    rounds = [{"one by one": cost, "together": None, "received": 2.0} for cost in (9.0, 1.0, 3.0)]
    assert table({"proton": rounds})[2:] == ["| proton | 3.0 | – | 2.0 |"]
    assert median([None]) == "–"


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_sends_and_receives_everything(client: str):
    with broker_process() as broker, connect(broker.url()) as connection:
        connection.request("PUT", f"/queues/{QUEUE}", {})
        figures = CLIENTS[client](broker.url(), 300)
        assert figures["one by one"]
        assert figures["received"]
        assert connection.request("GET", f"/queues/{QUEUE}").body["message_count"] == 0
        assert command(client, broker.url(), 300)[1:3] == ["-m", "bench.client_cost.one_client"]
