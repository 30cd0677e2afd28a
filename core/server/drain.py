"""Draining a broker: it serves its present connections until they hold no unsettled message, and refuses new ones.

A drain comes before a stop, so that clients hardly notice the stop. Publishers stand still as they do under an alarm.
Consumers get no more messages and settle what they have. So the number of unsettled messages goes to zero, and no
message is delivered twice because of the stop. New connections are refused, except those from the machine itself: an
operator must be able to look, and to end the drain. A connection admitted that way may attach to the broker's own nodes
(management, flow events), but to no queue or exchange.
"""

from dataclasses import dataclass

from core.clock import Now
from core.server.frontends import is_loopback

DRAINED = "the broker is being drained; connect to another one, or later"
"""The reason that a refused connection is told."""


@dataclass(slots=True)
class Drain:
    """Whether the broker is being drained."""

    since: Now | None = None
    """When the drain began; None while the broker serves as usual."""

    @property
    def on(self) -> bool:
        """Whether new connections are refused."""
        return self.since is not None

    def begin(self, now: Now) -> bool:
        """Start to drain. False when the drain had begun already."""
        if self.since is not None:
            return False
        self.since = now
        return True

    def end(self) -> bool:
        """Stop draining. False when the broker was not being drained."""
        was_on = self.on
        self.since = None
        return was_on

    def refusal_reason(self, remote_host: str) -> str | None:
        """Why a connection from this address is refused; None when it is served."""
        return DRAINED if self.on and not is_loopback(remote_host) else None
