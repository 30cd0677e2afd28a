"""``headgate services``: asks the hosts of services who they are, whether they are well, and what they have done.

The question is the one of :meth:`amqp10.services.service.Service.discover`. The answers come to a queue
that goes with the command, so the command declares no service and leaves nothing behind.
"""

import os
import time
from typing import TYPE_CHECKING

from amqp10.addresses import queue_address
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json, print_rows
from amqp10.cli.remote import with_connection

if TYPE_CHECKING:
    from amqp10.blocking.connection import BlockingConnection
    from amqp10.services.discovery import HostDescription

COLUMNS = ("type", "host", "up_s", "problem", "in_hand", "requests", "errors", "retried")
NOT_FOUND = "amqp:not-found"
QUEUE_EXPIRES_MS = 60_000
"""After how long without a consumer the queue for the answers is deleted, if the command ends before it consumes."""


def print_hosts(service: str | None, *, seconds: float, json: bool, url: str) -> None:
    """Print what answers within so many seconds. Raises CommandError."""
    from amqp10.services.errors import BadName
    from amqp10.services.naming import ServiceName, group_address

    if not seconds > 0:
        raise CommandError(Exit.USAGE, f"--seconds {seconds:g} leaves no time for answers; it must be above 0")
    try:
        address = group_address(None if service is None else ServiceName(service).type)
    except BadName as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    hosts = with_connection(url, lambda connection: _asked(connection, address, seconds), link="the link for answers")
    if json:
        from dataclasses import asdict

        print_json([asdict(host) for host in hosts])
        return
    if not hosts:
        print(f"No host of {'any service' if service is None else service} has answered within {seconds:g} s.")
        return
    print_rows([_row(host) for host in hosts], COLUMNS, as_json=False)


def _row(host: "HostDescription") -> dict[str, object]:
    sums = {
        name: sum(getattr(one, name) for one in host.commands.values()) for name in ("requests", "errors", "retried")
    }
    shown = {name: getattr(host, name) for name in ("type", "host", "problem", "in_hand")}
    return {**shown, "up_s": round(host.up_s), **sums}


def _asked(connection: "BlockingConnection", address: str, seconds: float) -> "list[HostDescription]":
    """The hosts that answer. There are none at a broker that has no exchange for services."""
    from amqp10.blocking.links import ReceivingLink, SendingLink
    from amqp10.blocking.requests import BlockingManagement
    from amqp10.client import Message
    from amqp10.client_core.errors import LinkRefused
    from amqp10.services.discovery import DESCRIBE, HOSTS_MAX, hosts_in
    from amqp10.services.envelope import IDENTITY_CHARACTERS, request_template

    answers = queue_address(f"headgate-services-{os.getpid()}-{time.monotonic_ns() % 10**6}")
    # not exclusive, because hosts send their answers over connections of their own
    declared = {"durable": False, "auto_delete": True, "arguments": {"x-expires": QUEUE_EXPIRES_MS}}
    BlockingManagement(connection).request("PUT", answers, declared)
    receiving = ReceivingLink.open(connection, answers, settled=True)
    receiving.stream(HOSTS_MAX, messages=HOSTS_MAX)
    try:
        sending = SendingLink.open(connection, address)
    except LinkRefused as error:
        if error.condition == NOT_FOUND:
            return []
        raise
    template = request_template(DESCRIBE, reply_to=answers, idempotent=True, durable=False, ttl_s=seconds)
    sending.send([template.encode(os.urandom(IDENTITY_CHARACTERS // 2).hex().encode(), b"")], within_s=seconds)
    bodies: list[object] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and len(bodies) < HOSTS_MAX:
        runs = receiving.arrived(within_s=left)
        bodies += [Message.decode(entry).body for run in runs for entry in run.entries]
    return hosts_in(bodies)
