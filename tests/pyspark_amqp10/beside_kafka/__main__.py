"""``python -m tests.pyspark_amqp10.beside_kafka``: the Spark connector beside Spark's Kafka connector, on this machine.

One Spark, with both connectors, and one node each of Headgate and Kafka, both with default settings. In each round the
same rows, kept in memory, are written to a new queue, a new stream and a new topic, and read from each with
Trigger.AvailableNow into the sink that drops them; the queue by as many readers as the topic has partitions. The order
of the three turns round each time. The first rounds warm Java up and do not count. Rows are *unlike* (a message-id and
three properties of their own; in Kafka a key and three headers) or *alike* (a body of 100 bytes, nothing else).

A rate is rows by the seconds of the whole write, or of the micro-batches with rows. Every run counts its rows and sums
up their values; one whose rows were lost, doubled or changed is void. CPU time is that of Spark with its Python
workers, and of the broker.

Kafka and its connector come by Maven the first time; Java 17 and the extra ``pipeline`` must be installed. Kafka
confirms rows that are in the memory of the operating system, and Headgate those that are on the disk.

For example:

    python -m tests.pyspark_amqp10.beside_kafka
    python -m tests.pyspark_amqp10.beside_kafka --rows 1000000 --tasks 1 --kind alike
    python -m tests.pyspark_amqp10.beside_kafka --goals --output result.json
    python -m tests.pyspark_amqp10.beside_kafka --system stream kafka --connector-version 4.3.0

Exit status: 0; 1 when a run is void; 2 when nothing could be measured; with --goals, 3 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from amqp10.cli.java import java_problem
from bench.broker import ROOT, SCRATCH, BrokerError, started
from bench.environment import observe
from tests.pyspark_amqp10.beside_kafka.figures import GOALS, PEER, Pass, missed, table, to_json
from tests.pyspark_amqp10.beside_kafka.kafka import CONNECTOR_JARS, class_path, kafka
from tests.pyspark_amqp10.beside_kafka.rows import KINDS

START = "{python} -m amqp10 serve --listen 127.0.0.1:{port} --data {data} --admin off"
SYSTEMS = (*GOALS, PEER)


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pyspark_amqp10.beside_kafka",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=400_000, help="of each pass (default: 400000)")
    parser.add_argument(
        "--batch", type=int, default=100_000, help="rows of a micro-batch at the most (default: 100000)"
    )
    parser.add_argument(
        "--tasks", type=int, default=2, help="that write, that read, and partitions of the topic (default: 2)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: 5)")
    parser.add_argument("--warm", type=int, default=2, help="rounds before them (default: 2)")
    parser.add_argument("--kind", nargs="+", choices=[one.name for one in KINDS], help="only these rows")
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="only these")
    parser.add_argument("--connector-version", metavar="VERSION", help="of Spark's Kafka connector (default: 4.2.0)")
    parser.add_argument("--goals", action="store_true", help="exit with 3 when a goal is missed")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write every run to it, as JSON")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = build_parser()
    given = parser.parse_args(words)
    if min(given.rows, given.batch, given.tasks, given.rounds) < 1 or given.warm < 0:
        parser.error("--rows, --batch, --tasks and --rounds must be 1 or more, --warm 0 or more")
    try:
        if (problem := java_problem(os.environ)) is not None:
            raise BrokerError(problem)
        passes, brokers = run(given)
    except (BrokerError, ImportError, OSError) as failure:
        print(f"nothing was measured: {failure}", file=sys.stderr)
        return 2
    print(table(passes))
    if given.output is not None:
        conditions: dict[str, object] = {
            name: getattr(given, name) for name in ("rows", "batch", "tasks", "rounds", "warm")
        }
        conditions |= {"brokers": brokers, "pyspark": version("pyspark")}
        result = to_json(passes, observe(SCRATCH).to_json(), conditions)
        given.output.write_text(json.dumps(result, indent=1) + "\n")
    if any(one.void for one in passes):
        return 1
    goals = missed(passes)
    for line in goals:
        print(f"goal missed: {line}")
    return 3 if goals and given.goals else 0


def run(given: argparse.Namespace) -> tuple[list[Pass], list[str]]:
    """Make all rounds; returns the passes that count, with all that are void, and the brokers' names. Raises
    BrokerError."""
    from pyspark_amqp10.login import PASSWORD_VARIABLE
    from tests.pyspark_amqp10.beside_kafka.measure import Runner, session
    from tests.pyspark_amqp10.beside_kafka.systems import Headgate, Kafka, System

    os.environ.setdefault(PASSWORD_VARIABLE, "guest")
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=str(ROOT))
    kinds = [one for one in KINDS if given.kind is None or one.name in given.kind]
    passes: list[Pass] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-"))
        jars = class_path("connector", artifacts=CONNECTOR_JARS, version=given.connector_version).replace(":", ",")
        brokers = {"headgate": stack.enter_context(started(START))}
        if PEER in given.system:
            brokers[PEER] = stack.enter_context(kafka())
        spark = stack.enter_context(session(folder, jars, given.tasks))
        systems: list[System] = [
            Kafka(brokers[PEER], spark, given.tasks)
            if name == PEER
            else Headgate(name, brokers["headgate"], spark, given.tasks)
            for name in given.system
        ]
        runner = Runner(
            spark,
            Path(folder),
            rows=given.rows,
            tasks=given.tasks,
            rows_max=given.batch,
            brokers=list(brokers.values()),
        )
        names = [one.name for one in brokers.values()]
        print(f"PySpark {version('pyspark')}; {', '.join(names)}", file=sys.stderr)
        for number in range(-given.warm, given.rounds):
            print(f"round {number + 1} of {given.rounds}" if number >= 0 else "warming up", file=sys.stderr, flush=True)
            for kind in kinds:
                for system in systems if number % 2 == 0 else reversed(systems):
                    made = runner.passes(system, kind, number)
                    passes += [one for one in made if number >= 0 or one.void]
                    for one in made:
                        print(
                            f"  {one.kind} {one.way} {one.system}: {one.rate:,.0f} rows/s {one.void}", file=sys.stderr
                        )
    order = [kind.name for kind in KINDS]
    return sorted(passes, key=lambda one: (order.index(one.kind), one.way, one.system)), names


if __name__ == "__main__":
    sys.exit(main())
