"""``headgate tap``: prints copies of the messages that pass an exchange or a queue, and takes none away.

A tap is an exclusive queue of the command's connection, bound to the exchange, or to all that the queue is bound to.
The broker knows nothing of taps: without one they cost nothing, and the rights are those of declaring, binding and
consuming. The queue has a length limit and drops its oldest messages, so a slow terminal holds no publisher up. A
stream needs no copies: it is read from its end on.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amqp10.addresses import AddressError, parse_source, queue_address, target_names
from amqp10.cli.consuming import print_deliveries
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import Row
from amqp10.cli.remote import ask, pages, row_of, with_connection
from core.definitions_file import Action, Step
from core.interface import Binding

if TYPE_CHECKING:
    from amqp10.blocking.connection import BlockingConnection
    from amqp10.blocking.requests import BlockingManagement

BINDINGS_MAX = 1000
"""Bindings of one tap: each is a request."""
LINK_CREDIT = 100
ASK_S = 1.0
"""How often the end of the time is looked at while no message comes."""
EVERYTHING: Mapping[str, str] = {"topic": "#", "fanout": "", "headers": ""}
"""The binding key, and no arguments, with which an exchange of a type passes everything on."""


def tap(
    address: str,
    *,
    key: tuple[str, ...],
    count: int | None,
    seconds: float | None,
    keep: int,
    json: bool,
    url: str,
) -> None:
    """Print copies until so many messages have come, the time is over, or the command is interrupted. Raises
    CommandError."""
    exchange, queue = _tapped(address)
    if queue is not None and key:
        raise CommandError(Exit.USAGE, "--key goes with an exchange; a queue has the keys of its bindings")
    end = None if seconds is None else time.monotonic() + seconds

    def tapped(connection: "BlockingConnection") -> None:
        from amqp10.blocking.requests import BlockingManagement

        broker = BlockingManagement(connection)
        source = _stream(broker, queue) or _copies(broker, exchange, queue, key, keep)
        _print(connection, source, count=count, end=end, as_json=json)

    with_connection(url, tapped, link=f"the link from the tap of {address}")


def _tapped(address: str) -> tuple[str | None, str | None]:
    """The exchange or the queue of an address. A name alone is that of a queue. Raises CommandError."""
    try:
        if not address.startswith("/exchanges/"):
            return None, parse_source(address) if address.startswith("/") else address
        exchange, key = target_names(address)
    except AddressError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if key:
        raise CommandError(Exit.USAGE, f"{address}: give the exchange alone, and --key {key}")
    return exchange, None


def _stream(broker: "BlockingManagement", queue: str | None) -> str | None:
    """The address of the queue, if it is a stream, which keeps what was read. Raises RequestRefused."""
    if queue is None:
        return None
    row = row_of(ask(broker, "rows.show", kind="queues", identity=queue))
    return queue_address(queue) if row.get("type") == "stream" else None


def _copies(
    broker: "BlockingManagement", exchange: str | None, queue: str | None, keys: tuple[str, ...], keep: int
) -> str:
    """Declare and bind the queue of the tap; returns its address. Raises CommandError."""
    from amqp10.cli.definition_requests import request_of

    name = f"headgate-tap-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    bindings = list(_bindings(broker, exchange, queue, keys, name))
    if not bindings:
        what = f"queue {queue}" if queue is not None else f"exchange {exchange}"
        direct = "messages that are published to the queue itself pass no exchange, and cannot be tapped"
        raise CommandError(
            Exit.REFUSED, f"{what} has no binding to copy" + (f": {direct}" if queue is not None else "; use --key")
        )
    if len(bindings) > BINDINGS_MAX:
        raise CommandError(Exit.REFUSED, f"{len(bindings)} bindings are too many for a tap; name some with --key")
    declared = {
        "durable": False,
        "exclusive": True,
        "auto_delete": True,
        "arguments": {"x-queue-type": "classic", "x-max-length": keep, "x-overflow": "drop-head"},
    }
    broker.request("PUT", queue_address(name), declared)
    for binding in bindings:
        broker.request(*request_of(Step(Action.DECLARE, binding)))
    if queue is not None:
        complain(f"only messages that come to queue {queue} through an exchange are copied")
    return queue_address(name)


def _bindings(
    broker: "BlockingManagement", exchange: str | None, queue: str | None, keys: tuple[str, ...], name: str
) -> Iterator[Binding]:
    """The bindings of the tap's queue: like those of the queue, or everything that the exchange passes on."""
    if queue is not None:
        yield from _like(broker, "destination", queue, name)
        return
    assert exchange is not None
    kind = str(row_of(ask(broker, "rows.show", kind="exchanges", identity=exchange)).get("type"))
    everything = (EVERYTHING[kind],) if kind in EVERYTHING else ()
    if keys or everything:
        for one in keys or everything:
            yield _binding(exchange, name, one, {})
        return
    yield from _like(broker, "source", exchange, name)


def _like(broker: "BlockingManagement", end: str, what: str, name: str) -> Iterator[Binding]:
    """Bindings like those of a queue or of an exchange, without repetition."""
    found: dict[tuple[str, str, str], Binding] = {}
    for row in pages(broker, "bindings"):
        if row.get(end) != what or not row.get("source") or (end == "destination" and not row["destination_is_queue"]):
            continue
        arguments = _arguments(row)
        source, key = str(row["source"]), str(row["binding_key"])
        found[source, key, repr(sorted(arguments.items()))] = _binding(source, name, key, arguments)
    yield from found.values()


def _arguments(row: Row) -> dict[str, object]:
    arguments = row.get("arguments")
    return dict(arguments) if isinstance(arguments, dict) else {}


def _binding(source: str, name: str, key: str, arguments: dict[str, object]) -> Binding:
    return Binding(source=source, destination=name, destination_is_queue=True, binding_key=key, arguments=arguments)


def _print(
    connection: "BlockingConnection", source: str, *, count: int | None, end: float | None, as_json: bool
) -> None:
    from amqp10.blocking.links import ReceivingLink

    link = ReceivingLink.open(connection, source)
    left = sys.maxsize if count is None else count
    link.stream(min(LINK_CREDIT, left), messages=left)
    while left > 0 and (end is None or time.monotonic() < end):
        wait = ASK_S if end is None else min(ASK_S, max(0.0, end - time.monotonic()))
        left -= print_deliveries(link, link.arrived(within_s=wait), as_json=as_json)
    link.sync()
    link.close()
