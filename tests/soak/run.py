"""One soak: a broker process, all flows of the plan, and what was seen of it."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread

import trio

from amqp10.client import connect
from tests.kit.broker_process import READY, ROOT
from tests.soak import churn, flowing091, flowing10, watching
from tests.soak.plan import Flow, flows
from tests.soak.verdict import Sample

SAMPLE_S = 1.0
DRAIN_S = 30.0
"""When no more message has come for this long, the open numbers are lost."""
START_S = 30.0
STOP_S = 30.0
THREADS_MAX = 64
MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of the command line."""

    minutes: float = 60.0
    rate: float = 1.0
    """A factor on every flow's messages a second."""
    scrape_s: float = 5.0
    churn_pause_s: float = churn.PAUSE_S
    """Between two rounds of each activity that comes and goes, at rate 1."""
    half_open: bool = True
    """True when sockets that send half a header, or another protocol, come and go too."""
    flow_events: bool = False
    allocations: bool = False


@dataclass(slots=True)
class Seen:
    """The results of a soak."""

    flows: list[Flow]
    rounds: churn.Rounds = field(default_factory=churn.Rounds)
    scrapes: watching.Scrapes = field(default_factory=watching.Scrapes)
    samples: list[Sample] = field(default_factory=list)
    log: Counter[str] = field(default_factory=Counter)
    """How many lines the broker has logged, by level and event."""
    cpu: float = 0.0
    """The CPU seconds of the broker."""
    status: int | None = None
    """The exit status of the broker."""

    def total(self, what: str) -> int:
        """The sum of a counter over all flows."""
        return sum(getattr(flow.book, what) for flow in self.flows)


@dataclass(frozen=True, slots=True)
class Place:
    """The address and the process of the broker."""

    host: str
    port: int
    pid: int
    admin_url: str
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """The URL for the user guest."""
        return f"amqp://guest:guest@{self.host}:{self.port}"


@contextmanager
def broker(folder: Path, wanted: Wanted, seen: Seen) -> Iterator[Place]:
    """A broker process. Its log goes to a file beside the data folder, and is counted."""
    (folder / "broker.toml").write_text(
        '[admin]\nenabled = true\nlisten = ["127.0.0.1:0"]\n[log]\nform = "json"\n'
        f"[flow_events]\nenabled = {str(wanted.flow_events).lower()}\nstream_bytes_max = {16 * 2**20}\n"
    )
    program = "tests.soak.traced_broker" if wanted.allocations else "amqp10"
    options = ["--config", str(folder / "broker.toml"), "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    command = [sys.executable, "-m", program, "serve", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    places: list[str] = []
    listening = Event()

    def read_log() -> None:
        with (folder / "broker.log").open("w") as file:
            for line in process.stderr:
                file.write(line)
                if not line.startswith("{"):
                    continue
                facts = json.loads(line)
                seen.log[f"{facts['level']} {facts['event']}"] += 1
                if facts["event"] == "admin-listening":
                    places.extend(facts["addresses"] if isinstance(facts["addresses"], list) else [facts["addresses"]])
                    listening.set()

    reader = Thread(target=read_log, name="log")
    reader.start()
    try:
        ready = READY.search(process.stdout.readline())
        assert ready is not None and listening.wait(START_S), f"no start: see {folder / 'broker.log'}"  # noqa: PT018
        yield Place(ready["host"], int(ready["port"]), int(ready["pid"]), f"http://{places[0]}", process)
    finally:
        process.terminate()
        try:
            seen.status = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()


async def soak(
    folder: Path,
    wanted: Wanted,
    seen: Seen,
    progress: Callable[[float], None],
    beside: Callable[[Place], Awaitable[None]] | None = None,
) -> None:
    """Run a soak; all results go into ``seen``. Raises for every failure but lost messages.

    ``beside`` is run at the same time, and is cancelled when the load has ended.
    """
    with broker(folder, wanted, seen) as place:
        async with connect(place.url, flowing10.settings()) as asked:
            await _declare(asked, seen.flows)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_look, place, folder / "data", seen, progress)
                if beside is not None:
                    nursery.start_soon(beside, place)
                await _load(place, asked, wanted, seen)
                nursery.cancel_scope.cancel()
        seen.cpu = watching.cpu_seconds(place.pid)
    for flow in seen.flows:
        flow.book.close()


