"""How a command of ``headgate`` ends: stable exit codes, and mistakes that are told in a line instead of a traceback.

====  ==========================================================================================================
code  meaning
====  ==========================================================================================================
0     done; of ``serve``: stopped in order, also by a second signal or a closed terminal
1     a fault of headgate itself; the only case with a traceback
2     the command, the configuration, or a data folder or address that may not be used: until an operator changes it
3     the broker cannot be reached, or the connection to it broke
4     the broker did not let us in: wrong user or password, or it speaks no AMQP 1.0
5     what was asked for does not exist
6     the broker refused, or rejected or released a message
7     something did not happen in time
8     the data folder is damaged
9     the disk failed while the broker served; nothing was confirmed after that
10    what was compared is different, or what was checked is not so
11    the broker cannot start now: an address or the data folder is in use, the disk is full or fails
130   interrupted from the keyboard
====  ==========================================================================================================

A broker that ended with one of :data:`LASTING` is not to be started again by a supervisor.
"""

import sys
from enum import IntEnum


class Exit(IntEnum):
    """The exit codes."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_LET_IN = 4
    NOT_FOUND = 5
    REFUSED = 6
    TIMED_OUT = 7
    DAMAGED = 8
    DISK_FAILED = 9
    DIFFERS = 10
    NOT_NOW = 11
    INTERRUPTED = 130


LASTING = frozenset({Exit.USAGE, Exit.DAMAGED})
"""The next start ends with these too, until an operator changes something. config/headgate.service has the same."""

EPILOGUE = (
    "Exit codes: 0 done, 1 fault of headgate, 2 wrong usage or configuration, 3 broker not reachable, "
    "4 not let in, 5 not found, 6 refused, 7 timed out, 8 data folder damaged, 9 disk failed, "
    "10 different or not so, 11 cannot start now, 130 interrupted."
)


class CommandError(Exception):
    """A command that cannot do what it was asked to. The text says what is wrong and what to do about it."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


def complain(text: str) -> None:
    """Say on standard error what is wrong."""
    print(f"headgate: {text}", file=sys.stderr)


def leaves(error: BaseException) -> list[BaseException]:
    """The errors in a group, however deep."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


def sole_error(error: BaseException) -> BaseException:
    """The error in a group of one, however deep: nurseries wrap what happens in them."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
