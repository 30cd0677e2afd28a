"""The kinds of rows that a broker shows, and how they are requested: the same over AMQP and over HTTP.

A row is a snapshot of one thing (:data:`core.interface.Snapshot`). This module imports neither protocol, so that a
command that requests rows need not load the code that answers.
"""

from collections.abc import Mapping

KINDS = (
    "queues",
    "exchanges",
    "bindings",
    "consumers",
    "publishers",
    "connections",
    "sessions",
    "links",
    "channels",
    "stages",
    "stalls",
    "alarms",
    "policies",
)
SERVER_KINDS = frozenset({"connections", "sessions", "links", "channels"})
"""Kinds whose rows come from the server's connections; they are read connection by connection."""
WHY_KINDS = ("connections", "links", "addresses")
"""Kinds for which ``why`` explains what holds them up. An address is the name of a queue."""
IDENTITY_FIELDS = ("identity", "id", "name")
"""The field that tells rows of a kind apart: the first of these that a row has. A link has a name too, but the identity
that the broker gave it comes first."""
PAGE_MAX = 1000
"""Rows in one answer: about 0.5 MiB."""


def count_in(row: Mapping[str, object], key: str) -> int:
    """A count in a row; 0 if the row has none."""
    value = row.get(key)
    return value if isinstance(value, int) else 0
