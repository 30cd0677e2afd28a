"""``headgate pipeline``: runs the data pipeline on Spark.

This module imports no module of the pipeline. The process becomes ``python -m pipeline``, so options, signals, output
and the exit code are those of the pipeline.
"""

import os
import sys
from importlib.util import find_spec
from typing import Annotated

from cyclopts import App, Parameter

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.java import java_problem

NEEDED_MODULES = ("pyspark", "pandas", "pyarrow", "pyspark_amqp10")
"""The modules that the extra ``pipeline`` installs and the pipeline imports."""

pipeline_app = App(
    name="pipeline",
    help="The data pipeline on Spark: it makes tables of flow events, and a report that names the bottleneck.",
)

Options = Annotated[
    str,
    Parameter(allow_leading_hyphen=True, help="Options of python -m pipeline. Its --help lists them for each command."),
]


@pipeline_app.command
def run(*options: Options) -> None:
    """Add the flow events that are there now to the tables, and end.

    For example:

        headgate pipeline run --url amqp://guest@127.0.0.1:5672 --password-file guest.password --warehouse flow
        headgate pipeline run --events events --warehouse flow
    """
    _become("run", options, on_spark=True)


@pipeline_app.command
def watch(*options: Options) -> None:
    """Send alerts about links that wait to a queue, until the command is interrupted.

    For example:

        headgate pipeline watch --url amqp://guest@127.0.0.1:5672 --checkpoint flow-watch --alerts /queues/flow-alerts
    """
    _become("watch", options, on_spark=True)


@pipeline_app.command
def report(*options: Options) -> None:
    """Write an HTML page from the tables: rates, blocked time by reason, and the bottleneck with its evidence.

    For example:

        headgate pipeline report --warehouse flow --out report.html
    """
    _become("report", options)


@pipeline_app.command
def generate(*options: Options) -> None:
    """Make flow events with a known bottleneck, for tests of the pipeline.

    For example:

        headgate pipeline generate --workload queue --events 100000 --out events
    """
    _become("generate", options)


@pipeline_app.command
def archive(*options: Options) -> None:
    """Archive the messages of a queue or a stream as Parquet, by address and day.

    For example:

        headgate pipeline archive --url amqp://guest@127.0.0.1:5672 --address /queues/orders --warehouse audit
    """
    _become("archive", options, on_spark=True)


@pipeline_app.command
def replay(*options: Options) -> None:
    """Send archived messages again.

    For example:

        headgate pipeline replay --url amqp://guest@broker --warehouse audit --address /queues/orders --to /queues/again
    """
    _become("replay", options, on_spark=True)


def _become(command: str, options: tuple[str, ...], *, on_spark: bool = False) -> None:
    """Turn the process into ``python -m pipeline``. Raises CommandError when a module or Java is missing."""
    missing = [module for module in NEEDED_MODULES if find_spec(module) is None]
    if missing:
        raise CommandError(
            Exit.USAGE,
            f"the pipeline needs {' and '.join(missing)}, which is not installed; "
            "install it in a checkout of Headgate with: pip install -e '.[pipeline]'",
        )
    problem = java_problem(os.environ) if on_spark else None
    if problem is not None:
        raise CommandError(Exit.USAGE, f"headgate pipeline {command} runs on Spark, and {problem}")
    sys.stdout.flush()
    # -P: Python must not import a package named pipeline from the user's folder
    os.execv(sys.executable, [sys.executable, "-P", "-m", "pipeline", command, *options])
