"""The exit codes of ``headgate``, which do not change between versions, and the errors that end a command.

====  ==========================================================================================================
code  meaning
====  ==========================================================================================================
0     The command is done. ``serve`` has stopped in order, also after a second signal or on a closed terminal.
1     There is a bug in headgate. Only this code comes with a traceback.
2     An operator must correct the command, the configuration, or a data folder or address that cannot be used.
3     The broker cannot be reached, or the connection broke.
4     The broker refused the login: wrong user or password, or the server has no AMQP 1.0.
5     The named thing does not exist.
6     The broker refused the request, or rejected or released a message.
7     The time for an answer or a result is over.
8     The data folder is damaged.
9     The disk failed while the broker served. The broker confirmed no message after that.
10    Two compared things differ, or a check has found that its condition does not hold.
11    The broker cannot start now: an address or the data folder is in use, the disk is full or fails.
130   The command was interrupted from the keyboard.
====  ==========================================================================================================

A supervisor should not start a broker again that ended with a code of :data:`LASTING`.
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
"""The next start would end with the same code, until an operator changes something. The file config/headgate.service
has the same codes."""

EPILOGUE = (
    "Exit codes: 0 done, 1 fault of headgate, 2 wrong usage or configuration, 3 broker not reachable, "
    "4 not let in, 5 not found, 6 refused, 7 timed out, 8 data folder damaged, 9 disk failed, "
    "10 different or not so, 11 cannot start now, 130 interrupted."
)


class CommandError(Exception):
    """The command cannot be done. The text says what is wrong and how to correct it."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


def complain(text: str) -> None:
    """Print an error or a warning on standard error."""
    print(f"headgate: {text}", file=sys.stderr)


def leaves(error: BaseException) -> list[BaseException]:
    """All errors in a group and in the groups within it."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]
