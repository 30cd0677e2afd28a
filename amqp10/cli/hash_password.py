"""``headgate hash-password``: prints the keys of a password, in the form that the configuration takes."""

import getpass
import secrets
import sys
from typing import Annotated

from cyclopts import Parameter, validators

from amqp10.cli.exits import CommandError, Exit
from core.access.passwords import hash_password
from core.access.users import SALT_BYTES
from core.config.access import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN


def hash_password_command(
    *,
    iterations: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=ITERATIONS_MIN, lte=ITERATIONS_MAX),
            help="Rounds of PBKDF2. A client with SCRAM computes as many rounds for each login.",
        ),
    ] = ITERATIONS,
) -> None:
    """Read a password and print its keys, which a table of users in the configuration takes.

    The keys are the value of ``scram`` in a table ``[[users]]``.

    On a terminal the command asks for the password. Otherwise it reads one line of standard input. The password cannot
    be computed from the keys.

    For example:

        headgate hash-password
        pwgen 20 1 | tee password.txt | headgate hash-password
    """
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().removesuffix("\n")
    if not password:
        raise CommandError(Exit.USAGE, "the password is empty")
    try:
        keys = hash_password(password, salt=secrets.token_bytes(SALT_BYTES), iterations=iterations)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"this password cannot be used: {error}") from None
    print(keys.render())