async def _load(place: Place, asked: flowing10.ClientConnection, wanted: Wanted, seen: Seen) -> None:
    """Run everything at once. Then stop the publishers and the churn, and let the consumers take what is left."""
    stop, empty = trio.Event(), Event()
    ended = Event()
    limit = trio.CapacityLimiter(THREADS_MAX)
    thread = partial(trio.to_thread.run_sync, limiter=limit)
    async with trio.open_nursery() as consuming:
        for flow in seen.flows:
            if flow.consumer == "amqp10":
                consuming.start_soon(flowing10.consume, place.url, flow, stop)
            else:
                consuming.start_soon(thread, flowing091.consume, place.host, place.port, flow, empty.is_set)
        try:
            async with trio.open_nursery() as others:
                for flow in seen.flows:
                    if flow.publisher == "amqp10":
                        others.start_soon(flowing10.publish, place.url, flow, wanted.rate, stop)
                    elif flow.publisher == "amqp091":
                        run = (flowing091.publish, place.host, place.port, flow, wanted.rate, ended.is_set)
                        others.start_soon(thread, *run)
                others.start_soon(_churn, place, asked, wanted, seen, stop)
                try:
                    await trio.sleep(wanted.minutes * MINUTE)
                finally:  # after a failure the threads must end too
                    stop.set()
                    ended.set()
            await flowing10.drained(seen.flows, DRAIN_S, partial(seen.total, "delivered"))
        finally:
            empty.set()  # threads end by themselves
        consuming.cancel_scope.cancel()


async def _churn(place: Place, asked: flowing10.ClientConnection, wanted: Wanted, seen: Seen, stop: trio.Event) -> None:
    """Run everything that comes and goes, and everything that watches, until the soak stops."""
    pause, repeat = wanted.churn_pause_s / wanted.rate, seen.rounds.repeat

    async def old_protocol(number: int) -> None:
        await trio.to_thread.run_sync(churn.come_and_go_091, place.host, place.port, number)

    async with trio.open_nursery() as nursery:
        start = nursery.start_soon
        start(repeat, "AMQP 1.0 connections", partial(churn.come_and_go, place.url), pause)
        start(repeat, "AMQP 0.9.1 connections", old_protocol, pause)
        if wanted.half_open:
            start(repeat, "half-open sockets", partial(churn.half_open, place.host, place.port), pause)
        start(repeat, "queues", partial(churn.declare_and_delete, asked), pause)
        start(repeat, "management requests", partial(churn.look_around, asked), 4 * pause)
        start(watching.scrape, place.admin_url, seen.scrapes, wanted.scrape_s)
        start(watching.follow, place.admin_url)
        await stop.wait()
        nursery.cancel_scope.cancel()


async def _declare(asked: flowing10.ClientConnection, all_flows: list[Flow]) -> None:
    for name in {flow.source for flow in all_flows if flow.source}:
        await churn.expect(asked, "PUT", f"/queues/{name}", {"durable": True})
    for flow in all_flows:
        await churn.expect(asked, "PUT", f"/queues/{flow.name}", {"durable": True, "arguments": dict(flow.arguments)})
        if flow.exchange:
            await churn.expect(asked, "PUT", f"/exchanges/{flow.exchange}", {"type": "topic", "durable": True})
            binding = {"source": flow.exchange, "destination_queue": flow.name, "binding_key": flow.name}
            await churn.expect(asked, "POST", "/bindings", binding | {"arguments": {}})


async def _look(place: Place, data: Path, seen: Seen, progress: Callable[[float], None]) -> None:
    """Take a sample each second, and report each minute."""
    began, minutes = trio.current_time(), 0
    while True:
        at = trio.current_time() - began
        seen.samples.append(watching.sample(place.pid, data, at))
        if at >= (minutes + 1) * MINUTE:
            minutes += 1
            seen.cpu = watching.cpu_seconds(place.pid)
            progress(at)
        await trio.sleep(SAMPLE_S)


def new_seen() -> Seen:
    """Results without any figures."""
    return Seen(flows())
