"""The plan of one load process: plain data, sent as one line of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

Shape = Literal["bulk", "unbatched"]
Protocol = Literal["1.0", "0.9.1"]
Shared = Literal["nothing", "connection", "session"]
Content = Literal["alike", "ids", "properties", "priorities"]

NUMBERED_BYTES = 12
"""The smallest body: 4 bytes publisher id, 8 bytes sequence number."""
STAMPED_BYTES = 20
"""The smallest body at an offered rate: the same, then 8 bytes intended send time."""
KEYS_MAX = 100_000
"""The number of a routing key has five digits."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
PATIENCE_SECONDS = 10.0
"""Longer than any pause of a working broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTraffic:
    """The messages and how they are sent; the same for every publisher of a run.

    shape: *bulk* writes as many frames per system call as link credit, window and 128 KiB allow and settles
      ranges; *unbatched* writes one frame per system call and settles each message on its own.
    size: bytes of a body.
    sizes: bytes of the bodies in turn, instead of `size`: message i has number i % len(sizes) of them.
    content: the sections of a message, other than its body. *alike*: none that differs from message to message; *ids*:
      a content-type, and a message-id of its own; *properties*: these, and three application-properties (in AMQP 0.9.1
      headers) whose values differ from message to message; *priorities*: these, and the priority i % 10.
    keys: routing keys in turn: message i has number i % keys. In AMQP 1.0 the address in `to` has the key, and the link
      goes to the anonymous terminus.
    settled: sent and received settled, so that no message is confirmed.
    durable: marked durable in the header section; without it no header section is sent.
    rate: messages per second and publisher at which they are *intended* to be sent; 0: as fast as possible.
    seconds, messages: a publisher stops at whichever limit comes first.
    in_flight: the most unsettled messages of a publisher; 0: as many as the broker allows.
    seed: for the random bytes that fill a body.
    timed: the time from sending a message to its outcome is measured at the publisher, instead of at the consumer; only
      over AMQP 1.0, with this project's own client.
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
    timed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))  # TOML and JSON have lists
        if (smallest := min(self.sizes_in_turn)) < self.numbers_bytes:
            raise ValueError(f"a body of {smallest} bytes has no room for its {self.numbers_bytes} bytes of numbers")
        if self.content not in get_args(Content):
            raise ValueError(f"no such content: {self.content!r}; known are {', '.join(get_args(Content))}")
        if not 0 < self.keys <= KEYS_MAX:
            raise ValueError(f"keys must be between 1 and {KEYS_MAX}, not {self.keys}")
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

    @property
    def sizes_in_turn(self) -> tuple[int, ...]:
        """The sizes of the bodies; message i has number i % their count."""
        return self.sizes or (self.size,)

    def lead_ns(self, publisher: int) -> int:
        """How much later than publisher 1 this one intends its first message: a part of the time between two messages.

        Multiples of the golden ratio spread any number of publishers evenly, so that their messages come one by one.
        """
        return int((publisher - 1) * GOLDEN_RATIO % 1 / self.rate * 1e9) if self.rate and publisher else 0

    def padding(self, number: int = 0) -> bytes:
        """The bytes that fill this message's body behind its numbers: random, so that they cannot be compressed on the
        way."""
        sizes = self.sizes_in_turn
        return random.Random(self.seed).randbytes(sizes[number % len(sizes)] - self.numbers_bytes)

    def parameters(self) -> dict[str, object]:
        """All fields; those that older result files lack only when they are set."""
        table = asdict(self)
        for name, value in (("content", "alike"), ("keys", 1), ("sizes", ()), ("timed", False)):
            if table[name] == value:
                del table[name]
        return table | ({"sizes": list(self.sizes)} if self.sizes else {})


def routing_key(number: int) -> str:
    """The routing key with this number; all have the same length."""
    return f"key-{number:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One connection with one session, unless it shares one; it publishes, consumes, does both, or idles.

    publish_to: the queue. exchange: if it is set, the publisher sends through this exchange instead, with the routing
      keys of `PlannedTraffic.keys` in turn; they are `routing_key(0)` and so on.
    shares: the connection of the application before it, with a session of its own, or also the session of that
      application. In AMQP 0.9.1 both mean channels of its own on the connection.
    link_credit: of its consumer; in AMQP 0.9.1 the prefetch_count.
    batch: messages that the publisher sends before it waits for all their outcomes; 0: it does not wait.
    """

    publisher: int = 0
    publish_to: str = ""
    exchange: str = ""
    consume_from: str = ""
    link_credit: int = 200
    batch: int = 0
    protocol: Protocol = "1.0"
    shares: Shared = "nothing"

    @property
    def publishes(self) -> bool:
        return bool(self.publish_to or self.exchange)


def connections_of(applications: Sequence[Application]) -> list[list[Application]]:
    """The applications of each connection."""
    return _together(applications, ("connection", "session"))


def sessions_of(applications: Sequence[Application]) -> list[list[Application]]:
    """The applications of each session of one connection."""
    return _together(applications, ("session",))


def _together(applications: Sequence[Application], shared: tuple[Shared, ...]) -> list[list[Application]]:
    groups: list[list[Application]] = []
    for one in applications:
        if groups and one.shares in shared:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one load process needs to know.

    patience_seconds: a run without any progress for this long ends, and is void if a message is missing.
    """

    url: str
    traffic: PlannedTraffic
    applications: tuple[Application, ...]
    max_frame_size: int = 131072
    patience_seconds: float = PATIENCE_SECONDS

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Plan:
        fields = json.loads(line)
        fields["traffic"] = PlannedTraffic(**fields["traffic"])
        fields["applications"] = tuple(Application(**one) for one in fields["applications"])
        return cls(**fields)
