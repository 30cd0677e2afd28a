"""The broker of a comparison, one of ours for each sync delay or a running one; and the command line."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from amqp10.load.plan import Protocol
from bench.broker import SCRATCH, Broker, connect, started
from bench.together.job import Client

START = "{python} -m amqp10 serve --listen 127.0.0.1:{port} --data {data} --admin off"
SYNC_DELAYS_MS = (0.0, 5.0, 20.0)
CLIENT_SPEAKS: dict[Client, tuple[Protocol, ...]] = {"own": ("0.9.1", "1.0"), "pika": ("0.9.1",), "proton": ("1.0",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of both commands."""

    url: str | None
    pid: int | None
    start: str
    sync_delays_ms: tuple[float, ...]
    seconds: float
    runs: int
    client: Client
    output: Path | None
    page: Path | None
    goals: bool

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        return CLIENT_SPEAKS[self.client]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The arguments that `options_of` reads."""
    parser.add_argument("--url", help="a broker that runs already; default: Headgate is started from this tree")
    parser.add_argument("--pid", type=int, help="its process; found by its port if we may look")
    parser.add_argument("--start", default=START, help="how to start the broker; {python}, {port}, {data}")
    parser.add_argument(
        "--sync-delay", type=float, nargs="+", metavar="MS", default=None,
        help="how many milliseconds longer each sync of the disk takes, one round each (0 5 20); not with --url",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run (10)")
    parser.add_argument("--runs", type=int, default=1, help="of each kind; figures are medians (1)")
    parser.add_argument(
        "--client", choices=get_args(Client), default="own",
        help="pika (AMQP 0.9.1 only) or proton (1.0 only) as a cross-check at their own speed (own: both protocols)",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="the result file (bench/results/ with time and commit)")
    parser.add_argument("--page", type=Path, help="the page with the rates over time (beside the result file)")
    parser.add_argument("--goals", action="store_true", help="exit with 3 when a goal is missed")


def options_of(parser: argparse.ArgumentParser, found: argparse.Namespace) -> Options:
    """Check the arguments and return the options; ends the process with a message when they contradict each other."""
    if found.url and found.sync_delay:
        parser.error("--sync-delay is a setting of a broker that is started here; slow the one at --url yourself")
    if found.seconds <= 0 or found.runs < 1 or any(delay < 0 for delay in found.sync_delay or ()):
        parser.error("--seconds must be above 0, --runs at least 1, --sync-delay not negative")
    return Options(
        url=found.url,
        pid=found.pid,
        start=found.start,
        sync_delays_ms=(0.0,) if found.url else tuple(found.sync_delay or SYNC_DELAYS_MS),
        seconds=found.seconds,
        runs=found.runs,
        client=cast("Client", found.client),
        output=found.output,
        page=found.page,
        goals=found.goals,
    )


@contextlib.contextmanager
def broker_for(options: Options, sync_delay_ms: float) -> Iterator[Broker]:
    """Yield the broker at the URL, or a fresh one whose syncs take that much longer."""
    if options.url is not None:
        yield connect(options.url, options.pid)
        return
    with contextlib.ExitStack() as stack:
        command = options.start
        if sync_delay_ms:
            SCRATCH.mkdir(exist_ok=True)
            file = SCRATCH / f"sync-delay-{sync_delay_ms:g}-ms.toml"
            file.write_text(f"[store]\nsync_delay = {sync_delay_ms / 1000}\n")
            stack.callback(file.unlink, missing_ok=True)
            command += f" --config {file}"
        yield stack.enter_context(started(command))
