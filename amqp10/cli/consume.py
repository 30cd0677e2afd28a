"""``headgate consume``: messages to the command line, each accepted once it is printed."""

import json as json_module
import sys
from math import inf
from typing import Annotated

from cyclopts import Parameter

from amqp10.addresses import AddressError, parse_source
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.client import ClientConnection, Delivery, Receiver, ReceiverOptions
from amqp10.client.receiver import AUTOMATIC_LINK_CREDIT
from amqp10.errors import DecodeError
from amqp10.wire.types import plain

BATCH_MESSAGES = 1000
"""Messages printed and accepted with one disposition."""
UINT_MAX = 0xFFFF_FFFF

AsJson = Annotated[
    bool, Parameter(name="--json", negative="", help="Print a JSON object a line: body, properties, annotations.")
]


def consume_command(
    address: str,
    /,
    *,
    count: Annotated[int | None, Parameter(help="End after so many messages.")] = None,
    link_credit: Annotated[
        int, Parameter(name="--credit", help="The most link credit to give.")
    ] = AUTOMATIC_LINK_CREDIT,
    drain: Annotated[bool, Parameter(negative="", help="End when nothing is left.")] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Receive messages, print each body as a line, and accept it.

    Without --count and --drain until interrupted. Never more messages are taken from the queue than are printed.

    For example:

        headgate consume /queues/orders
        headgate consume /queues/orders --count 10 --json
        headgate consume /queues/orders --drain > orders.txt
    """
    try:
        parse_source(address)
    except AddressError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if count is not None and count < 1:
        raise CommandError(Exit.USAGE, f"--count {count}: must be 1 or more")
    if not 1 <= link_credit <= UINT_MAX:
        raise CommandError(Exit.USAGE, f"--credit {link_credit}: must be 1 to {UINT_MAX}")

    async def consume(connection: ClientConnection) -> None:
        receiver = await connection.open_receiver(address, options=ReceiverOptions(automatic=False))
        if drain:
            await _drain(receiver, limit=count or inf, link_credit=link_credit, as_json=json)
        else:
            await _consume(receiver, limit=count or inf, link_credit=link_credit, as_json=json)
        await receiver.close()

    with_broker(url, consume)


async def _consume(receiver: Receiver, *, limit: float, link_credit: int, as_json: bool) -> None:
    """Give link credit for what is still wanted, half of it anew when half of it is used."""
    while limit > 0:
        wanted = int(min(link_credit, limit))
        if receiver.link_credit + receiver.waiting <= wanted // 2:
            receiver.grant(wanted - receiver.waiting)
        limit -= _print(receiver, await receiver.receive_batch(BATCH_MESSAGES), as_json=as_json)


async def _drain(receiver: Receiver, *, limit: float, link_credit: int, as_json: bool) -> None:
    """Ask for what is there, until the broker gives link credit back."""
    unused = 0
    while limit > 0 and not unused:
        receiver.grant(int(min(link_credit, limit)))
        unused = await receiver.drain()
        limit -= _print(receiver, receiver.receive_nowait(receiver.waiting), as_json=as_json)


def _print(receiver: Receiver, deliveries: list[Delivery], *, as_json: bool) -> int:
    """Print, and then accept: what could not be printed stays in the queue. Returns how many they are."""
    for delivery in deliveries:
        print(_line(delivery, as_json=as_json))
    sys.stdout.flush()
    if deliveries:
        receiver.accept(deliveries[0].number, deliveries[-1].number)
    return len(deliveries)


def _line(delivery: Delivery, *, as_json: bool) -> str:
    try:
        message = delivery.message
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
