"""The command of the pipeline: ``python -m pipeline run|watch|report|generate|archive|replay``.

Each command imports what it needs when it runs: ``report`` and ``generate`` start no Spark.

Exit status: 0; 1 when the command failed; 2 when its arguments make no sense; 3 when ``report --limit`` found more than
the limit; 130 when it was interrupted.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.generate.workloads import NAMES

FAILED, USAGE, LIMIT_PASSED, INTERRUPTED = 1, 2, 3, 130
WORKER_LATE = "Python worker failed to connect back"
"""Spark's message when a Python worker did not connect within 10 s, a time that no setting changes."""
STALL_AFTER_SECONDS = 5.0
"""Publishers that wait for a sync or a consumer wait for less than this."""

RUN_EXAMPLES = """for example:

    python -m pipeline run --url amqp://guest@127.0.0.1:5672 --password-file guest.password --warehouse flow

    python -m pipeline run --events events --warehouse flow --bench bench/results
"""
WATCH_EXAMPLES = """for example:

    python -m pipeline watch --url amqp://guest@127.0.0.1:5672 --checkpoint flow-watch --alerts /queues/flow-alerts

    spark-submit --master 'local[2]' pipeline/__main__.py watch --url amqp://guest@127.0.0.1:5672 \\
        --checkpoint flow-watch
"""
GENERATE_EXAMPLES = """for example:

    python -m pipeline generate --workload queue --events 100000 --out events

    python -m pipeline generate --workload links --events 100000000 --connections 1000 --out events

The workloads:

""" + "\n".join(f"    {name:10}{what}" for name, what in NAMES.items())
REPORT_EXAMPLES = """for example:

    python -m pipeline report --warehouse flow --out report.html

    python -m pipeline report --warehouse flow --first-day 2026-11-20 --limit 0.2 --prometheus flow.prom
"""
ARCHIVE_EXAMPLES = """for example:

    python -m pipeline archive --url amqp://guest@127.0.0.1:5672 --address /queues/orders --warehouse audit

    python -m pipeline archive --url amqp://guest@127.0.0.1:5672 --address /queues/log --stream --warehouse audit
"""
REPLAY_EXAMPLES = """for example:

    python -m pipeline replay --url amqp://guest@127.0.0.1:5672 --warehouse audit --address /queues/orders \\
        --first-day 2026-11-20 --last-day 2026-11-22 --to /queues/orders-again
"""


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run; returns the exit status."""
    found = build_parser().parse_args(words)
    command: Callable[[argparse.Namespace], int] = found.command
    try:
        return command(found)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        if (known := words_for(problem)) is None:
            raise
        print(f"pipeline: {known}", file=sys.stderr)
        return FAILED


def words_for(problem: Exception) -> str | None:
    """The message for the user about an error; None for a bug of ours, which keeps its traceback.

    Spark wraps a Python error in a text of many lines, with the error's own among the last; errors that are meant for
    users are recognised by their names.
    """
    from pipeline.generate.files import NotGenerated
    from pipeline.jobs.contents import OtherWarehouse
    from pipeline.report.figures import NoTables

    if isinstance(problem, (NotGenerated, NoTables, OtherWarehouse)):
        return str(problem)
    if "pyspark" not in sys.modules:  # the other errors come of what imports Spark
        return None
    from pipeline.jobs.sources import NoSource
    from pyspark_amqp10.errors import ClientError

    if isinstance(problem, (NoSource, ClientError)):
        return str(problem)
    if WORKER_LATE in str(problem):
        return "Spark's Python worker did not start within 10 s: the machine is too busy. Run it again: it goes on"
    names = "|".join(one.__name__ for one in ClientError.__subclasses__())
    inside = re.findall(rf"\.errors\.(?:{names}): (.+)", str(problem))
    return inside[-1] if inside else None


def build_parser() -> argparse.ArgumentParser:
    """Make the parser with all commands and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline",
        description="From flow events to tables, answers and a report, on Spark.",
        epilog="Each command has examples: python -m pipeline COMMAND --help",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = _command(commands, "run", "take in what is new, bring the tables up to date, stop", RUN_EXAMPLES, run)
    _add_source(one)
    one.add_argument("--warehouse", required=True, help="the folder of the tables")
    one.add_argument("--bench", metavar="DIR", help="result files of benchmarks, for the bench tables")
    one.add_argument(
        "--keep-days", type=_count, metavar="N", help="remove events of days before the last N, today included"
    )
    one.add_argument("--keep-answers", type=_count, metavar="N", help="the same for the tables made from them")
    _add_spark(one)

    one = _command(commands, "watch", "tell a queue of what stands still, until interrupted", WATCH_EXAMPLES, watch)
    _add_broker(one, required=True)
    one.add_argument("--checkpoint", required=True, help="a folder for how far the watch has come")
    one.add_argument("--alerts", default="/queues/flow-alerts", help="where alerts go (/queues/flow-alerts)")
    one.add_argument(
        "--stall-after", type=float, default=STALL_AFTER_SECONDS, metavar="SECONDS",
        help="what stands still for so long is told (%(default)g)",
    )  # fmt: skip
    _add_spark(one)

    one = _command(commands, "report", "write one HTML page from the tables", REPORT_EXAMPLES, report)
    one.add_argument("--warehouse", required=True, help="the folder of the tables")
    one.add_argument("--out", type=Path, default=Path("report.html"), help="the page (report.html)")
    one.add_argument("--first-day", metavar="DAY", type=_day, help="YYYY-MM-DD, UTC (the last one)")
    one.add_argument("--last-day", metavar="DAY", type=_day, help="the last one, included (the newest in the tables)")
    one.add_argument(
        "--limit", type=_share, metavar="SHARE", help="exit with 3 when anything was held up for more of its time"
    )
    one.add_argument("--prometheus", type=Path, metavar="FILE", help="also a file for Prometheus' textfile collector")

    one = _command(commands, "generate", "make flow events with known answers", GENERATE_EXAMPLES, generate)
    one.add_argument("--workload", choices=tuple(NAMES), default="links", metavar="NAME", help="see below (links)")
    one.add_argument("--events", type=int, default=100_000, help="at least so many records (100000)")
    one.add_argument("--connections", type=int, default=10, help="each with a link (10)")
    one.add_argument("--records", type=int, default=100, help="activity records of a link in a second (100)")
    one.add_argument("--seed", type=int, default=1, help="another one makes other counts (1)")
    one.add_argument(
        "--packets", action="store_true", help="packed as the broker packs them: slower, and to be decoded"
    )
    one.add_argument("--out", type=Path, required=True, help="a new folder")

    one = _command(commands, "archive", "keep messages as Parquet, by address and day", ARCHIVE_EXAMPLES, archive)
    _add_broker(one, required=True)
    one.add_argument("--address", required=True, help="the queue or stream, /queues/NAME")
    one.add_argument("--stream", action="store_true", help="it is a stream; from a queue messages are taken")
    one.add_argument("--warehouse", required=True, help="the folder of the tables")
    _add_spark(one)

    one = _command(commands, "replay", "send archived messages again", REPLAY_EXAMPLES, replay)
    _add_broker(one, required=True)
    one.add_argument("--warehouse", required=True, help="the folder of the tables")
    one.add_argument("--address", required=True, help="where they came from")
    one.add_argument("--to", required=True, metavar="ADDRESS", help="where they go")
    one.add_argument("--first-day", metavar="DAY", type=_day, help="YYYY-MM-DD, UTC")
    one.add_argument("--last-day", metavar="DAY", type=_day, help="the last one, included")
    _add_spark(one)
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    what: str,
    examples: str,
    command: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(command=command, parser=parser)
    return parser


