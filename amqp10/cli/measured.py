"""Requests of ``headgate memory`` and ``headgate disk``: each has one row of figures, and a limit to change."""

from collections.abc import Mapping

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row
from amqp10.cli.remote import with_broker


def measured(url: str, path: str, *, method: str = "GET") -> Row:
    """The row of figures in the broker's answer."""
    body = with_broker(url, lambda broker: broker.request(method, path)).body
    if not isinstance(body, Mapping):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    return {str(key): value for key, value in body.items()}


def words(first: str, second: str | None) -> str:
    """A limit in the form that the broker reads: ``absolute 1GB``."""
    return first if second is None else f"{first} {second}"
