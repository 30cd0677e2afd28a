"""Accidents that end a query or hold it up: expired tokens, alarms, leaders that move, drivers that are stopped.

No row is lost, and a query with several readers has none twice. The connector's pages have what happens in each case.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client_core.url import Url
from amqp10.wire.sections import DATA, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import ClientError, ConnectionLost, NoLongerHeld, NotLetIn, TimedOut
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import Json
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.parallel_source import ParallelQueueSource, Piece, read_held
from pyspark_amqp10.sink import RowWriter
from pyspark_amqp10.sink_options import SinkOptions
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.cluster_nodes import NAMES, cluster_nodes
from tests.kit.command_line import run_here
from tests.kit.tokens import BROKER, ISSUER, key_set, make_token
from tests.pyspark_amqp10.test_parallel_source import settle_down

pytestmark = pytest.mark.slow
ROWS, ROWS_OF_A_BATCH = 20, 10
SHORT_S, HOUR_S = 3, 3600
"""How long tokens hold. A token that is to expire must hold until the batch is planned."""
WITHIN_S = 20.0


def read(options: SourceOptions, tasks: list[list[Piece]]) -> list[int]:
    """The rows of these tasks."""
    batches = [batch for task in tasks for batch in read_held(options, task, SCHEMA)]
    return [int(row["body"]) for batch in batches for row in batch.to_pylist()]


def everything(options: SourceOptions, start: Json) -> list[int]:
    """All rows behind an offset, as a query reads them that is started again."""
    source, rows = ParallelQueueSource(options), list[int]()
    while (end := source.plan(start)) != start:
        rows += read(options, source.tasks(start, end))
        start = end
    source.close()
    return rows


def fill(login: Login, address: str) -> None:
    """Publish numbers."""
    with login.connect() as connection:
        sending = SendingLink.open(connection, address)
        sent = sending.send([encode_section(DATA, b"%d" % row) for row in range(ROWS)], within_s=WITHIN_S)
        assert sending.confirm(sent, within_s=WITHIN_S) == []


# --- a token that expires --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """A broker that takes tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "keys.json").write_bytes(key_set())
    config = folder / "broker.toml"
    config.write_text(
        f'[oauth2]\nresource_server_id = "{BROKER}"\nissuer = "{ISSUER}"\njwks_file = "{folder / "keys.json"}"\n'
    )
    with broker_process("--config", str(config)) as address:
        for name, *arguments in (("orders", "x-sequence=true"), ("full", "x-max-length=7", "x-overflow=block")):
            given = [word for argument in arguments for word in ("--argument", argument)]
            assert run_here("queues", "declare", name, *given, url=address.url()).code == 0
        yield address


def token(file: Path, seconds: float) -> None:
    """Write a token that holds for so long."""
    file.write_text(make_token(exp=time.time() + seconds))


def test_a_token_that_expires_amid_a_batch_ends_the_query_and_no_row_is_lost_or_twice(
    token_broker: BrokerAddress, tmp_path: Path
):
    file = tmp_path / "token"
    given = {
        "url": f"amqp://127.0.0.1:{token_broker.port}",
        "tokenFile": str(file),
        "address": "/queues/orders",
        "readers": "4",
    }
    options = SourceOptions.read(given | {"maxRowsPerTrigger": str(ROWS_OF_A_BATCH), "drainTimeout": "5s"})
    token(file, SHORT_S)
    fill(options.login, "/queues/orders")
    source = ParallelQueueSource(options)
    start = source.first()
    end = source.plan(start)
    tasks = source.tasks(start, end)
    assert read(options, tasks[:1]) == [0, 1], "a task is done while the token holds"
    with BlockingConnection.open(Url.parse(token_broker.url())) as connection:
        settle_down(BlockingManagement(connection), "/queues/orders", (ROWS, 0))
    with pytest.raises(NotLetIn):  # a task connects with the token of the file
        read(options, tasks[1:])
    token(file, HOUR_S)
    with pytest.raises(NoLongerHeld):
        read(options, tasks[1:])
    source.close()
    again = ParallelQueueSource(options)
    assert read(options, again.tasks(start, end)) == list(range(ROWS_OF_A_BATCH))
    again.close()
    assert everything(options, start) == list(range(ROWS))


