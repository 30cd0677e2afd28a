"""The engine's limits. Every list in it that could grow has one here, or is bounded by link credit."""

from dataclasses import dataclass

from core.credit_flow.flow import GENERAL, TO_STORE, StageCreditSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What can be set for one virtual host."""

    queue_messages_per_turn: int | None = 10_000
    """How many messages a queue takes on in one turn; the rest wait and are not confirmed. None is no limit.
    At 0.5 µs for each message one queue keeps the others waiting for 5 ms at most."""
    queue_work_per_turn: int = 3_000
    """Units of :mod:`core.work` that all queues together may spend in one turn of the engine. At 1 us each, they keep
    the connections waiting for 3 ms."""
    stage_credit: StageCreditSpec = GENERAL
    """What a queue lets each publisher send that has stage credit."""
    store_stage_credit: StageCreditSpec = TO_STORE
    """What the message store lets each queue send, in bodies that go there."""
    queues_max: int = 10_000
    """Queues, dynamic ones included. An empty queue costs about 2 KiB."""
    exchanges_max: int = 1_000
    """Exchanges, the built-in ones included."""
    bindings_max: int = 100_000
    """Bindings, all exchanges together."""
    policies_max: int = 100
    """Policies. Each is looked at when a queue is declared."""
    paging_ratio: float = 0.5
    """Share of the memory watermark from which on queues page to disk; above 1 they never do."""
    cached_routes_max: int = 10_000
    """How many pairs of exchange and routing key are kept with their result; the cache starts anew when
    full."""
    name_bytes_max: int = 255
    """Length of queue and exchange names in UTF-8: what 0.9.1 can carry in a short string [0-9-1 4.2.5.3]."""
