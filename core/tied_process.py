"""Starts a program that ends when its starter ends, however the starter ends: also by ``kill -9``.

Linux sends a process a signal when its parent has ended, if the process has asked for that [prctl(2),
PR_SET_PDEATHSIG]. No other code may run between fork and exec of a process with threads, so a small Python asks, and
then becomes the program: this file is run for that, without Python's ``site``, in about 15 ms. What asked for the
signal keeps that wish over exec.

The signal comes when the *thread* ends that has started the process. So the main thread has to be the one.

On other systems than Linux the program outlives a starter that was killed; one that ends in order has to end it.
"""

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
"""From <sys/prctl.h>."""


def tied(command: Sequence[str]) -> list[str]:
    """The command that runs this one as long as this process lives. To be started by the main thread."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _become(starter: int, command: Sequence[str]) -> None:
    """Become the program of the command, and be killed when the starter has ended."""
    if sys.platform == "linux":
        import ctypes  # here and not above: only the process that becomes another program needs it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != starter:
            return  # the starter has ended before
    os.execv(command[0], list(command))


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
