"""What the engine has done since the start: integers that do not go down when queues and publishers go."""

from dataclasses import asdict, dataclass

from core.message import Origin


@dataclass(slots=True)
class EngineTotals:
    """Counts of the whole engine."""

    queues_declared: int = 0
    """Also of those that there were."""
    queues_created: int = 0
    queues_deleted: int = 0
    """By whomever, also by their own rules."""
    routed_amqp10: int = 0
    """Messages of AMQP 1.0 publishers that some queue was found for."""
    routed_amqp091: int = 0
    stage_blocked_seconds: float = 0.0
    """Time without stage credit, of queues that are gone."""

    def routed(self, origin: Origin, messages: int) -> None:
        """A run, or a part of one, goes to at least one queue."""
        if origin is Origin.AMQP10:
            self.routed_amqp10 += messages
        else:
            self.routed_amqp091 += messages

    def counts(self) -> dict[str, int | float]:
        """All of them, by name."""
        return asdict(self)