def test_a_token_that_expires_while_a_sink_waits_ends_its_task(token_broker: BrokerAddress, tmp_path: Path):
    file = tmp_path / "token"
    token(file, SHORT_S)
    writer = RowWriter(
        SinkOptions.read(
            {"url": f"amqp://127.0.0.1:{token_broker.port}", "tokenFile": str(file), "address": "/queues/full"}
        )
    )
    with pytest.raises(ConnectionLost, match="credential expired"):
        writer.write(iter(pa.table({"body": [b"x"] * 1000}).to_batches()), partition=0, batch="query/0/0")


# --- an alarm --------------------------------------------------------------------------------------------------------


def test_in_an_alarm_a_sink_fails_with_the_reason_and_a_source_goes_on(
    broker_options: dict[str, str], declare: Callable[..., str]
):
    address = declare("outcomes-alarm", "x-sequence=true")
    sink = SinkOptions.read(broker_options | {"address": address, "confirmTimeout": "300ms"})
    source = SourceOptions.read(broker_options | {"address": address, "readers": "4"})
    fill(sink.login, address)
    rows = pa.table({"body": [b"%d" % row for row in range(ROWS, ROWS + 5)]}).to_batches()
    with sink.login.connect() as connection:
        management = BlockingManagement(connection)
        management.request("PUT", "/headgate/alarms/memory", None)
        try:
            with pytest.raises(TimedOut, match=r"query/1/0: .*; it makes this link wait: memory"):
                RowWriter(sink).write(iter(rows), partition=0, batch="query/1/0")
            assert everything(source, ParallelQueueSource(source).first()) == list(range(ROWS))
        finally:
            management.request("DELETE", "/headgate/alarms/memory", None)
    assert RowWriter(sink).write(iter(rows), partition=0, batch="query/1/0").rows == 5
    assert everything(source, ParallelQueueSource(source).first()) == list(range(ROWS, ROWS + 5))


# --- a driver that is stopped ----------------------------------------------------------------------------------------


def test_a_driver_that_is_stopped_amid_a_batch_gives_back_what_it_holds(
    broker_options: dict[str, str], declare: Callable[..., str]
):
    """Tasks that go on without it fail, and the query that is started again has every row once."""
    address = declare("outcomes-stopped", "x-sequence=true")
    given = {"address": address, "readers": "4", "maxRowsPerTrigger": str(ROWS_OF_A_BATCH)}
    options = SourceOptions.read(broker_options | given)
    fill(options.login, address)
    source = ParallelQueueSource(options)
    start = source.first()
    tasks = source.tasks(start, source.plan(start))
    source.close()
    with pytest.raises(NoLongerHeld):
        read(options, tasks)
    assert everything(options, start) == list(range(ROWS))


# --- a leader that moves ---------------------------------------------------------------------------------------------


def test_a_leader_that_moves_amid_a_batch_ends_the_query_and_the_next_node_has_every_row(tmp_path: Path):
    """The query is started again with the URL of the node that leads now, from the same checkpoint."""
    password = tmp_path / "password"
    password.write_text("guest")
    with cluster_nodes(groups=1) as nodes:
        arguments = ("--argument", "x-queue-type=quorum", "--argument", "x-sequence=true")
        nodes.command("a", "queues", "declare", "orders", *arguments)
        (row,) = json.loads(nodes.command("a", "queues", "leaders", "--json"))
        leader, group = row["leader"], row["group"]
        entry = next(name for name in NAMES if name != leader)

        def options(leader: str) -> SourceOptions:
            given: dict[str, Any] = {"user": "guest", "passwordFile": str(password), "address": "/queues/orders"}
            at = f"amqp://127.0.0.1:{nodes.address(leader).port}"
            return SourceOptions.read(
                given | {"url": at, "readers": "4", "maxRowsPerTrigger": str(ROWS_OF_A_BATCH), "drainTimeout": "20s"}
            )

        nodes.until(lambda: "orders" in nodes.command(leader, "queues", "list"), "the leader has the queue")
        before = options(leader)
        fill(before.login, "/queues/orders")
        source = ParallelQueueSource(before)
        start = source.first()
        end = source.plan(start)
        tasks = source.tasks(start, end)
        assert read(before, tasks[:1]) == [0, 1]
        nodes.command(leader, "drain")
        nodes.until(lambda: nodes.leaders(entry)[group] not in (None, leader), "another node leads")
        with pytest.raises(ClientError):
            read(before, tasks[1:])
        source.close()
        after = options(nodes.leaders(entry)[group] or "")
        again = ParallelQueueSource(after)
        assert read(after, again.tasks(start, end)) == list(range(ROWS_OF_A_BATCH))
        again.committed(end)
        again.close()
        assert everything(after, end) == list(range(ROWS_OF_A_BATCH, ROWS))
