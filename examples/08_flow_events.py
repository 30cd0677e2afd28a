"""Prints flow events, one JSON object a line (docs/flow-events.md).

To run it, with a broker whose configuration says `enabled = true` under `[flow_events]`:

    python examples/08_flow_events.py
"""

import json
import os
import sys
from collections.abc import Iterator
from io import BytesIO

import cbor2
from proton import Described, Event, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, Filter

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
ADDRESS = "/queues/%24flow"
OFFSET_SPEC = symbol("rabbitmq:stream-offset-spec")
VERSION = 1


def records_of(packet: bytes) -> Iterator[dict[str, object]]:
    """The records of a message's body."""
    items = BytesIO(packet)
    header = cbor2.load(items)
    if header["headgate-flow"] != VERSION:
        sys.exit(f"this reads version {VERSION} of flow events, not {header['headgate-flow']}")
    for _ in range(header["records"]):
        yield cbor2.load(items)


class Tail(MessagingHandler):
    """Reads the stream from its first message on, until it is interrupted."""

    def on_start(self, event: Event) -> None:
        """Attach."""
        connection = event.container.connect(URL, reconnect=False)
        first = Filter({OFFSET_SPEC: Described(OFFSET_SPEC, "first")})
        event.container.create_receiver(connection, ADDRESS, options=first)

    def on_message(self, event: Event) -> None:
        """Print the records of a packet."""
        for record in records_of(event.message.body):
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    Container(Tail(prefetch=10)).run()
