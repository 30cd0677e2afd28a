"""Opens a data folder of every kind twice, and returns what clients see in it.

The first broker is stopped in order, the second is killed. Between the two, an operator adopts what the folder has set
aside, and messages that could not be dead-lettered get a queue.
"""

import signal
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import trio

from amqp10.cli.exits import Exit
from amqp10.cli.main import run as headgate
from amqp10.client import connect
from tests.crash.cycle import CLIENT, broker
from tests.crash.every_kind.declared import DEAD_AT_LAST, LOST, NOWHERE
from tests.crash.every_kind.filled import DEAD_LETTERS, KEPT, end
from tests.crash.every_kind.look import Looker, Row, Seen, SeenMessage

ADMIN = ("--admin", "127.0.0.1:0")
SECONDS_MAX = 60.0
"""The longest time of a visit on a busy machine. It takes two seconds."""


async def visited(folder: Path, made: float) -> Seen:
    """Everything that is in a folder, which is changed by that. ``made``: when it was made, in seconds since the epoch.

    ``again`` is what the second broker shows and the first did not; a message that has been delivered is no news.
    """
    with trio.fail_after(SECONDS_MAX):
        async with broker(folder, *ADMIN) as (url, process), connect(url, CLIENT) as connection:
            looker = Looker(folder, url, made)
            await looker.until_ready(dict.fromkeys(("dead classic", "dead quorum", "dead stream"), DEAD_LETTERS))
            definitions, queues = await looker.definitions(), await looker.queues()
            messages = await looker.messages(connection)
            binding = {"source": NOWHERE, "destination_queue": DEAD_AT_LAST, "binding_key": "", "arguments": {}}
            assert (await connection.request("POST", "/bindings", binding)).status == 204
            await end(process, signal.SIGTERM)
        for name in LOST.values():
            adopt(folder, name)
        async with broker(folder, *ADMIN) as (url, _), connect(url, CLIENT) as connection:
            looker = Looker(folder, url, made)
            await looker.until_ready({DEAD_AT_LAST: KEPT})
            now = await looker.definitions()
            assert [row for row in definitions if row not in now] == []
            delivered = {name: _delivered(found, queues[name]) for name, found in messages.items()}
            again = {
                "definitions": [row for row in now if row not in definitions],
                "queues": _news(queues, await looker.queues()),
                "messages": _news(delivered, await looker.messages(connection)),
            }
            by_amqp091 = await looker.messages_of_amqp091()
    return {
        "definitions": definitions,
        "queues": queues,
        "messages": messages,
        "again": again,
        "messages of AMQP 0.9.1": by_amqp091,
    }


def _news(before: Mapping[str, object], after: Mapping[str, object]) -> Seen:
    """What is different after, or None for what is gone."""
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}


def _delivered(found: list[SeenMessage], queue: Row) -> list[SeenMessage]:
    """The same messages when they were delivered before. Streams do not know that."""
    if queue["type"] == "stream":
        return found
    headers = [message["header"] for message in found]
    kept = [{name: value for name, value in header.items() if name != "first_acquirer"} for header in headers]
    return [{**message, "header": header} for message, header in zip(found, kept, strict=True)]


def adopt(folder: Path, queue: str) -> None:
    """Define a queue again whose data was set aside, in this process, because a process takes long to start."""
    with redirect_stdout(StringIO()):
        assert headgate(["store", "adopt", queue, "--data", str(folder)]) is Exit.DONE
