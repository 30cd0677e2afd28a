"""Totals of the engine since the start. They do not decrease when queues are deleted or publishers leave."""

from dataclasses import dataclass, field, fields

from core.message import Origin, RunAttributes
from core.waiting.blocked_time import BlockedTime


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
    queues_without_stage_credit: BlockedTime = field(default_factory=BlockedTime)
    """Time that queues had no stage credit."""

    def routed(self, attributes: RunAttributes, messages: int) -> None:
        """Count messages with these attributes that were routed to at least one queue."""
        if (attributes[0] if isinstance(attributes, list) else attributes).origin is Origin.AMQP10:
            self.routed_amqp10 += messages
        else:
            self.routed_amqp091 += messages

    def counts(self) -> dict[str, int]:
        """Return all totals that are single numbers, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, int)}
