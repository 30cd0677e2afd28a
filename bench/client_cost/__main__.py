"""``python -m bench.client_cost``: the CPU time of clients for a message of 100 bytes, in turns against one broker.

A client in a process of its own sends messages one by one, each after the outcome of the last; then as many together,
waiting for 256 outcomes at once; then it receives and accepts all. The clients take turns, and each figure is the
median of the rounds. The broker has no part in the figures.

    python -m bench.client_cost --messages 2000 --rounds 5

Exit status: 0; 1 when a client fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence

from amqp10.client.scripts import connect
from bench.broker import started
from bench.client_cost.one_client import CLIENTS, QUEUE
from bench.clients.programs import GO_PROGRAM, Client, missing
from bench.run import HEADGATE

FIGURES = ("one by one", "together", "received")
SECONDS_MAX = 120
GO: Client = "go-amqp"


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args(words)
    if reason := missing(GO):
        print(f"left out: {reason}", file=sys.stderr)
    clients = [*CLIENTS] if reason else [*CLIENTS, GO]
    found: dict[str, list[dict[str, float | None]]] = {client: [] for client in clients}
    with started(HEADGATE) as broker, connect(broker.url) as management:
        for _ in range(asked.rounds):
            for client in clients:
                management.request("PUT", f"/queues/{QUEUE}", {})
                done = subprocess.run(command(client, broker.url, asked.messages), capture_output=True, text=True)
                management.request("DELETE", f"/queues/{QUEUE}")
                if done.returncode:
                    print(f"{client} has failed:\n{done.stderr}", file=sys.stderr)
                    return 1
                found[client].append(json.loads(done.stdout))
    print("\n".join(table(found)))
    return 0


def command(client: str, url: str, messages: int) -> list[str]:
    """What runs one client."""
    if client == GO:
        return [str(GO_PROGRAM), "cost", url, QUEUE, str(messages)]
    return [sys.executable, "-m", "bench.client_cost.one_client", client, url, str(messages)]


def table(found: dict[str, list[dict[str, float | None]]]) -> list[str]:
    """The medians as a table in Markdown, in microseconds."""
    lines = [f"| CPU µs a message | {' | '.join(FIGURES)} |", f"|---|{'---|' * len(FIGURES)}"]
    for client, rounds in found.items():
        cells = [median([one[figure] for one in rounds]) for figure in FIGURES]
        lines.append(f"| {client} | {' | '.join(cells)} |")
    return lines


def median(figures: list[float | None]) -> str:
    """The median as a text; a dash for what a client cannot do."""
    known = [one for one in figures if one is not None]
    return f"{statistics.median(known):.1f}" if known else "–"


if __name__ == "__main__":
    sys.exit(main())