def _add_broker(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--url", required=required, help="the broker, amqp://USER@HOST:PORT")
    parser.add_argument(
        "--password-file", help="a file with the password; without it the environment variable AMQP10_PASSWORD"
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", type=_option,
        help="another option of the connector, such as maxRowsPerTrigger=10000; as often as you like",
    )  # fmt: skip


def _add_source(parser: argparse.ArgumentParser) -> None:
    _add_broker(parser, required=False)
    parser.add_argument(
        "--events", metavar="DIR", help="instead of a broker: Parquet files with messages or flow events"
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", help="where Spark runs: local[4], spark://HOST:7077, yarn (local[2])")


def _option(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    return name, value


def _day(word: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", word):
        raise argparse.ArgumentTypeError(f"{word!r} is no day; write 2026-11-22")
    return word


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of days; write 1 or more")
    return int(word)


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no share; write a number from 0 to 1, such as 0.2")
    return share


def _connector(found: argparse.Namespace) -> dict[str, str]:
    options = dict(found.option)
    options["url"] = found.url
    if found.password_file:
        options["passwordFile"] = found.password_file
    return options


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(found: argparse.Namespace) -> int:
    """Make the tables."""
    if (found.url is None) == (found.events is None):
        found.parser.error("name one source: --url for a broker, or --events for a folder")
    if found.bench is not None and "://" not in found.bench and not Path(found.bench).is_dir():
        found.parser.error(f"--bench is {found.bench}, which is no folder; results of benchmarks are in bench/results")
    from pipeline.jobs import sources
    from pipeline.jobs.run import Keep
    from pipeline.jobs.run import run as run_job
    from pipeline.jobs.session import session

    _say("starting Spark")
    spark = session("headgate pipeline run", master=found.master)
    if found.events is not None:
        events = sources.folder_stream(spark, found.events)
    else:
        events = sources.broker_stream(spark, _connector(found))
    keep = Keep(bronze_days=found.keep_days, answer_days=found.keep_answers)
    run_job(spark, events, found.warehouse, benches=found.bench, progress=_say, keep=keep)
    spark.stop()
    print(
        f"the tables are in {found.warehouse}; a page of them: python -m pipeline report --warehouse {found.warehouse}"
    )
    return 0


def watch(found: argparse.Namespace) -> int:
    """Send alerts."""
    if found.stall_after <= 0:
        found.parser.error(f"--stall-after is {found.stall_after:g}; it must be more than 0")
    from pipeline.jobs import sources
    from pipeline.jobs import watch as watch_job
    from pipeline.jobs.session import session

    _say("starting Spark")
    spark = session("headgate pipeline watch", master=found.master)
    options = _connector(found)
    query = watch_job.watch(
        sources.broker_stream(spark, options),
        stall_after_s=found.stall_after,
        checkpoint=found.checkpoint,
        connector=options,
        address=found.alerts,
    )
    watch_job.follow(query, _say)
    return 0


def report(found: argparse.Namespace) -> int:
    """Write the page."""
    from pipeline.report.figures import read_figures
    from pipeline.report.page import above, page, sentence
    from pipeline.report.prometheus import exposition

    figures = read_figures(found.warehouse, first_day=found.first_day, last_day=found.last_day)
    found.out.parent.mkdir(parents=True, exist_ok=True)
    found.out.write_text(page(figures, limit=found.limit))
    if found.prometheus is not None:
        new = found.prometheus.with_name(f"{found.prometheus.name}.new")  # its reader must never see a half of it
        new.write_text(exposition(figures))
        new.replace(found.prometheus)
    for verdict in figures.verdicts:
        print(sentence(verdict))
    print(f"page: {found.out}")
    passed = [] if found.limit is None else above(figures, found.limit)
    for verdict in passed:
        print(f"held up for {float(str(verdict['share'])):.0%}: {sentence(verdict)}", file=sys.stderr)
    return LIMIT_PASSED if passed else 0


def generate(found: argparse.Namespace) -> int:
    """Generate events."""
    from pipeline.generate.files import generate as generate_events

    def progress(done: int, of: int) -> None:
        print(f"\r{done:,} of {of:,} records", end="\n" if done >= of else "", file=sys.stderr, flush=True)

    answers = generate_events(
        found.out,
        found.workload,
        events=found.events,
        connections=found.connections,
        records=found.records,
        seed=found.seed,
        packets=found.packets,
        progress=progress,
    )
    print(f"{answers.events:,} records of {answers.seconds:,} seconds are in {found.out}, with their answers")
    return 0


def archive(found: argparse.Namespace) -> int:
    """Archive messages as Parquet."""
    from pipeline.jobs.archive import archive as archive_messages
    from pipeline.jobs.session import session

    options = _connector(found) | ({"mode": "stream", "startingOffsets": "earliest"} if found.stream else {})
    _say("starting Spark")
    spark = session("headgate pipeline archive", master=found.master)
    archive_messages(spark, options, found.address, found.warehouse, progress=_say)
    spark.stop()
    return 0


def replay(found: argparse.Namespace) -> int:
    """Send archived messages."""
    from pipeline.jobs.archive import replay as replay_messages
    from pipeline.jobs.session import session

    _say("starting Spark")
    spark = session("headgate pipeline replay", master=found.master)
    days = (found.first_day, found.last_day)
    sent = replay_messages(
        spark, _connector(found), found.warehouse, address=found.address, to=found.to, days=days
    )  # fmt: skip
    spark.stop()
    print(f"{sent:,} messages sent to {found.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
