"""A recorded conversation: the bytes of one client and of the broker, in turns.

A step is a piece of bytes that the client sent at once, and all bytes with which the broker answered before the client
sent the next piece. A conversation has one connection or several that follow each other. The file is JSON, compressed
with xz; bytes are written as hexadecimal digits, which compress well where frames repeat.
"""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path

CONVERSATIONS = Path(__file__).parent / "conversations"
FIRST_BROKER = "eae35cd"
"""The commit whose broker the first recordings were made with. Their folder has its name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One piece from the client and the broker's answer, which may be empty."""

    client: bytes
    broker: bytes


@dataclass(frozen=True, slots=True)
class RecordedConnection:
    """One connection, from its first byte on."""

    steps: list[Step]
    broker_closes: bool
    """Whether the broker closed the socket before the client did."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The connections of one run of a client's script."""

    client: str
    """The client and its version."""
    broker: str
    """The commit of the broker."""
    connections: list[RecordedConnection]

    def save(self, path: Path) -> None:
        """Write the file."""
        connections = [
            {
                "steps": [[step.client.hex(), step.broker.hex()] for step in one.steps],
                "broker_closes": one.broker_closes,
            }
            for one in self.connections
        ]
        text = json.dumps({"client": self.client, "broker": self.broker, "connections": connections})
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))

    @classmethod
    def load(cls, path: Path) -> "Conversation":
        """Read a file that :meth:`save` wrote."""
        document = json.loads(lzma.decompress(path.read_bytes()))
        connections = [
            RecordedConnection(
                [Step(bytes.fromhex(client), bytes.fromhex(broker)) for client, broker in one["steps"]],
                one["broker_closes"],
            )
            for one in document["connections"]
        ]
        return cls(document["client"], document["broker"], connections)


def path_of(client: str, *, first: bool = False) -> Path:
    """The file of a client's conversation: with the first broker, or with the broker of today.

    A broker of today that gives the same bytes as the first one has no file of its own.
    """
    of_first, of_today = CONVERSATIONS / FIRST_BROKER / f"{client}.xz", CONVERSATIONS / f"{client}.xz"
    return of_first if first or not of_today.exists() else of_today
