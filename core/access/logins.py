"""Counts of logins, taken where both protocols meet: at the exchange of a SASL mechanism.

An attempt begins when the peer has chosen a mechanism that is offered. A peer that leaves in the middle has neither
succeeded nor failed. Mechanisms that are not offered are not counted: a stranger would choose the names of the series.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from core.access.exchange import Reply, SaslExchange, SaslMechanism


@dataclass(slots=True)
class Logins:
    """The counts of all connections of one protocol."""

    attempts: int = 0
    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Failed logins, by mechanism."""
    put_off: Counter[str] = field(default_factory=Counter)
    """Logins that were not decided because too many had failed or were waiting, by mechanism."""

    def counting(self, mechanisms: Iterable[SaslMechanism]) -> list[SaslMechanism]:
        """Return the same mechanisms, wrapped so that their attempts are counted here."""
        return [_CountedMechanism(mechanism, self) for mechanism in mechanisms]


@dataclass(frozen=True, slots=True)
class _CountedMechanism:
    inner: SaslMechanism
    logins: Logins

    @property
    def name(self) -> str:
        return self.inner.name

    def start(self) -> SaslExchange:
        self.logins.attempts += 1
        return _CountedExchange(self.inner.start(), self.name, self.logins)


@dataclass(frozen=True, slots=True)
class _CountedExchange:
    inner: SaslExchange
    mechanism: str
    logins: Logins

    def respond(self, response: bytes) -> Reply:
        reply = self.inner.respond(response)
        if reply[0] == "success":
            self.logins.succeeded += 1
        elif reply[0] == "failure":
            self.logins.failed[self.mechanism] += 1
        elif reply[0] == "later":
            self.logins.put_off[self.mechanism] += 1
        return reply
