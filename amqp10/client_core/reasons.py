"""Why the broker makes a link wait, as it reports it in the link's flows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from amqp10.wire.performatives import Flow
from amqp10.wire.types import plain

REASON_PROPERTY = "headgate:reason"
"""The property of a link flow with which the broker reports why the link waits, and with null that it waits no more. It
is sent once for each [2.7.4]. Only Headgate sends it."""
CULPRIT_PROPERTY = "headgate:culprit"
"""Beside the reason: what has to change before the link can go on, for example ``queue orders``."""
SINCE_PROPERTY = "headgate:since"
"""Beside the reason: when the wait began, by the broker's clock."""

SINCE_MAX = 253_402_300_800_000
"""Milliseconds from 1970 to the end of the year 9999, the last that Python has."""

REMEDIES: Mapping[str, str] = MappingProxyType({
    "drain-mode": "connect to another broker, or wait until this one has started again",
    "memory": "consume what is queued, or give the broker more memory",
    "disk": "consume what is queued, or give the broker more disk space",
    "paused": "ask the operator who paused the link",
    "rate-limit": "wait, since nothing is lost; or ask for a higher limit",
    "policy": "wait until earlier messages have an outcome; or have the policy or the operator's limit changed",
    "leader-moving": "wait for the next leader of the queue, which takes half a second",
    "no-quorum": "wait until the group of the queue has a leader",
    "queue-full": "consume from the queue, or raise its length limit",
    "memory-share": "wait until earlier messages have an outcome, or send smaller ones",
    "store-slow": "wait for the disk; more messages under way at a time share its syncs",
    "unconfirmed-limit": "wait until earlier messages have an outcome; if the culprit is the client, settle them",
    "inactive": "wait until the active consumer of the queue leaves",
})  # fmt: skip
"""What a program or its user can do about each reason that the broker reports (docs/flow-reasons.md)."""


@dataclass(frozen=True, slots=True)
class LinkWait:
    """Why a link waits. ``str()`` is a sentence for a person."""

    reason: str
    """One of the closed list in docs/flow-reasons.md."""
    culprit: str | None = None
    """What has to change before the link can go on; None when the broker has not said."""
    since: float | None = None
    """When the wait began, in seconds since 1970 by the broker's clock; None when the broker has not said."""

    @property
    def remedy(self) -> str | None:
        """What can be done about it; None for a reason that this client does not know."""
        return REMEDIES.get(self.reason)

    def __str__(self) -> str:
        culprit = "" if self.culprit is None else f" ({self.culprit})"
        since = "" if self.since is None else f" since {datetime.fromtimestamp(self.since, UTC):%H:%M:%S} UTC"
        remedy = "" if self.remedy is None else f"; {self.remedy}"
        return f"{self.reason}{culprit}{since}{remedy}"


def link_wait(flow: Flow, before: LinkWait | None) -> LinkWait | None:
    """Why the link waits after this flow; ``before`` is what held until now."""
    properties = flow.properties or {}
    if REASON_PROPERTY not in properties:
        return before
    reason = plain(properties[REASON_PROPERTY])
    if not isinstance(reason, str):
        return None
    culprit, since = plain(properties.get(CULPRIT_PROPERTY)), plain(properties.get(SINCE_PROPERTY))
    return LinkWait(
        reason,
        culprit if isinstance(culprit, str) else None,
        since / 1000 if isinstance(since, int) and 0 <= since < SINCE_MAX else None,
    )
