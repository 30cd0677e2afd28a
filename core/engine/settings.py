"""The limits of the engine. Every list in the engine that can grow has a limit here or is bounded by link credit."""

from dataclasses import dataclass

from core.credit_flow.flow import GENERAL, TO_STORE, StageCreditSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHostSettings:
    """The settings of one virtual host."""

    queue_messages_per_turn: int | None = 10_000
    """How many messages a queue takes on in one turn; the others wait in its inbox, unconfirmed. None means no limit.
    At 0.5 µs for each message, one queue delays the others by 5 ms at most."""
    queue_work_per_turn: int = 3_000
    """Units of :mod:`core.work` that all queues together may spend in one turn of the engine. At 1 µs for each unit
    they delay the connections by 3 ms."""
    stage_credit: StageCreditSpec = GENERAL
    """The stage credit that a queue gives each publisher that uses it."""
    store_stage_credit: StageCreditSpec = TO_STORE
    """The stage credit that the message store gives each queue, counted in bodies that go to the store."""
    queues_max: int = 10_000
    """Queues, dynamic ones included. An empty queue costs about 14 KiB of memory."""
    exchanges_max: int = 1_000
    """Exchanges, the built-in ones included."""
    bindings_max: int = 100_000
    """Bindings, all exchanges together."""
    policies_max: int = 100
    """Policies. Each is matched when a queue is declared."""
    paging_ratio: float = 0.5
    """Share of the memory watermark at which queues begin to page out to disk; above 1 they never do."""
    cached_routes_max: int = 10_000
    """How many routing results are cached, by exchange and routing keys. A full cache is emptied."""
    name_bytes_max: int = 255
    """Length of queue and exchange names in UTF-8: what 0.9.1 can carry in a short string [0-9-1 4.2.5.3]."""
