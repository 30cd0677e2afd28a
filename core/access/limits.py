"""How many connections, channels and links a user may have, and has, how much may be published in a second, and the
weight of what is published.

A channel is a session of AMQP 1.0, or a channel of AMQP 0.9.1. A link is one of AMQP 1.0 that publishes or consumes.
All connections of a user count here, whatever their protocol. A limit that is lowered ends nothing that is open.
"""

from collections.abc import Mapping

from core.errors import Invalid
from core.publish_limit import (
    PUBLISH_RATE,
    PUBLISH_RATE_BYTES,
    PUBLISHER_WEIGHT,
    RATE_MAX,
    WEIGHT_MAX,
    PublishLimit,
    PublishRates,
)

MAX_CONNECTIONS, MAX_CHANNELS, MAX_LINKS = "max-connections", "max-channels", "max-links"
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS, MAX_LINKS, PUBLISH_RATE, PUBLISH_RATE_BYTES, PUBLISHER_WEIGHT)
USER_LIMIT_MAX = 2**31 - 1
_BOUNDS = {PUBLISH_RATE: (1, RATE_MAX), PUBLISH_RATE_BYTES: (1, RATE_MAX), PUBLISHER_WEIGHT: (1, WEIGHT_MAX)}


def check_limits(limits: Mapping[str, int]) -> None:
    """Raises Invalid for a limit that does not exist, and for a value that cannot be used."""
    for name, value in limits.items():
        if name not in USER_LIMITS:
            raise Invalid(f"there is no limit '{name[:64]}' of a user; there are {', '.join(USER_LIMITS)}")
        least, most = _BOUNDS.get(name, (0, USER_LIMIT_MAX))
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Invalid(f"{name} must be a number from {least} to {most}")


class UserLimits:
    """The limits of one user, which change in place, and what the user has open."""

    __slots__ = ("__weakref__", "channels", "connections", "links", "most", "publishing", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.most: Mapping[str, int] = {}
        """The limits by name; a name that is missing has no limit."""
        self.connections = 0
        self.channels = 0
        self.links = 0
        self.publishing = PublishLimit(f"user {user}")

    def set(self, limits: Mapping[str, int]) -> None:
        """Put other limits in force."""
        self.most = limits
        self.publishing.set(PublishRates.of(limits), limits.get(PUBLISHER_WEIGHT, 1))

    def connection_refusal(self) -> str | None:
        """Why the user may open no further connection, with RabbitMQ's text; None if the user may."""
        most = self.most.get(MAX_CONNECTIONS)
        if most is None or self.connections < most:
            return None
        return (
            f"Connection refused for user '{self.user}': user connection limit ({most}) is reached ({MAX_CONNECTIONS})"
        )

    def channel_refusal(self) -> str | None:
        """Why the channel that was counted last is one too many, with RabbitMQ's text; None if it is not."""
        most = self.most.get(MAX_CHANNELS)
        if most is None or self.channels <= most:
            return None
        return (
            f"number of channels opened for user '{self.user}' has reached the maximum allowed user limit of ({most}) "
            f"({MAX_CHANNELS})"
        )

    def link_refusal(self) -> str | None:
        """Why the user may attach no further link; None if the user may."""
        most = self.most.get(MAX_LINKS)
        if most is None or self.links < most:
            return None
        return (
            f"user '{self.user}' has {self.links} links, and its limit {MAX_LINKS} is {most}; detach one, or raise the "
            f"limit: headgate user-limits set {self.user} {MAX_LINKS} NUMBER"
        )
