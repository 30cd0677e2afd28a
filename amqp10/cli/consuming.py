"""Prints the messages that ``headgate consume`` receives, and accepts each message after it is printed."""

import json as json_module
import sys

from amqp10.addresses import AddressError, parse_source
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import Deliveries, ReceivingLink
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.remote import with_connection
from amqp10.client_core.message import Message
from amqp10.errors import DecodeError
from amqp10.wire.types import plain

BATCH_MESSAGES = 1000
"""Messages printed and accepted with one disposition."""
UINT_MAX = 0xFFFF_FFFF
ENDLESS = sys.maxsize
WITHIN_S = 3600.0
"""A wait ends after so long, and begins again: a queue may stay empty for days."""


def consume(address: str, *, count: int | None, link_credit: int, drain: bool, json: bool, url: str) -> None:
    """Receive ``count`` messages, or all that are there with ``drain``, or else until interrupted.

    Raises CommandError.
    """
    try:
        parse_source(address)
    except AddressError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if count is not None and count < 1:
        raise CommandError(Exit.USAGE, f"--count {count}: must be 1 or more")
    if not 1 <= link_credit <= UINT_MAX:
        raise CommandError(Exit.USAGE, f"--credit {link_credit}: must be 1 to {UINT_MAX}")

    def received(connection: BlockingConnection) -> None:
        link = ReceivingLink.open(connection, address)
        take = _drain if drain else _consume
        take(link, limit=count or ENDLESS, link_credit=link_credit, as_json=json)
        link.sync()
        link.close()

    with_connection(url, received, link=f"the link from {address}")


def _consume(link: ReceivingLink, *, limit: int, link_credit: int, as_json: bool) -> None:
    """Give link credit for the messages that are still wanted, and give it again when half of it is used."""
    link.stream(link_credit, messages=limit)
    while limit > 0:
        limit -= print_deliveries(link, link.arrived(within_s=WITHIN_S), as_json=as_json)


def _drain(link: ReceivingLink, *, limit: int, link_credit: int, as_json: bool) -> None:
    """Ask for the messages that are there, until the broker gives link credit back."""
    while limit > 0:
        wanted = min(link_credit, limit, BATCH_MESSAGES)  # all of them are in memory at once
        printed = print_deliveries(link, link.fetch(wanted, within_s=WITHIN_S), as_json=as_json)
        if printed < wanted:
            return
        limit -= printed


def print_deliveries(link: ReceivingLink, runs: list[Deliveries], *, as_json: bool) -> int:
    """Print, and then accept: a message that could not be printed stays in the queue. Returns how many they are."""
    for run in runs:
        for at in range(0, len(run.entries), BATCH_MESSAGES):
            entries = run.entries[at : at + BATCH_MESSAGES]
            for entry in entries:
                print(_line(entry, as_json=as_json))
            sys.stdout.flush()
            if not run.settled:
                link.settle(run.first + at, run.first + at + len(entries) - 1)
    return sum(len(run.entries) for run in runs)


def _line(encoded: bytes, *, as_json: bool) -> str:
    try:
        message = Message.decode(encoded)
    except DecodeError as error:
        return json_module.dumps({"fault": str(error)}) if as_json else f"(a message that does not decode: {error})"
    if not as_json:
        return _text(message.body)
    shown: dict[str, object] = {"body": plain(message.body)}
    if message.properties is not None:
        fields = {name: getattr(message.properties, name) for name in message.properties.__slots__}
        shown["properties"] = {name: plain(value) for name, value in fields.items() if value is not None}
    for name in ("application_properties", "annotations"):
        if values := getattr(message, name):
            shown[name] = plain(dict(values))
    return json_module.dumps(shown, default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
