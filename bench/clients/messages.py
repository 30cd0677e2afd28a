"""The messages of a plan as other projects' clients send and receive them: bodies, content, and the check of both.

The same as bench/clients/go/plan.go and check.go.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from amqp10.load import content as own
from amqp10.load.checks import LATENCY_MICROSECONDS_MAX, latency_histogram
from amqp10.load.ledger import Ledger
from amqp10.load.plan import PlannedTraffic
from bench.clients.programs import paddings

CONTENT_TYPE = own.CONTENT_TYPE.decode()
DEFAULT_PRIORITY = own.DEFAULT_PRIORITY[0]
"""Of a message without a header, or whose header has no priority [3.2.1]."""

_NUMBERS = struct.Struct(">IQ")
_STAMP = struct.Struct(">Q")

Properties = dict[str, int | str | bool]


@dataclass(frozen=True, slots=True)
class Content:
    """What a message has beside its body, or None where it has no such thing."""

    message_id: str | None = None
    content_type: str | None = None
    properties: Properties = field(default_factory=dict)
    priority: int | None = None


class Messages:
    """The messages of a plan, by publisher and sequence number."""

    def __init__(self, traffic: PlannedTraffic) -> None:
        self._traffic = traffic
        self._paddings = paddings(traffic)

    def padding(self, sequence: int) -> bytes:
        """The bytes behind the numbers of a body."""
        return self._paddings[sequence % len(self._paddings)]

    def body(self, publisher: int, sequence: int, intended_ns: int) -> bytes:
        """A whole body; the intended send time is part of it at an offered rate only."""
        stamp = _STAMP.pack(intended_ns) if self._traffic.stamped else b""
        return _NUMBERS.pack(publisher, sequence) + stamp + self.padding(sequence)

    def content(self, publisher: int, sequence: int) -> Content:
        """What the message has beside its body."""
        kind = self._traffic.content
        if kind == "alike":
            return Content()
        message_id = f"{publisher}-{sequence}"
        if kind == "ids":
            return Content(message_id, CONTENT_TYPE)
        properties: Properties = {
            "number": sequence,
            "kind": f"kind-{sequence % 7}",
            "odd": (publisher + sequence) % 2 == 1,
        }
        return Content(
            message_id, CONTENT_TYPE, properties, sequence % own.PRIORITIES if kind == "priorities" else None
        )


class MessageChecker:
    """The ledger of one consumer. A message that is not as it was sent counts as corrupted, and as lost too."""

    def __init__(self, traffic: PlannedTraffic) -> None:
        self.ledger = Ledger()
        self.latency = latency_histogram()
        self.corrupted = 0
        self.last_arrival_ns = 0
        self._traffic = traffic
        self._messages = Messages(traffic)

    def take(self, body: bytes, content: Content, now_ns: int) -> None:
        """Check and note a message. A field of `content` that was not sent may have any value."""
        self.last_arrival_ns = now_ns
        head = self._traffic.numbers_bytes
        if len(body) < head:
            self.corrupted += 1
            return
        publisher, sequence = _NUMBERS.unpack_from(body)
        if body[head:] != self._messages.padding(sequence) or not self._intact(publisher, sequence, content):
            self.corrupted += 1
            return
        self.ledger.add(publisher, sequence, 1)
        if self._traffic.stamped:
            microseconds = (now_ns - _STAMP.unpack_from(body, _NUMBERS.size)[0]) // 1000
            self.latency.record_value(min(max(microseconds, 1), LATENCY_MICROSECONDS_MAX))

    def _intact(self, publisher: int, sequence: int, content: Content) -> bool:
        if self._traffic.content == "alike":
            return True
        sent = self._messages.content(publisher, sequence)
        return (
            (content.message_id, content.content_type) == (sent.message_id, sent.content_type)
            and all(content.properties.get(name) == value for name, value in sent.properties.items())
            and sent.priority in (None, content.priority)
        )
