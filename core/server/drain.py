"""A broker that is being drained: it goes on serving those who are there until they hold nothing, and lets nobody in.

It is what comes before a stop that nobody notices. Publishers stand still as they do under an alarm, consumers get
nothing more and settle what they have; so what is unsettled goes to zero, and no message is delivered twice because of
the stop. New connections are refused, except those from the machine itself: an operator must be able to look, and to
change their mind. Whoever comes in that way may attach to what the broker tells of itself, and to no queue or exchange.
"""

from dataclasses import dataclass

from core.clock import Now
from core.server.frontends import is_loopback

DRAINED = "the broker is being drained; connect to another one, or later"
"""What is told to those that come."""


@dataclass(slots=True)
class Drain:
    """The switch."""

    since: Now | None = None
    """None while the broker serves as usual."""

    @property
    def on(self) -> bool:
        """Nobody is let in."""
        return self.since is not None

    def begin(self, now: Now) -> bool:
        """False when it had begun already."""
        if self.since is not None:
            return False
        self.since = now
        return True

    def end(self) -> bool:
        """False when there was nothing to end."""
        was_on = self.on
        self.since = None
        return was_on

    def refusal_reason(self, remote_host: str) -> str | None:
        """Why a connection from this address is not served; None when it is."""
        return DRAINED if self.on and not is_loopback(remote_host) else None
