"""Tutorial 12: services of three types that call each other, each on one connection, with the messaging kit.

To run it:

    python examples/12_services.py
"""

import os
from contextlib import AsyncExitStack
from functools import partial

import trio

from amqp10.services import CallTimedOut, Commands, HostRing, RemoteError, Service, ServiceRequest, Unroutable

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
HOSTS = ("host1", "host2")

repo, ctrl, web = Commands(), Commands(), Commands()


@repo.command("load", idempotent=True, quick=True)
def load(request: ServiceRequest) -> object:
    """A command that is executed at once; its result is the answer."""
    if request.body == "nothing":
        raise RemoteError("repo:not-found", "there is no 'nothing'")
    return f"{request.body} of {request.service.place}"


@ctrl.command("show", idempotent=True)
async def show(request: ServiceRequest) -> object:
    """A command that calls another service before it answers. Its caller waits meanwhile, and no thread does."""
    loaded = await request.service.call("REPO", "load", request.body, host="host2")
    return f"{loaded}, shown by {request.service.place}"


@ctrl.command("sleep")
async def sleep(request: ServiceRequest) -> None:
    """A command that never answers."""
    await trio.sleep_forever()


def note(request: ServiceRequest, notes: trio.MemorySendChannel[str]) -> None:
    """Remember which host was told."""
    notes.send_nowait(str(request.service.place))


async def call(caller: Service) -> None:
    """Call the host with the fewest calls, one host by name, through a chain, with errors, and without waiting."""
    for _ in range(2):
        print("any free host:", await caller.call("REPO", "load", "a page"))
    print("one host:", await caller.call("REPO", "load", "the cover", host="host2"))
    print("a chain:", await caller.call("CTRL", "show", "the cover", host="host1"))
    host = HostRing(HOSTS).host_of("customer-4711")
    print("the host of customer-4711:", await caller.call("REPO", "load", "customer-4711", host=host))

    for target, command, body in (("REPO", "load", "nothing"), ("CTRL", "sleep", ""), ("MAIL", "send", "")):
        try:
            await caller.call(target, command, body, time_out_s=0.2)
        except (RemoteError, CallTimedOut, Unroutable) as error:
            print(f"{target} {command}: {type(error).__name__}: {error}")

    answered = trio.Event()
    caller.call_back("REPO", "load", "news", host="host1", callback=lambda answer: print_answer(answer.get(), answered))
    print("asked for news")
    await answered.wait()


def print_answer(answer: object, answered: trio.Event) -> None:
    """Print the answer of a call that did not wait."""
    print("then:", answer)
    answered.set()


async def tell(caller: Service, notes: trio.MemoryReceiveChannel[str]) -> None:
    """Send messages without answers: to one host, to all hosts of a type, to all services."""
    await caller.cast("CTRL", "note", host="host1")
    print("cast:", await notes.receive())
    await caller.multicast("CTRL", "note")
    print("multicast:", *sorted([await notes.receive() for _ in range(2)]))
    await caller.broadcast("note")
    print("broadcast:", *sorted([await notes.receive() for _ in range(6)]))


async def main() -> None:
    """Run six services in one program: three types on two hosts."""
    noted, notes = trio.open_memory_channel[str](20)
    for commands in (web, ctrl, repo):
        commands.add("note", partial(note, notes=noted), quick=True)
    async with AsyncExitStack() as running:
        services = [
            await running.enter_async_context(Service.open(URL, type=of_type, host=host, commands=commands))
            for of_type, commands in (("WEB", web), ("CTRL", ctrl), ("REPO", repo))
            for host in HOSTS
        ]
        await call(services[0])
        await tell(services[0], notes)


if __name__ == "__main__":
    trio.run(main)
