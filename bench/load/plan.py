"""The plan of one load process: plain data, sent as one line of JSON."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import Literal, get_args

Shape = Literal["bulk", "unbatched"]
Protocol = Literal["1.0", "0.9.1"]
Content = Literal["alike", "ids", "properties", "priorities"]

NUMBERED_BYTES = 12
"""The smallest body: 4 bytes publisher id, 8 bytes sequence number."""
STAMPED_BYTES = 20
"""The smallest body at an offered rate: the same, then 8 bytes intended send time."""
PATIENCE_SECONDS = 10.0
"""Longer than any pause of a working broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The messages and how they are sent; the same for every publisher of a run.

    shape: *bulk* writes as many frames per system call as link credit, window and 128 KiB allow and settles
      ranges; *unbatched* writes one frame per system call and settles each message on its own.
    size: bytes of a body.
    settled: sent and received settled, so that no message is confirmed.
    durable: marked durable in the header section; without it no header section is sent.
    rate: messages per second and publisher at which they are *intended* to be sent; 0: as fast as possible.
    seconds, messages: a publisher stops at whichever limit comes first.
    in_flight: the most unsettled messages of a publisher; 0: as many as the broker allows.
    seed: for the random bytes that fill a body.
    content: of a message beside its body: *alike* nothing; *ids* a unique message-id and a content-type; *properties*
      these and three application-properties (headers in AMQP 0.9.1) whose values differ; *priorities* these and the
      header's priority i % 10, for message i.
    keys: message i goes to routing key i % keys of a direct exchange, of which all keys are bound to the queue; over
      AMQP 1.0 through the anonymous terminus.
    sizes: bytes of a body in turn, in place of `size`.
    """

    shape: Shape = "bulk"
    size: int = NUMBERED_BYTES
    settled: bool = False
    durable: bool = False
    rate: float = 0.0
    seconds: float = 3.0
    messages: int = 1_000_000
    in_flight: int = 0
    seed: int = 1
    content: Content = "alike"
    keys: int = 1
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        smallest = min(self.sizes, default=self.size)
        if smallest < self.numbers_bytes:
            raise ValueError(f"a body of {smallest} bytes has no room for its {self.numbers_bytes} bytes of numbers")
        if self.content not in get_args(Content):
            raise ValueError(f"no such content: {self.content!r}")
        if self.keys < 1:
            raise ValueError(f"keys must be at least 1, not {self.keys}")
        if not 0 < self.messages < 2**32:
            raise ValueError("messages must be between 1 and 2^32 - 1: delivery-ids do not wrap here")

    @property
    def messages_max(self) -> int:
        """How many messages a publisher sends; at an offered rate all intended messages, however late."""
        return min(self.messages, int(self.rate * self.seconds)) if self.rate else self.messages

    @property
    def stamped(self) -> bool:
        """Whether a body carries its intended send time."""
        return self.rate > 0

    @property
    def numbers_bytes(self) -> int:
        return STAMPED_BYTES if self.stamped else NUMBERED_BYTES

    def padding(self) -> bytes:
        """The bytes that fill a body behind its numbers: random, so that they cannot be compressed on the way."""
        return random.Random(self.seed).randbytes(self.size - self.numbers_bytes)


def routing_key(number: int) -> str:
    """A routing key of the exchange through which traffic with several keys goes; the exchange has the queue's name."""
    return f"key-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One connection with one session; it publishes, consumes, does both, or idles.

    link_credit: of its consumer; in AMQP 0.9.1 the prefetch_count.
    batch: messages that the publisher sends before it waits for all their outcomes; 0: it does not wait.
    """

    publisher: int = 0
    publish_to: str = ""
    consume_from: str = ""
    link_credit: int = 200
    batch: int = 0
    protocol: Protocol = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one load process needs to know.

    patience_seconds: a run without any progress for this long ends, and is void if a message is missing.
    """

    url: str
    traffic: Traffic
    applications: tuple[Application, ...]
    max_frame_size: int = 131072
    patience_seconds: float = PATIENCE_SECONDS

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Plan:
        fields = json.loads(line)
        fields["traffic"] = Traffic(**fields["traffic"] | {"sizes": tuple(fields["traffic"]["sizes"])})
        fields["applications"] = tuple(Application(**one) for one in fields["applications"])
        return cls(**fields)
