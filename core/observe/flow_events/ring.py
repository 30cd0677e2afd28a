"""A bounded ring of records that wait to be packed.

When it is full the oldest records are dropped and counted, and a ``dropped`` record takes their place.

Invariant: records put = records taken + records waiting + records counted by the ``dropped`` records taken and by the
one that is due.
"""

from collections import deque

from core.observe.flow_events.schema import EventKind, FlowEventRecord


class RecordRing:
    """At most ``records_max`` records, oldest first."""

    __slots__ = ("_dropped", "_dropped_from", "_dropped_until", "_records", "_records_max", "dropped_ever")

    def __init__(self, records_max: int) -> None:
        assert records_max > 0
        self._records_max = records_max
        self._records: deque[FlowEventRecord] = deque()
        self._dropped = 0
        self._dropped_from = 0.0
        self._dropped_until = 0.0
        self.dropped_ever = 0
        """Records dropped since the start."""

    def __len__(self) -> int:
        """How many records can be taken, the ``dropped`` record included."""
        return len(self._records) + (1 if self._dropped else 0)

    def put(self, record: FlowEventRecord) -> None:
        """Add a record, in place of the oldest if the ring is full."""
        if len(self._records) >= self._records_max:
            self._drop(self._records.popleft())
        self._records.append(record)

    def take(self) -> FlowEventRecord:
        """Return the oldest record. There must be one."""
        if not self._dropped:
            return self._records.popleft()
        fields = {"records": self._dropped, "until": self._dropped_until}
        self._dropped = 0
        return FlowEventRecord(EventKind.DROPPED, self._dropped_from, fields)

    def clear(self) -> None:
        """Drop all records: they are not wanted any more."""
        self._records.clear()
        self._dropped = 0

    def _drop(self, record: FlowEventRecord) -> None:
        if not self._dropped:
            self._dropped_from = record.at
        self._dropped += 1
        self._dropped_until = record.at
        self.dropped_ever += 1
