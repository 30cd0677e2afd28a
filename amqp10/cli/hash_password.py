"""``headgate hash-password``: prints the keys of a password, in the form that the configuration takes."""

import getpass
import secrets
import sys

from amqp10.cli.exits import CommandError, Exit
from core.access.passwords import hash_password
from core.access.users import SALT_BYTES
from core.config.access import HashName


def print_keys(iterations: int, hash_name: HashName) -> None:
    """Read a password from the terminal or from one line of standard input, and print its keys."""
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().removesuffix("\n")
    if not password:
        raise CommandError(Exit.USAGE, "the password is empty")
    try:
        salt = secrets.token_bytes(SALT_BYTES)
        keys = hash_password(password, salt=salt, iterations=iterations, hash_name=hash_name)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"this password cannot be used: {error}") from None
    print(keys.render())
