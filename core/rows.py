"""The kinds of rows that a broker shows, and how they are asked for: the same over AMQP and over HTTP.

A row is a snapshot of one thing (:data:`core.interface.Snapshot`). This module knows neither of the two ways, so that a
command that asks for rows need not load what answers.
"""

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
"""Of these, those that the server's connections know; they are read connection by connection."""
WHY_KINDS = ("connections", "links", "addresses")
"""What can be asked what holds it up. An address is that of a queue."""
IDENTITY_FIELDS = ("identity", "id", "name")
"""What tells rows of a kind apart, the first of these that a row has: a link has a name too, but the broker's own word
for it comes first."""
PAGE_MAX = 1000
"""Rows in one answer: about 0.5 MiB."""
