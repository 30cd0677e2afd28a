"""``python -m tests.crash.answered``: a broker is killed right after it has answered purges and deletes.

For example:

    python -m tests.crash.answered --cycles 100

What was answered must not come undone: after the next start a purged queue is empty, and a deleted queue that is
declared again is empty, too. In each life every case has a queue of its own, and all requests are sent together. The
kill follows the first answer in one life, the second in the next, and so on. So the last answer belongs to one case now
and to another later. A start costs seconds of processor time, so the start that audits one life begins the next.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from amqp10.client import ClientConnection, connect
from amqp10.client_core.errors import ClientError
from amqp10.wire.messaging import Accepted
from tests.crash.cycle import CLIENT, Subject, broker, declare, encoded, read_all
from tests.kit.prepared_broker import PreparedBroker

PURGE, DELETE = "purge", "delete"
CASES = (
    ("classic", PURGE), ("lazy", PURGE), ("quorum", PURGE),
    ("classic", DELETE), ("lazy", DELETE), ("quorum", DELETE), ("stream", DELETE),
)  # fmt: skip
MESSAGES = 50
"""How many messages each queue has when it is purged or deleted."""
LIFE_MAX_S = 120
"""A life that takes longer hangs, however busy the machine is."""


@dataclass(slots=True)
class Figures:
    """The counts of a run, by case."""

    kills: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    """Requests whose answer the client has read."""
    back: Counter[str] = field(default_factory=Counter)
    """Messages that were found although the answer had come."""


async def run(cycles: int, folder: Path, say: Callable[[str], None] = lambda line: None) -> Figures:
    """Kill the broker this many times. Raises TooSlowError for a life that hangs."""
    figures = Figures()
    answered: list[tuple[str, str]] = []
    for cycle in range(cycles + 1):
        began = time.monotonic()
        with trio.fail_after(LIFE_MAX_S):
            async with broker(folder) as (url, process):
                async with connect(url, CLIENT) as connection:
                    for case in CASES:
                        found = await _audit(connection, case)
                        if case in answered:
                            figures.back[_name(case)] += found
                if cycle < cycles:
                    answered = await _answered_until_killed(url, process, 1 + cycle % len(CASES))
                    figures.kills += 1
                    figures.answered.update(map(_name, answered))
                    life = f"{len(answered)} answers, {time.monotonic() - began:.1f} s"
                    say(f"kill {cycle + 1} of {cycles}: {life}, {figures.back.total()} messages back so far")
    return figures


async def _audit(connection: ClientConnection, case: tuple[str, str]) -> int:
    """Count the messages in the queue of a case, and delete the queue."""
    await _declare(connection, case)
    found = await read_all(connection, _subject(case), settle=False)
    answer = await connection.request("DELETE", f"/queues/{_name(case)}", None)
    assert answer.status == 200, answer
    return len(found)


async def _answered_until_killed(url: str, process: PreparedBroker, last: int) -> list[tuple[str, str]]:
    """Fill the queues, purge or delete them, and kill the broker when it has given this many answers. Returns the cases
    that it has answered."""
    answered: list[tuple[str, str]] = []

    async def ask(connection: ClientConnection, case: tuple[str, str]) -> None:
        _, verb = case
        path = f"/queues/{_name(case)}/messages" if verb == PURGE else f"/queues/{_name(case)}"
        answer = await connection.request("DELETE", path, None)
        assert answer.status == 200, answer
        answered.append(case)
        if len(answered) == last:
            process.kill()

    try:
        async with connect(url, CLIENT) as connection:
            for case in CASES:
                await _fill(connection, case)
            async with trio.open_nursery() as nursery:
                for case in CASES:
                    nursery.start_soon(ask, connection, case)
    except* (ClientError, OSError):
        pass
    assert len(answered) >= last, f"{answered}: the broker went before it was killed"
    return answered


async def _fill(connection: ClientConnection, case: tuple[str, str]) -> None:
    await _declare(connection, case)
    sender = await connection.open_sender(f"/queues/{_name(case)}")
    receipt = await sender.post([encoded(number) for number in range(MESSAGES)])
    await receipt.fates()
    assert all(isinstance(fate, Accepted) for _, _, fate in receipt.so_far())


async def _declare(connection: ClientConnection, case: tuple[str, str]) -> None:
    kind, _ = case
    if kind != "lazy":
        await declare(connection, _subject(case))
        return
    body = {"durable": True, "arguments": {"x-queue-mode": "lazy"}}
    answer = await connection.request("PUT", f"/queues/{_name(case)}", body)
    assert answer.status in (200, 201), answer


def _name(case: tuple[str, str]) -> str:
    kind, verb = case
    return f"{verb}-{kind}"


def _subject(case: tuple[str, str]) -> Subject:
    kind, _ = case
    return Subject("classic" if kind == "lazy" else kind, _name(case))


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.crash.answered"
    )
    parser.add_argument("--cycles", type=int, default=14, help="how often to kill (default 14)")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="headgate-answered-") as where:
        folder = Path(where) / "data"
        figures = trio.run(run, arguments.cycles, folder, lambda line: print(line, flush=True))
    for name in map(_name, CASES):
        print(f"{name}: {figures.answered[name]} answered, {figures.back[name]} messages came back")
    if figures.back.total():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
