"""``headgate pipeline``: runs the data pipeline on Spark.

This module imports no module of the pipeline. The process becomes ``python -m pipeline``, so options, signals, output
and the exit code are those of the pipeline.
"""

import os
import sys
from importlib.util import find_spec

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.java import java_problem

NEEDED_MODULES = ("pyspark", "pandas", "pyarrow", "pyspark_amqp10")
"""The modules that the extra ``pipeline`` installs and the pipeline imports."""


def become(*, command: str, on_spark: bool, options: tuple[str, ...]) -> None:
    """Turn the process into ``python -m pipeline``. Raises CommandError when a module or Java is missing."""
    missing = [module for module in NEEDED_MODULES if find_spec(module) is None]
    if missing:
        raise CommandError(
            Exit.USAGE,
            f"the pipeline needs packages that are not installed: {', '.join(missing)}; "
            "install them in a checkout of Headgate with: pip install -e '.[pipeline]'",
        )
    problem = java_problem(os.environ) if on_spark else None
    if problem is not None:
        raise CommandError(Exit.USAGE, f"headgate pipeline {command} runs on Spark, and {problem}")
    sys.stdout.flush()
    # -P: Python must not import a package named pipeline from the user's folder
    os.execv(sys.executable, [sys.executable, "-P", "-m", "pipeline", command, *options])
