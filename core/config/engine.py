"""Settings of the engine: how much it does in one turn, and how many things it may hold."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Messages, Unit


class StageSettings(Section):
    """The budgets of the stages that a message passes. A stage that is slowed holds up what is before it."""

    channel: Messages = Field(default=200, ge=0)
    """Published messages that one AMQP 0.9.1 channel takes on per turn. 200 is what one grant of stage credit brings: a
    queue that keeps up never blocks its channel then, so a channel that is blocked has a slow queue. 0 stops it."""

    queue: Messages = Field(default=10_000, ge=0)
    """Published messages that one queue takes in per turn: at 0.5 us each, 5 ms of everybody's time. 0 stops it."""


class WorkSettings(Section):
    """What may be done in one turn, in units of about a microsecond: a binding that is looked at, a link that is
    detached, a message that goes into a queue. What is left waits until the others have had their turn."""

    peer: Annotated[int, Unit("units of work")] = Field(default=2_000, ge=100, le=10**6)
    """What one connection may cause: with its methods, frames and messages, and when it ends."""

    queues: Annotated[int, Unit("units of work")] = Field(default=3_000, ge=100, le=10**6)
    """What all queues together may do: take messages on, hand them out, let them expire, give them back."""


class EngineSettings(Section):
    """Queues, exchanges and the work on them."""

    queues_max: Annotated[int, Unit("queues")] = Field(default=10_000, ge=1)
    """Queues that may exist at once, dynamic ones included. An empty queue costs about 2 KiB."""

    exchanges_max: Annotated[int, Unit("exchanges")] = Field(default=1_000, ge=1)
    """Exchanges that may exist at once, the built-in ones included."""

    bindings_max: Annotated[int, Unit("bindings")] = Field(default=100_000, ge=1)
    """Bindings that may exist at once, of all exchanges together."""

    policies_max: Annotated[int, Unit("policies")] = Field(default=100, ge=0)
    """Policies that may exist at once. Each is looked at whenever a queue is declared."""

    stage_messages_per_turn: StageSettings = StageSettings()

    work_per_turn: WorkSettings = WorkSettings()
