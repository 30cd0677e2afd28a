"""Which queues a query has read: their identities, by which one that was declared anew is recognised."""

from collections.abc import Mapping

from amqp10.blocking.links import ReceivingLink
from pyspark_amqp10.offsets import Numbers, QueueOffset
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.queue_depths import QueueDepths
from pyspark_amqp10.stream_source import is_another, lost


class KnownQueues:
    """The queues of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self.identities: dict[str, str] = {}
        """The identity of each queue's declaration, by its address, as last seen."""
        self._options = options

    def begin(self, link: ReceivingLink, begin: QueueOffset, depths: QueueDepths) -> QueueOffset:
        """How far the present queue has been read: not at all, if it is not the queue that was read before.

        An offset of an earlier version has no identity. It counts as an offset of this queue, unless it has numbers
        that the queue has not given yet. Raises DataLost.
        """
        address, told = link.address, link.queue_identity
        if told is None:
            return begin
        known = self.identities.get(address)
        anew = is_another(self._options, address, known, told)
        if known is None and begin.committed.ranges:
            following, last = depths.next_sequence(address), begin.committed.ranges[-1][1]
            anew = following is not None and following <= last
            if anew:
                lost(
                    self._options,
                    f"{address} was deleted and declared anew: the query has read the number {last}, and the queue "
                    f"that is there now, with the identity {told}, has given {following} numbers; another "
                    "checkpointLocation begins a new query",
                )
        self.identities[address] = told
        return begin._replace(committed=Numbers()) if anew else begin

    def differ(self, begins: Mapping[str, QueueOffset], written: Mapping[str, str]) -> bool:
        """Whether an offset with these identities has to be written anew, although no message has come."""
        return any(
            self.identities.get(address) != written.get(address)
            for address, begin in begins.items()
            if address in written or begin.committed.ranges
        )
