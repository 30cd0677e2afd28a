"""The standard output and the standard error of a process, whose reader may have gone.

Python keeps what it could not write, and tries again when the process ends. If it fails again, the process ends with
status 120 instead of its own.
"""

import os
import sys
from collections.abc import Sequence
from typing import TextIO


def print_notice(line: str) -> None:
    """Write a line to standard output that the process does not depend on. If it cannot be written, it is forgotten."""
    try:
        print(line, flush=True)
    except OSError:
        discard(sys.stdout)


def print_on_terminal(line: str) -> None:
    """Write a line with a secret to standard output if that is a terminal. A file, or the journal of a service, would
    keep it."""
    if sys.stdout is not None and sys.stdout.isatty():
        print_notice(line)


def leave_streams() -> None:
    """Write what standard output and standard error still have, at the end of a process. Call this before it ends.

    Output whose reader has gone is forgotten, and so are errors that cannot be written. Output that cannot be written
    for another reason, such as a full disk, is kept, and Python ends the process with status 120.
    """
    streams: Sequence[tuple[TextIO | None, type[OSError]]] = ((sys.stdout, BrokenPipeError), (sys.stderr, OSError))
    for stream, forgotten in streams:
        if stream is None:  # the process was started without it
            continue
        try:
            stream.flush()
        except OSError as error:
            if isinstance(error, forgotten):
                discard(stream)


def discard(stream: TextIO) -> None:
    """Have what the stream still has, and all that is written to it from now on, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
