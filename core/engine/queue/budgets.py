"""How much one turn of a queue may do. What is left comes in the next turn, behind the other queues."""

REMOVALS_PER_TURN = 10_000
"""How many messages may expire or be pushed out in one turn of a queue; equal to the default of
``queue_messages_per_turn``."""

DISPATCH_WORK = 4_000
"""The most work that one dispatch spends on deliveries and settlements, in units of :mod:`core.work`; the rest is done
in the next turn."""

DELIVERY_WORK = 4
"""The cost of delivering one run to a consumer, in these units."""

REMOVED_AT_ONCE = 1024
"""The most messages in one batch that is removed; the length of a record of the memory backing."""
