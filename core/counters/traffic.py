"""What all connections of one protocol have done since the start: plain integers, added to once per run.

One object is shared by the front ends of a protocol, so the sums do not go down when a connection closes. Snapshots and
metrics read them.
"""

from dataclasses import dataclass, field, fields

from core.access.logins import Logins
from core.counters.flow_totals import FlowTotals
from core.counters.message_sizes import MessageSizes


@dataclass(slots=True)
class Traffic:
    """Counts of one protocol. All only grow, except the numbers of things that are open now."""

    messages_received: int = 0
    """Sent by publishers."""
    messages_received_confirm: int = 0
    """Those of them for which the publisher wants a confirm."""
    messages_confirmed: int = 0
    """Accepted by a queue, and confirmed to the publisher."""
    messages_unroutable_dropped: int = 0
    """Dropped because no queue was bound for them; the publisher was not told."""
    messages_unroutable_returned: int = 0
    """Returned to the publisher because no queue was bound for them."""
    messages_delivered: int = 0
    """Handed to consumers, each time again; those of basic.get included."""
    messages_delivered_consume_auto_ack: int = 0
    messages_delivered_consume_manual_ack: int = 0
    messages_delivered_get_auto_ack: int = 0
    messages_delivered_get_manual_ack: int = 0
    messages_get_empty: int = 0
    """Calls of basic.get that found the queue empty."""
    messages_redelivered: int = 0
    messages_acknowledged: int = 0
    """Settled by consumers as accepted."""
    publishers: int = 0
    """How many there are now."""
    consumers: int = 0
    """How many there are now."""
    channels: int = 0
    """How many there are now, where the protocol has channels."""
    channels_opened: int = 0
    sizes: MessageSizes = field(default_factory=MessageSizes)
    """Of those that publishers sent, as they are encoded."""
    flow: FlowTotals = field(default_factory=FlowTotals)
    logins: Logins = field(default_factory=Logins)

    def counts(self) -> dict[str, int]:
        """All counts that are single numbers, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if isinstance(value, int)}
