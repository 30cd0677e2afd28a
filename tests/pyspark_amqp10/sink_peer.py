"""``python -m tests.pyspark_amqp10.sink_peer --peer-url amqp://guest:guest@HOST:PORT``: the sink against RabbitMQ 4.

What must be so with any AMQP 1.0 broker that takes RabbitMQ's addresses: rows are accepted by a classic queue and by a
stream, they come out as they were, and what is not accepted is told with its row. Queues are made with pika.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pyarrow as pa
import pytest

from amqp10.blocking.links import ReceivingLink
from amqp10.client import Message
from amqp10.wire.types import ULong
from pyspark_amqp10.encoding import BATCH_ANNOTATION, ROW_ANNOTATION
from pyspark_amqp10.errors import ClientError, ConnectionLost, MessageRefused
from pyspark_amqp10.login import Login
from pyspark_amqp10.sink import RowWriter
from pyspark_amqp10.sink_options import SinkOptions

ROWS = 5000
ROOM = 7
WITHIN_S = 60.0
QUEUES: dict[str, dict[str, object]] = {
    "sink-classic": {},
    "sink-stream": {"x-queue-type": "stream"},
    "sink-full": {"x-max-length": ROOM, "x-overflow": "reject-publish"},
}


def run(url: str, folder: Path, say: Callable[[str], None]) -> None:
    """All of it. Raises AssertionError."""
    parts = urlsplit(url)
    assert parts.username is not None, "the URL needs a user"
    assert parts.password is not None, "the URL needs a password"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for name, arguments in QUEUES.items():
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments=arguments)
    connection.close()
    password_file = folder / "password"
    password_file.write_text(parts.password)
    options = {"url": f"amqp://{parts.hostname}:{parts.port or 5672}", "user": parts.username}
    options["passwordFile"] = str(password_file)

    def write(address: str, bodies: list[bytes]) -> int:
        writer = RowWriter(SinkOptions.read(options | {"address": address}))
        columns = {"body": bodies, "subject": ["numbers"] * len(bodies)}
        return writer.write(iter(pa.table(columns).to_batches()), partition=0, batch="query/1/0").rows

    for name in ("sink-classic", "sink-stream"):
        assert write(f"/queues/{name}", [b"%d" % row for row in range(ROWS)]) == ROWS
        say(f"{ROWS} rows accepted by {name}")
    login = Login.parse(options["url"], user=parts.username, password_file=str(password_file))
    with login.connect() as reading:
        link = ReceivingLink.open(reading, "/queues/sink-classic", settled=True)
        runs = link.fetch(2 * ROWS, within_s=WITHIN_S)
    messages = [Message.decode(entry) for run in runs for entry in run.entries]
    assert [message.body for message in messages] == [b"%d" % row for row in range(ROWS)]
    assert [message.annotations[ROW_ANNOTATION] for message in messages] == [ULong(row) for row in range(ROWS)]
    assert {message.annotations[BATCH_ANNOTATION] for message in messages} == {"query/1/0"}
    say(f"{ROWS} messages are as they were written")
    refused: list[tuple[str, type[ClientError], str]] = [
        ("/queues/sink-full", MessageRefused, f"row {ROOM}: /queues/sink-full rejected the message"),
        ("/exchanges/amq.direct/nobody", MessageRefused, "row 0: /exchanges/amq.direct/nobody released the message"),
        ("/queues/no-such-queue", ConnectionLost, "amqp:not-found"),
    ]
    for address, kind, said in refused:
        with pytest.raises(kind, match=re.escape(said)) as raised:
            write(address, [b"x"] * 1000)
        say(str(raised.value))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pyspark_amqp10.sink_peer", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--peer-url", required=True, help="the broker, amqp://USER:PASSWORD@HOST:PORT")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headgate-sink-peer-") as folder:
        try:
            run(given.peer_url, Path(folder), lambda text: print(text, flush=True))
        except (AssertionError, pytest.fail.Exception) as error:
            sys.exit(f"wrong: {error}")


if __name__ == "__main__":
    main()
