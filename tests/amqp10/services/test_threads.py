"""Handlers that are plain functions run in threads. These tests run on a real clock: while a thread works, a clock that
jumps would end every time-out."""

import threading

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from amqp10.services import Commands, Service, ServiceOptions, ServiceRequest
from tests.kit.both_libraries import LIBRARIES
from tests.kit.broker_process import broker_process

pytestmark = pytest.mark.slow
DEADLINE_S = 60
AT_ONCE = 3


@pytest.mark.parametrize("library", LIBRARIES)
def test_blocking_handlers_run_side_by_side_and_the_service_goes_on(library):
    """Each handler blocks until all run; a call to another command is answered meanwhile."""
    together = threading.Barrier(AT_ONCE + 1, timeout=DEADLINE_S)
    threads: set[int] = set()
    commands = Commands()

    @commands.command("block")
    def block(request: ServiceRequest) -> object:
        threads.add(threading.get_ident())
        together.wait()
        return request.body

    @commands.command("ask")
    def ask(request: ServiceRequest) -> object:
        return anyio.from_thread.run(request.service.call, "SHOP", "quick", request.body)

    commands.add("quick", lambda request: [request.body, threading.get_ident()], quick=True)

    async def main(url: str) -> None:
        options = ServiceOptions(threads_max=AT_ONCE)
        with anyio.fail_after(DEADLINE_S):
            async with Service.open(url, type="SHOP", host="host1", commands=commands, options=options) as shop:
                answers: list[object] = []

                async def call(number: int) -> None:
                    answers.append(await shop.call("SHOP", "block", number))

                async with anyio.create_task_group() as tasks:
                    for number in range(AT_ONCE):
                        tasks.start_soon(call, number)
                    here = threading.get_ident()
                    assert await shop.call("SHOP", "quick", "x") == ["x", here]
                    await anyio.to_thread.run_sync(together.wait)
                assert sorted(map(str, answers)) == ["0", "1", "2"]
                assert len(threads) == AT_ONCE
                assert here not in threads
                assert await shop.call("SHOP", "ask", "y") == ["y", here]

    with broker_process() as broker:
        anyio.run(main, broker.url(), backend=library)
