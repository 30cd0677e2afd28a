"""Totals of the engine since the start. They do not decrease when queues are deleted or publishers leave."""

from dataclasses import asdict, dataclass

from core.message import Origin


@dataclass(slots=True)
class EngineTotals:
    """Totals of the whole engine."""

    queues_declared: int = 0
    """Declarations of queues, also of existing ones."""
    queues_created: int = 0
    queues_deleted: int = 0
    """Queues deleted by clients, operators, or their own rules (auto-delete, expiry)."""
    routed_amqp10: int = 0
    """Messages of AMQP 1.0 publishers that were routed to at least one queue."""
    routed_amqp091: int = 0
    stage_blocked_seconds: float = 0.0
    """Seconds that deleted queues have spent without stage credit."""

    def routed(self, origin: Origin, messages: int) -> None:
        """Count messages that were routed to at least one queue."""
        if origin is Origin.AMQP10:
            self.routed_amqp10 += messages
        else:
            self.routed_amqp091 += messages

    def counts(self) -> dict[str, int | float]:
        """Return all totals by name."""
        return asdict(self)
