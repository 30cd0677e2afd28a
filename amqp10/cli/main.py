"""The command ``headgate``: how a run of it begins and ends. :mod:`amqp10.cli.commands` has its commands."""

import gc
import sys

from amqp10.cli.exits import CommandError, Exit, complain
from core.standard_streams import discard, leave_streams

OBJECTS_BEFORE_COLLECTION = 100_000
"""Python searches for garbage after so many new objects. A command that asks a broker makes 75,000 objects, nearly all
while modules are imported. These objects stay, so a search is useless, and takes a tenth of the command's time.
A broker makes 150,000 objects while it starts; without one search in the middle it would keep 0.5 MiB more."""


def main() -> None:
    """Run the command of ``sys.argv``, and end the process with a code of :class:`Exit`."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    try:
        code = run(sys.argv[1:])
    finally:
        leave_streams()
    gc.freeze()  # or Python would search all objects for garbage at its end, which takes 20 ms of CPU
    sys.exit(code)


def run(words: list[str]) -> Exit:
    """Run one command and return its exit code. An error of the command is printed on standard error."""
    from amqp10.cli.commands import carry_out  # here and not above: main first tells Python to search less often

    try:
        carry_out(words)
    except CommandError as error:
        complain(error.text)
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        discard(sys.stdout)
    return Exit.DONE
