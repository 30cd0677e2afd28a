"""The checks of one consumer's deliveries, in either protocol.

Every message is checked whole: the numbers and bytes of its body, and each value of its other sections
(`amqp10.load.content`). A message with a fault in one of them counts as corrupted and is not entered in the ledger. The
order of the others, and whether all have come, is judged at the end (`amqp10.load.ledger`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hdrh.histogram import HdrHistogram

from amqp10.load.content import SEQUENCES, Buffer, ValueSpan, values_of
from amqp10.load.delivery import DeliveryRun, DeliveryShape, Places
from amqp10.load.ledger import Ledger
from amqp10.load.plan import PlannedTraffic

LATENCY_MICROSECONDS_MAX = 60_000_000
LATENCY_DIGITS = 3
SHAPES_MAX = 64
"""Shapes that are kept; more than sizes, widths of numbers and absent defaults together give."""

_NUMBERS = struct.Struct(">IQ")


def latency_histogram() -> HdrHistogram:
    """A histogram of the time from intended send to arrival, in microseconds."""
    return HdrHistogram(1, LATENCY_MICROSECONDS_MAX, LATENCY_DIGITS)


class Checks:
    """What one consumer has received, and the shapes in which it came."""

    __slots__ = (
        "_mixed",
        "_numbers_bytes",
        "_paddings",
        "_shapes",
        "_stamped",
        "corrupted",
        "latency",
        "ledger",
        "values",
    )

    def __init__(self, traffic: PlannedTraffic) -> None:
        self.ledger = Ledger()
        self.latency = latency_histogram()
        self.corrupted = 0
        self.values = values_of(traffic)
        self._stamped = traffic.stamped
        self._numbers_bytes = traffic.numbers_bytes
        self._paddings = [traffic.padding(turn) for turn in range(len(traffic.sizes_in_turn))]
        self._mixed = len(self._paddings) > 1
        self._shapes: dict[int, DeliveryShape] = {}

    def run(self, data: bytes, at: int, now_ns: int) -> tuple[DeliveryRun, DeliveryShape] | None:
        """Check and note the run of deliveries at `at`; None when the first has no shape that is known."""
        for shape in self._shapes.values():
            if (run := shape.run(data, at)) is not None:
                self._note(run, now_ns)
                return run, shape
        return None

    def _note(self, run: DeliveryRun, now_ns: int) -> None:
        if run.scattered is None:
            self.ledger.add(run.publisher, run.first_sequence, run.deliveries)
        else:
            for publisher, sequence in run.scattered:
                self.ledger.add(publisher, sequence, 1)
        for stamp in run.stamps:
            self._record(stamp, now_ns)

    def learn(self, frame: bytes, places: Places) -> None:
        """Learn the shape of a delivery that was as it must be, if all its values have their full width."""
        widths = {name: len(value.raw(0, 0)) for name, value in self.values.items()}
        if any(end - start != widths[name] for name, start, end in places.values):
            return
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        shape = DeliveryShape(frame, places, self.values, stamped=self._stamped, mixed=self._mixed)
        self._shapes[shape.stride] = shape

    def message(self, sections: Buffer, places: Sequence[ValueSpan], body: Buffer, start: int, now_ns: int) -> bool:
        """Check and note one message; returns whether it is as it must be.

        sections: the bytes in which the values have these places. body: the bytes whose end is the end of the body,
        which begins at `start`; it is not copied, because it may be large.
        """
        publisher, sequence = _NUMBERS.unpack_from(body, start) if len(body) >= start + self._numbers_bytes else (0, -1)
        padding = self._paddings[sequence % len(self._paddings)]
        whole = len(body) == start + self._numbers_bytes + len(padding) and body.endswith(padding)
        if not whole or not self._as_sent(sections, places, publisher, sequence):
            self.corrupted += 1
            return False
        self.ledger.add(publisher, sequence, 1)
        if self._stamped:
            self._record(struct.unpack_from(">Q", body, start + _NUMBERS.size)[0], now_ns)
        return True

    def _as_sent(self, sections: Buffer, places: Sequence[ValueSpan], publisher: int, sequence: int) -> bool:
        if not self.values:
            return True
        if sequence >= SEQUENCES:
            return False
        missing = [self.values[name] for name in self.values.keys() - {place.name for place in places}]
        return all(
            self.values[name].equals(sections[start:end], publisher, sequence) for name, start, end in places
        ) and all(value.default == value.raw(publisher, sequence) for value in missing)

    def _record(self, stamp_ns: int, now_ns: int) -> None:
        microseconds = (now_ns - stamp_ns) // 1000
        self.latency.record_value(min(max(microseconds, 1), LATENCY_MICROSECONDS_MAX))
