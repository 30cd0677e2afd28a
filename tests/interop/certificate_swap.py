"""A certificate is replaced under live connections that publish: none is lost, and new ones get the new certificate.

    python -m tests.interop.certificate_swap --connections 1000

``tests/interop/test_tls.py`` does the same with a few connections.
"""

import argparse
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import trio

from amqp10 import client
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.remote import pages
from amqp10.client import Message, Url
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial

ADDRESS = "/queues/swap"
AT_ONCE = 20
"""How many connections open at the same time: fewer than keep each other from opening within its time."""
AFTER = 3
"""How many messages each connection sends once the new certificate is in use."""
SECONDS_MAX = 60.0


@dataclass(slots=True)
class Swapped:
    """What came of it."""

    accepted: int = 0
    lost: int = 0
    """Connections of the publishers that the broker had before the change and not behind it: a client of this project
    would connect again, so it does not tell. Other connections may end meanwhile, such as those of earlier tests."""
    before: int = 0
    """The serial number of the certificate that new connections got before."""
    after: int = 0
    others: int = 0
    """New connections, behind the change, that did not get the new certificate."""


def served(trial: Trial, port: int) -> int:
    """The serial number of the certificate that a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trial.context().wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        found = encrypted.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)


def encrypted_url(trial: Trial, broker: BrokerAddress, user: str) -> str:
    """The URL of the broker's port with TLS."""
    return f"amqps://{user}@localhost:{broker.tls_port}/?ca={trial.path('ca.pem')}"


async def swap(
    trial: Trial, broker: BrokerAddress, url: str, *, connections: int, tell: Callable[[str], None] = lambda text: None
) -> Swapped:
    """Publish over so many connections, replace the certificate, and publish on. A message that is not accepted raises
    an error."""
    done = Swapped(before=served(trial, broker.tls_port))
    opening = trio.CapacityLimiter(AT_ONCE)
    all_open, changed, all_gone_on, finished = (trio.Event() for _ in range(4))
    open_now = gone_on = 0
    publishers: set[str] = set()

    async def publisher() -> None:
        nonlocal open_now, gone_on
        async with AsyncExitStack() as stack:
            async with opening:
                connection = await stack.enter_async_context(client.connect(url))
            publishers.add(connection.container_id)
            sender = await connection.open_sender(ADDRESS)
            open_now += 1
            if open_now == connections:
                all_open.set()
            while not changed.is_set():
                await sender.send(Message(b"x"))
                done.accepted += 1
            for _ in range(AFTER):
                await sender.send(Message(b"x"))
                done.accepted += 1
            gone_on += 1
            if gone_on == connections:
                all_gone_on.set()
            await finished.wait()

    with trio.fail_after(SECONDS_MAX + connections / 10):
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(publisher)
            await all_open.wait()
            live = await trio.to_thread.run_sync(identities, url, publishers)
            assert len(live) == connections
            tell(f"{open_now} connections publish; now the certificate changes")
            done.after = trial.write_server().certificate.serial_number
            await trio.to_thread.run_sync(reload, url)
            changed.set()
            fresh = [await trio.to_thread.run_sync(served, trial, broker.tls_port) for _ in range(10)]
            done.others = sum(serial != done.after for serial in fresh)
            await all_gone_on.wait()
            done.lost = len(live - await trio.to_thread.run_sync(identities, url, publishers))
            finished.set()
    return done


def identities(url: str, containers: Collection[str]) -> set[str]:
    """The broker's names of the connections of these containers."""
    with BlockingConnection.open(Url.parse(url)) as connection:
        rows = pages(BlockingManagement(connection), "connections")
    return {str(row["identity"]) for row in rows if row.get("container_id") in containers}


def reload(url: str) -> None:
    """Have the broker read its files."""
    with BlockingConnection.open(Url.parse(url)) as connection:
        assert BlockingManagement(connection).request("PUT", "/headgate/tls").status < 300


def declare(url: str) -> None:
    """Make the queue; its oldest messages give way, so that the broker keeps few."""
    with BlockingConnection.open(Url.parse(url)) as connection:
        answer = BlockingManagement(connection).request("PUT", ADDRESS, {"arguments": {"x-max-length": 100}})
        assert answer.status in (200, 201)


def main() -> int:
    """Start a broker, and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    wanted = parser.parse_args().connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * wanted:
        parser.error(f"{wanted} connections need {2 * wanted} file descriptors, and this system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * wanted), hard))
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial.make(Path(folder))
        config = Path(trial.path("broker.toml"))
        config.write_text(
            f'[server]\ntls_listen = ["127.0.0.1:0"]\n[admin]\nenabled = false\n'
            f'[tls]\ncertificate = "{trial.path("server.pem")}"\nkey = "{trial.path("server.key")}"\n'
        )
        with broker_process("--config", str(config)) as broker:
            url = encrypted_url(trial, broker, "guest:guest")
            declare(url)
            began = time.monotonic()
            done = trio.run(lambda: swap(trial, broker, url, connections=wanted, tell=print))
            print(
                f"{wanted} connections, {done.accepted} messages accepted, {done.lost} connections lost, "
                f"{done.others} of 10 new connections without the new certificate, {time.monotonic() - began:.0f} s"
            )
    return int(bool(done.lost or done.others or done.before == done.after))


if __name__ == "__main__":
    sys.exit(main())
