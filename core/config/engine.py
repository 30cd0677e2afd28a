"""Settings of the engine: how much it does in one turn, and how many things it may hold."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Messages, Unit


class StageSettings(Section):
    """The budgets of the stages that a message passes. A stage that is slowed holds up what is before it."""

    queue: Messages | None = Field(default=None, ge=0)
    """Published messages that all queues together take in per turn. When not set: all that wait; 0 stops
    them."""


class EngineSettings(Section):
    """Queues, exchanges and the work on them."""

    dispatch_messages_per_turn: Messages = Field(default=4096, ge=1)
    """Messages handed to consumers before the sockets get their turn again."""

    queues_max: Annotated[int, Unit("queues")] = Field(default=100_000, ge=1)
    """Queues that may exist at once."""

    exchanges_max: Annotated[int, Unit("exchanges")] = Field(default=10_000, ge=1)
    """Exchanges that may exist at once."""

    bindings_max: Annotated[int, Unit("bindings")] = Field(default=1_000_000, ge=1)
    """Bindings that may exist at once."""

    consumers_per_queue_max: Annotated[int, Unit("consumers")] = Field(default=65_536, ge=1)
    """Consumers that may be attached to one queue."""

    stage_messages_per_turn: StageSettings = StageSettings()
