"""A broker process with its admin server on, and clients that make one of everything that the console shows.

:func:`busy_broker` yields when the following is there:

- ``shop`` publishes to ``orders``, which is full and blocks: its link waits for ``queue-full``;
- ``till`` publishes to ``payments`` 50 messages a second, and ``ledger`` takes them;
- ``mailer`` consumes ``mails`` and has granted no link credit: its link waits for ``link-credit``;
- a queue whose name is HTML with a script in it;
- a stream without publishers and consumers, and a policy.

The clients run in a thread of their own, with an event loop of their own, so that tests may block.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import trio

from amqp10.addresses import percent_encode
from amqp10.client import ClientConnection, ClientSettings, Message, Receiver, ReceiverOptions, Sender, connect
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from tests.kit.broker_process import READY, STOP_SECONDS
from tests.kit.prepared_broker import PreparedBroker

HTML_NAME = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
"""The name of a queue. The script in it runs if a page ever takes the name for HTML."""

TOKEN = "a-token-for-the-console"
ORDERS_MAX = 20
PAYMENTS_PER_SECOND = 50


@dataclass(frozen=True, slots=True)
class BusyBroker:
    """The addresses of the broker, and what a test may do to its clients."""

    amqp_url: str
    admin_url: str
    token: str | None
    _loop: trio.lowlevel.TrioToken
    _free_orders: Callable[[], None]

    def free_orders(self) -> None:
        """Consume the orders from now on, so that ``shop`` can go on."""
        trio.from_thread.run_sync(self._free_orders, trio_token=self._loop)


@contextmanager
def busy_broker(folder: Path, *, token: str | None = None) -> Iterator[BusyBroker]:
    """The broker and its clients, until the block ends."""
    with broker_with_console(folder, token=token) as (amqp_url, admin_url):
        clients = _Clients(amqp_url)
        thread = Thread(target=trio.run, args=[clients.run], name="clients")
        thread.start()
        try:
            assert clients.ready.wait(STOP_SECONDS), "the clients did not come to rest"
            assert clients.loop is not None
            yield BusyBroker(amqp_url, admin_url, token, clients.loop, clients.orders_taken.set)
        finally:
            clients.stop()
            thread.join()


@contextmanager
def broker_with_console(
    folder: Path, *, token: str | None = None, users_only: bool = False, more: str = ""
) -> Iterator[tuple[str, str]]:
    """A broker process without clients: its URL for AMQP, and that of its console. ``more`` are further settings, from
    a new section on."""
    config = f'[admin]\nenabled = true\nlisten = ["127.0.0.1:0"]\nusers_only = {json.dumps(users_only)}\n'
    if token is not None:
        (folder / "token").write_text(token)
        config += f"token_file = {json.dumps(str(folder / 'token'))}\n"
    (folder / "broker.toml").write_text(config + more)
    options = ["--config", str(folder / "broker.toml"), "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    process = PreparedBroker("serve", *options)
    try:
        line = process.stdout.readline()
        ready, console = READY.search(line), re.search(r"console at (http://[^\s,]+)/", line)
        assert ready is not None, f"the broker said {line!r}"
        assert console is not None, f"the broker said {line!r}"
        yield f"amqp://guest:guest@{ready['host']}:{ready['port']}", console[1]
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
        process.stdout.close()


class _Clients:
    """The four clients and what they do."""

    def __init__(self, url: str) -> None:
        self.ready = Event()
        self.loop: trio.lowlevel.TrioToken | None = None
        self.orders_taken = trio.Event()
        self._url = url
        self._scope = trio.CancelScope()

    def stop(self) -> None:
        """End all clients. Called from another thread."""
        if self.loop is not None:
            self.loop.run_sync_soon(self._scope.cancel)

    async def run(self) -> None:
        """Run the clients until :meth:`stop` is called."""
        self.loop = trio.lowlevel.current_trio_token()
        with self._scope:
            async with (
                self._client("shop") as shop,
                self._client("till") as till,
                self._client("ledger") as ledger,
                self._client("mailer") as mailer,
                trio.open_nursery() as nursery,
            ):
                await _declare(shop)
                orders = await shop.open_sender("/queues/orders", name="orders-out")
                mails = await mailer.open_sender("/queues/mails", name="mails-out")
                await mails.send_many([Message(f"mail {number}") for number in range(3)])
                await mails.close()
                by_hand = ReceiverOptions(automatic=False)
                await mailer.open_receiver("/queues/mails", name="mails-in", options=by_hand)
                payments = await till.open_sender("/queues/payments", name="payments-out")
                booked = await ledger.open_receiver("/queues/payments", name="payments-in")
                nursery.start_soon(_publish_too_much, orders)
                nursery.start_soon(_publish_steadily, payments)
                nursery.start_soon(_take, booked)
                nursery.start_soon(self._free_orders, ledger)
                await _until_stalled(shop, "queue-full", "link-credit")
                self.ready.set()

    def _client(self, name: str):
        return connect(self._url, ClientSettings(container_id=name, reconnect=None))

    async def _free_orders(self, connection: ClientConnection) -> None:
        await self.orders_taken.wait()
        await _take(await connection.open_receiver("/queues/orders", name="orders-in"))


async def _declare(connection: ClientConnection) -> None:
    bounded = {"x-max-length": ORDERS_MAX, "x-overflow": "block"}
    queues = {"orders": bounded, "payments": {}, "mails": {}, "audit": {"x-queue-type": "stream"}, HTML_NAME: {}}
    for name, arguments in queues.items():
        body = {"durable": True, "exclusive": False, "auto_delete": False, "arguments": arguments}
        await connection.request("PUT", f"/queues/{percent_encode(name)}", body)
    policy = {"pattern": "^mails$", "priority": 1, "apply_to": "queues", "definition": {"max-length": 1000}}
    await connection.request("PUT", "/headgate/policies/mail-limit", policy)


async def _until_stalled(connection: ClientConnection, *reasons: str) -> None:
    """Wait until the broker shows stalls for exactly these reasons."""
    found: set[object] = set()
    while found != set(reasons):
        answer = (await connection.request("GET", "/headgate/stalls")).body
        assert isinstance(answer, dict)
        found = {row["reason"] for row in answer["items"]}


async def _publish_too_much(sender: Sender) -> None:
    number = 0
    while True:
        assert isinstance(await sender.send(Message(f"order {number}")), Accepted)
        number += 1


async def _publish_steadily(sender: Sender) -> None:
    while True:
        await sender.send(Message("payment", header=Header(durable=True)))
        await trio.sleep(1 / PAYMENTS_PER_SECOND)


async def _take(receiver: Receiver) -> None:
    async for delivery in receiver:
        delivery.accept()
