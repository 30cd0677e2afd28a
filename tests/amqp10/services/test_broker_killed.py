"""The broker's process is killed with a thousand calls in flight, and started again on the same data."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest
import trio
from anyio.abc import ByteStream, TaskStatus

from amqp10.client import ClientSettings
from amqp10.services import (
    CallResult,
    CallTimedOut,
    Commands,
    CommandUncertain,
    Service,
    ServiceOptions,
    ServiceRequest,
)
from tests.crash.cycle import broker

pytestmark = pytest.mark.slow

URL = "amqp://guest:guest@broker"
CALLS = 1000
ANSWERED = 50
"""How many calls were made before, so that answers are on their way, too."""
TIME_OUT_S = 60.0
"""A time that no call needs. A call that is lost is found because it took this long."""
DEADLINE_S = 50.0
"""How long a test waits for a state, on a busy machine."""


@dataclass
class Broker:
    """A broker's data folder, its process and its address."""

    folder: Path
    port: int = 0
    killed: anyio.Event = field(default_factory=anyio.Event)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        if self.killed.is_set():
            await anyio.to_thread.run_sync(self._process.wait)  # until its end it holds the folder
        url, self._process = await self.stack.enter_async_context(broker(self.folder))
        self.port = urlsplit(url).port or 0

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self.killed.set()

    async def _reach(self, host: str, port: int) -> ByteStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    def options(self, **chosen: object) -> ServiceOptions:
        client = ClientSettings(open_stream=self._reach)
        return ServiceOptions(client=client, time_out_s=TIME_OUT_S, **chosen)  # type: ignore[arg-type]


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Broker]:
    """Run a broker for the block."""
    here = Broker(folder)
    async with here.stack:
        await here.start()
        yield here


class Held(Commands):
    """Commands that count their executions, and end when the test says so."""

    def __init__(self, executed: Counter[object], may_end: anyio.Event) -> None:
        super().__init__()
        self._executed = executed
        self._may_end = may_end
        self.in_hand = 0
        self.add("note", self._execute)
        self.add("safe", self._execute, idempotent=True)

    async def _execute(self, request: ServiceRequest) -> object:
        self._executed[request.body] += 1
        self.in_hand += 1
        await self._may_end.wait()
        self.in_hand -= 1
        return request.body


async def until(reached: Callable[[], bool]) -> None:
    """Check every 10 ms whether the condition holds."""
    with anyio.fail_after(DEADLINE_S):
        while not reached():  # noqa: ASYNC110 - the state is another process's
            await anyio.sleep(0.01)


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_with_one_host_every_call_ends_and_none_is_executed_twice(tmp_path):
    executed: Counter[object] = Counter()
    answers: list[CallResult] = []
    may_end = anyio.Event()
    before = living_tasks()
    async with started(tmp_path) as here:
        options = here.options(sole_host=True)
        repo = Held(executed, may_end)
        async with (
            Service.open(URL, type="REPO", host="host1", commands=repo, options=options),
            Service.open(URL, type="WEB", host="host1", options=options) as web,
        ):

            def keep(answer: CallResult) -> None:
                answers.append(answer)
                if len(answers) == ANSWERED:
                    here.kill()

            for number in range(CALLS + ANSWERED):
                host = "host1" if number % 3 == 0 else None
                web.call_back("REPO", "note", number, host=host, callback=keep)
            await until(lambda: repo.in_hand >= 200)
            may_end.set()
            await here.killed.wait()
            await here.start()
            await until(lambda: len(answers) == CALLS + ANSWERED)
    assert [answer.error for answer in answers if answer.error is not None] == []
    assert sorted(answer.body for answer in answers) == list(range(CALLS + ANSWERED))
    assert (len(executed), set(executed.values())) == (CALLS + ANSWERED, {1})
    assert living_tasks() == before


async def test_of_several_hosts_only_idempotent_calls_are_executed_again(tmp_path):
    """The broker and one of two hosts are killed. The other host gets all calls that come again."""
    executed: Counter[object] = Counter()
    answers: dict[int, CallResult] = {}
    never, may_end = anyio.Event(), anyio.Event()
    before = living_tasks()
    async with started(tmp_path) as here:
        options = here.options(type_requests_max=50)

        async def live(task_status: TaskStatus[anyio.CancelScope]) -> None:
            with anyio.CancelScope() as scope:
                async with Service.open(URL, type="REPO", host="host2", commands=dying, options=options):
                    task_status.started(scope)
                    await anyio.sleep_forever()

        staying, dying = Held(executed, may_end), Held(executed, never)
        async with (
            anyio.create_task_group() as tasks,
            Service.open(URL, type="REPO", host="host1", commands=staying, options=options),
            Service.open(URL, type="WEB", host="host1", options=options) as web,
        ):
            life = await tasks.start(live)
            for number in range(CALLS):
                command = "safe" if number % 2 else "note"
                web.call_back("REPO", command, number, callback=_keep(answers, number))
            await until(lambda: staying.in_hand == dying.in_hand == 50)
            in_hand = set(executed)
            life.cancel()
            here.kill()
            await here.start()
            may_end.set()
            await until(lambda: len(answers) == CALLS)
    notes = {number: answer for number, answer in answers.items() if number % 2 == 0}
    assert max(executed[number] for number in notes) == 1
    assert {type(answer.error) for answer in notes.values()} == {type(None), CommandUncertain}
    safe = {number: answer for number, answer in answers.items() if number % 2}
    assert [answer.get() for answer in safe.values()] == list(safe)
    assert any(executed[number] == 2 for number in safe if number in in_hand)
    assert living_tasks() == before


async def test_calls_end_in_time_when_the_broker_does_not_come_back(tmp_path):
    answers: list[CallResult] = []
    before = living_tasks()
    repo = Held(Counter(), anyio.Event())
    async with started(tmp_path) as here:
        options = here.options()
        async with (
            Service.open(URL, type="REPO", host="host1", commands=repo, options=options),
            Service.open(URL, type="WEB", host="host1", options=options) as web,
        ):
            for _ in range(CALLS):
                web.call_back("REPO", "note", callback=answers.append, time_out_s=1.5)
            await until(lambda: repo.in_hand > 0)
            here.kill()
            await until(lambda: len(answers) == CALLS)
            assert web.in_flight == 0
    assert any(isinstance(answer.error, CallTimedOut) for answer in answers)
    assert all(answer.error is not None for answer in answers)
    assert living_tasks() == before


def _keep(answers: dict[int, CallResult], number: int) -> Callable[[CallResult], None]:
    def keep(answer: CallResult) -> None:
        assert number not in answers
        answers[number] = answer

    return keep
