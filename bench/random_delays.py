"""Clients whose bytes take random times, before a broker with adaptive flow control: `python -m bench.random_delays`.

Publishers and a consumer of one client library send through a proxy that reorders nothing but delays at random
(bench/delay_proxy.py), so grants, transfers and outcomes cross each other in ever new ways. For each seed of the delays
there is a run. It is sound when all messages came, once and in order, when no link or session was ended, and when the
ledger of link credit of each link adds up (`unbalanced` in its row).

Examples:
  python -m bench.random_delays
  python -m bench.random_delays --clients go-amqp --seeds 20 --seconds 10 --jitter 100
  python -m bench.random_delays --flow fixed --publishers 8

Exit status: 0 when all runs are sound; 1 when one is not; 2 when nothing could be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from amqp10.load.management import ManagementPair
from amqp10.load.plan import Application, Plan, PlannedTraffic, Shape
from amqp10.load.wire import WireError
from bench.broker import Broker, BrokerError, started
from bench.clients.programs import Client, ClientError, ToldPlan, command
from bench.distance import far
from bench.run import HEADGATE
from bench.trial import LoadProcess, TrialError, conduct, summarise

CLIENTS: tuple[Client, ...] = ("own", "proton", "rhea", "go-amqp")
ROUND_TRIP_MS = 1.0
MESSAGES_MAX = 20_000
"""Of a publisher, so that the consumer, which is as far, is done soon after it."""
LINK_CREDIT = 1000


def one_run(broker: Broker, client: Client, asked: argparse.Namespace, seed: int) -> tuple[int, list[str]]:
    """Run once. Returns the messages, and what is not sound."""
    shape: Shape = "bulk" if client == "own" else "unbatched"
    traffic = PlannedTraffic(seconds=asked.seconds, messages=MESSAGES_MAX, shape=shape)
    queue = f"delayed-{client}-{seed}"
    applications = [Application(publisher=number, publish_to=queue) for number in range(1, asked.publishers + 1)]
    applications.append(Application(consume_from=queue, link_credit=LINK_CREDIT))
    with ManagementPair(broker.url) as management:
        management.declare_queue(queue)
        try:
            with far(broker, ROUND_TRIP_MS, jitter=asked.jitter, seed=seed) as url, contextlib.ExitStack() as stack:
                plans = [Plan(url=url, traffic=traffic, applications=(one,)) for one in applications]
                processes = [
                    stack.enter_context(LoadProcess(ToldPlan(plan, client), command(client))) for plan in plans
                ]
                for process in processes:
                    process.expect("ready")
                outcome = conduct(processes)
                unbalanced = [str(row["identity"]) for row in management.rows("links") if row.get("unbalanced")]
        except TrialError as failure:
            return 0, [str(failure)]
        finally:
            management.delete_queue(queue)
    found = summarise(outcome, consumed=True, cpu_seconds=0.0, resident=0)
    return found.messages, [*([found.void] if found.void else []), *(f"{link} is unbalanced" for link in unbalanced)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.random_delays", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", nargs="+", default=CLIENTS, choices=CLIENTS, help="libraries (all four)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each client, each with other delays (5)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to publish (3)")
    parser.add_argument("--jitter", type=float, default=30.0, help="the longest delay, milliseconds (30)")
    parser.add_argument("--publishers", type=int, default=3, help="links that publish to the one queue (3)")
    parser.add_argument("--flow", choices=("fixed", "adaptive"), default="adaptive", help="flow control (adaptive)")
    parser.add_argument("--start", default=HEADGATE, help="how to start the broker; {python}, {port}, {data}")
    asked = parser.parse_args(arguments)
    for name in ("seeds", "seconds", "jitter", "publishers"):
        if getattr(asked, name) <= 0:
            parser.error(f"--{name} must be above 0, not {getattr(asked, name):g}")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all and print. Returns the exit status."""
    asked = parse(arguments)
    sound = 0
    try:
        with started(asked.start, configuration=f'[amqp10]\nflow = "{asked.flow}"\n') as broker:
            for client in asked.clients:
                for seed in range(asked.first, asked.first + asked.seeds):
                    messages, faults = one_run(broker, client, asked, seed)
                    sound += not faults
                    said = "; ".join(faults) or "sound"
                    print(f"{client:10}seed {seed:<6}{messages:>12,} messages  {said}", flush=True)
    except (BrokerError, ClientError, WireError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2
    runs = asked.seeds * len(asked.clients)
    print(f"{sound} of {runs} runs are sound")
    return 0 if sound == runs else 1


if __name__ == "__main__":
    sys.exit(main())
