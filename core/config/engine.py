"""Settings of the engine: how much it does in one turn, and how many things it may hold."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Messages, Unit


class StageSettings(Section):
    """How many messages each stage on a message's way processes in a turn. A stage that is slowed holds up those before
    it."""

    channel: Messages = Field(default=200, ge=0)
    """Published messages that one AMQP 0.9.1 channel processes per turn. 200 is the size of one grant of stage credit:
    then a queue that keeps up never blocks its channel, so a blocked channel means a slow queue. 0 stops it."""

    queue: Messages = Field(default=10_000, ge=0)
    """Published messages that one queue takes in per turn: at 0.5 us each, this blocks the event loop for 5 ms. 0 stops
    it."""


class WorkSettings(Section):
    """How much work may be done in one turn, in units of about a microsecond: looking at a binding, detaching a link,
    putting a message into a queue. The rest waits until other connections have had their turn."""

    peer: Annotated[int, Unit("units of work")] = Field(default=2_000, ge=100, le=10**6)
    """Work that one connection may cause in a turn: with its methods, frames and messages, and when it ends."""

    queues: Annotated[int, Unit("units of work")] = Field(default=3_000, ge=100, le=10**6)
    """Work of all queues together in a turn: taking messages in, handing them out, expiring them, taking them back."""


class EngineSettings(Section):
    """Limits on queues and exchanges, and on the work on them."""

    queues_max: Annotated[int, Unit("queues")] = Field(default=10_000, ge=1)
    """Queues that may exist at once, dynamic ones included. An empty queue costs about 14 KiB of memory."""

    exchanges_max: Annotated[int, Unit("exchanges")] = Field(default=1_000, ge=1)
    """Exchanges that may exist at once, the built-in ones included."""

    bindings_max: Annotated[int, Unit("bindings")] = Field(default=100_000, ge=1)
    """Bindings that may exist at once, of all exchanges together."""

    policies_max: Annotated[int, Unit("policies")] = Field(default=100, ge=0)
    """Policies that may exist at once. Each is looked at whenever a queue is declared."""

    publishing_id_ranges_max: Annotated[int, Unit("ranges")] = Field(default=10_000, ge=2, le=10**6)
    """Ranges of publishing ids that a queue with x-deduplicate remembers for each priority level. Ids that follow each
    other are one range, and each takes some 200 bytes. Beyond it, the publishers that published least recently are
    forgotten. All nodes of a cluster should have the same value."""

    cached_routes_max: Annotated[int, Unit("routes")] = Field(default=10_000, ge=1)
    """Routing results that are cached, by exchange and routing keys. A full cache is emptied."""

    stage_messages_per_turn: StageSettings = StageSettings()

    work_per_turn: WorkSettings = WorkSettings()
