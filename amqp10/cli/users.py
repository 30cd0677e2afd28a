"""``headgate users``, ``vhosts``, limits and permissions: what prints lists, and what asks for a password."""

import getpass
import secrets
import sys
from typing import Literal

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_rows, tell
from amqp10.cli.remote import ask_once

HashName = Literal["sha256", "sha512"]
"""As in :mod:`core.config.access`, which takes longer to import than a command may take."""
COLUMNS = {
    "users.list": ("name", "tags", "place", "password"),
    "permissions.list": ("user", "vhost", "configure", "write", "read"),
    "vhosts.list": ("name", "queues", "connections", "links", "max_connections", "max_queues", "max_links"),
    "user-limits.list": ("user", "limit", "value", "used"),
    "topic-permissions.list": ("user", "vhost", "exchange", "write", "read"),
}


def print_list(*, operation: str, json: bool, url: str) -> None:
    """Print the rows of an operation that lists."""
    answer = ask_once(url, operation)
    rows = [row for row in answer.body if isinstance(row, dict)] if isinstance(answer.body, list) else []
    print_rows(rows, COLUMNS[operation], as_json=json)


def set_user(user: str, *, new_password: bool, hash_name: HashName, tags: str | None, json: bool, url: str) -> None:
    """Make or change a user. The password is hashed here, so that the broker gets its keys only."""
    values: dict[str, object] = {"user": user, "tags": tags}
    if new_password:
        values |= {"password_hash": _keys(_password(), hash_name), "hashing_algorithm": f"headgate_scram_{hash_name}"}
    ask_once(url, "users.set", **values)
    tell(f"user {user} is set", {"user": user}, as_json=json)


def _password() -> str:
    return getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().removesuffix("\n")


def _keys(password: str, hash_name: HashName) -> str:
    from core.access.passwords import hash_password  # here and not above: the other commands need no settings
    from core.access.users import SALT_BYTES

    if not password:
        raise CommandError(Exit.USAGE, "the password is empty")
    try:
        return hash_password(password, salt=secrets.token_bytes(SALT_BYTES), hash_name=hash_name).render()
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"this password cannot be used: {error}") from None
