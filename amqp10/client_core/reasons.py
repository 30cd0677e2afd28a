"""Why the broker makes a link wait, as it reports it in the link's flows."""

from amqp10.wire.performatives import Flow
from amqp10.wire.types import plain

REASON_PROPERTY = "headgate:reason"
"""The property of a link flow with which the broker reports why the link waits, and with null that it waits no more. It
is sent once for each [2.7.4]. Only Headgate sends it."""


def waiting_reason(flow: Flow, before: str | None) -> str | None:
    """The reason that holds after this flow; ``before`` is the one that held until now."""
    properties = flow.properties or {}
    if REASON_PROPERTY not in properties:
        return before
    reason = plain(properties[REASON_PROPERTY])
    return reason if isinstance(reason, str) else None
