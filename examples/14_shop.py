"""Tutorial 14: a service on asyncio whose bodies are dataclasses, with retries, a plain function and discovery.

To run it:

    python examples/14_shop.py
"""

import asyncio
import os
from dataclasses import dataclass

from amqp10.client import Backoff
from amqp10.services import Commands, RemoteError, Service, ServiceRequest

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")


@dataclass
class Order:
    article: str
    pieces: int = 1


@dataclass
class Receipt:
    article: str
    cents: int


commands = Commands()
attempts: list[str] = []


@commands.command("charge", retries=Backoff(first_s=0.1, attempts_max=3))
async def charge(request: ServiceRequest, order: Order) -> Receipt:
    """The bank answers only the second time. The body is an object, and so is the answer."""
    attempts.append(order.article)
    if len(attempts) == 1:
        raise ConnectionError("the bank does not answer")
    return Receipt(order.article, order.pieces * 250)


@commands.command("count")
def count(request: ServiceRequest) -> object:
    """A plain function runs in a thread: it may read a file or wait for a database."""
    return len(attempts)


@commands.check_health
def look() -> str | None:
    """Say what is wrong with this host, if anything is."""
    return None if attempts else "nothing was sold yet"


async def main() -> None:
    """Run the shop and its customer in one program."""
    async with (
        Service.open(URL, type="SHOP", host="host1", commands=commands),
        Service.open(URL, type="CUSTOMER", host="host1") as customer,
    ):
        for host in await customer.discover("SHOP", seconds=2):
            print(f"{host.type}.{host.host}: {host.problem}")
        receipt = await customer.call("SHOP", "charge", Order("tea", 2), answer=Receipt)
        print(f"paid {receipt.cents} cents for {receipt.article}")
        try:
            await customer.call("SHOP", "charge", {"pieces": 2})
        except RemoteError as error:
            print(f"refused: {error.condition}")
        print("attempts:", await customer.call("SHOP", "count"))
        for host in await customer.discover("SHOP", seconds=2):
            done = host.commands["charge"]
            print(f"{host.type}.{host.host}: healthy {host.healthy}, {done.requests} requests, {done.retried} retried")


if __name__ == "__main__":
    asyncio.run(main())
