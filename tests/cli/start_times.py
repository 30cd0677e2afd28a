"""How much CPU ten commands of ``headgate`` take, from the start of the process to its end.

    python -m tests.cli.start_times

prints a table for the closing note of a change. The commands run as they do once installed: from compiled files.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from statistics import median

from tests.kit.broker_process import ROOT, broker_process
from tests.kit.command_line import HEADGATE

QUEUE = "start-times"
COMMANDS = (
    ("--version",),
    ("--help",),
    ("publish", "--help"),
    ("queues", "list"),
    ("status",),
    ("why", QUEUE),
    ("publish", f"/queues/{QUEUE}", "hello"),
    ("consume", f"/queues/{QUEUE}", "--count", "1"),
    ("statsu",),
    ("completion", "bash"),
)
"""Each message that is published is consumed by the command behind it."""
CODES = {"statsu": 2}
"""Exit codes other than 0: of the command that is mistyped."""
RUNS = 9


def environment(broker_url: str) -> Mapping[str, str]:
    """The environment of a command that asks this broker. Python keeps what it compiles."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "HEADGATE_URL": broker_url}


def cpu_seconds(command: tuple[str, ...], environ: Mapping[str, str]) -> float:
    """Run a process to its end; returns the CPU time that it took, in user and system mode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == CODES.get(command[-1], 0), (command, ran.returncode, ran.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table: milliseconds of CPU, the least and the median of several runs, taken in turns."""
    bare = (sys.executable, "-c", "pass")
    commands = [bare, *((*HEADGATE, *words) for words in COMMANDS)]
    with broker_process() as broker:
        environ = environment(broker.url())
        cpu_seconds((*HEADGATE, "queues", "declare", QUEUE), environ)
        for command in commands:  # Python compiles what the command imports
            cpu_seconds(command, environ)
        taken = [[cpu_seconds(command, environ) for command in commands] for _ in range(RUNS)]
    print(f"| command | least of {RUNS}, ms | median, ms |\n|---|---|---|")
    for command, *times in zip(commands, *taken, strict=True):
        name = "python -c pass" if command is bare else " ".join(("headgate", *command[len(HEADGATE) :]))
        print(f"| `{name}` | {min(times) * 1000:.0f} | {median(times) * 1000:.0f} |")


if __name__ == "__main__":
    main()
