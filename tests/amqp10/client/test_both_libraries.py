"""The tests' own ground: each runs under the library that its parameter names, on a clock that jumps."""

import time

import anyio
import anyio.lowlevel
import sniffio

from tests.kit.both_libraries import settle


async def test_the_library_is_the_one_that_is_named(library):
    assert sniffio.current_async_library() == library


async def test_hours_pass_at_once_and_exactly(library):
    began, really = anyio.current_time(), time.monotonic()
    await anyio.sleep(7200)
    assert anyio.current_time() - began == 7200
    assert time.monotonic() - really < 60


async def test_no_time_passes_while_all_is_quiet(library):
    steps: list[int] = []

    async def walk() -> None:
        for number in range(50):
            await anyio.lowlevel.checkpoint()
            steps.append(number)
        await anyio.sleep(1)
        steps.append(-1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(walk)
        await settle()
        assert (steps, anyio.current_time()) == (list(range(50)), 0.0)
    assert steps[-1] == -1
