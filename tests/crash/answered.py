"""``python -m tests.crash.answered``: a broker is killed right after it has answered a purge or a delete.

For example:

    python -m tests.crash.answered --cycles 100

What was answered must not come undone: after the next start a purged queue is empty, and a deleted one that is declared
again is empty too.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import trio

from amqp10.client import ClientConnection, connect
from amqp10.messaging import Accepted
from tests.crash.cycle import CLIENT, Subject, broker, declare, encoded, read_all

PURGE, DELETE = "purge", "delete"
CASES = (
    ("classic", PURGE), ("lazy", PURGE), ("quorum", PURGE),
    ("classic", DELETE), ("lazy", DELETE), ("quorum", DELETE), ("stream", DELETE),
)  # fmt: skip
SHORT = (("classic", PURGE), ("quorum", PURGE), ("classic", DELETE))
"""For the test suite."""
MESSAGES = 50


async def run(cycles: int, folder: Path, cases: Sequence[tuple[str, str]] = CASES) -> Counter[str]:
    """So many rounds of these cases, each in a life of its own: how many messages came back, by case."""
    back: Counter[str] = Counter()
    for cycle in range(cycles):
        for kind, verb in cases:
            back[f"{verb} of {kind}"] += await _once(folder, kind, verb, f"{kind}-{verb}-{cycle}")
    return back


async def _once(folder: Path, kind: str, verb: str, name: str) -> int:
    arguments = ("--admin", "off")
    subject = Subject("classic" if kind == "lazy" else kind, name)
    async with broker(folder, *arguments) as (url, process):
        with trio.CancelScope() as scope:
            async with connect(url, CLIENT) as connection:
                await _declare(connection, subject, lazy=kind == "lazy")
                sender = await connection.open_sender(f"/queues/{name}")
                receipt = await sender.post([encoded(number) for number in range(MESSAGES)])
                await receipt.fates()
                assert all(isinstance(fate, Accepted) for _, _, fate in receipt.so_far())
                path = f"/queues/{name}/messages" if verb == PURGE else f"/queues/{name}"
                answer = await connection.request("DELETE", path, None)
                process.kill()
                assert answer.status == 200, answer
                scope.cancel()  # the dead say no good-bye
                await trio.lowlevel.checkpoint()
    async with broker(folder, *arguments) as (url, _), connect(url, CLIENT) as connection:
        await _declare(connection, subject, lazy=kind == "lazy")
        return len(await read_all(connection, subject, settle=False))


async def _declare(connection: ClientConnection, subject: Subject, *, lazy: bool) -> None:
    if not lazy:
        await declare(connection, subject)
        return
    body = {"durable": True, "arguments": {"x-queue-mode": "lazy"}}
    answer = await connection.request("PUT", f"/queues/{subject.name}", body)
    assert answer.status in (200, 201), answer


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.crash.answered"
    )
    parser.add_argument("--cycles", type=int, default=20, help="rounds of all cases (default 20)")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="headgate-answered-") as where:
        back = trio.run(run, arguments.cycles, Path(where) / "data")
    for case, messages in back.items():
        print(f"{case}: {arguments.cycles} kills, {messages} messages came back")
    if back.total():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
