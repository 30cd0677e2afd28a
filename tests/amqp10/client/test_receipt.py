"""A receipt: the outcomes of one post, awaited."""

import anyio

from amqp10.client import FateRange, Receipt
from amqp10.client_core.outcomes import Outcomes
from amqp10.wire.messaging import Accepted, Released


async def test_waiting_ends_with_the_last_fate(library):
    outcomes = Outcomes(5)
    receipt = Receipt(outcomes)
    outcomes.extend(2)
    outcomes.close()
    assert (len(receipt), receipt.first, receipt.end) == (2, 5, 7)
    times: list[float] = []

    async def wait() -> None:
        await receipt.fates()
        times.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await anyio.sleep(1)
        outcomes.note(6, 6, Accepted())
        await anyio.sleep(1)
        outcomes.note(0, 5, Released())
    assert times == [2, 2]
    assert await receipt.fates() == [FateRange(5, 5, Released()), FateRange(6, 6, Accepted())]
