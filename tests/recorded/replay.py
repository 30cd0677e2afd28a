"""Replays a recorded conversation against a broker, in lock step, and compares what the broker says.

A piece of the client is sent when every frame that the recording has before it has come. Where the broker does not
answer a piece, ``pace`` waits until the broker has read it, so that no piece is read together with the next.
"""

import socket
from collections.abc import Callable
from time import monotonic

from tests.recorded.comparison import Comparison, ConversationDiffers, described
from tests.recorded.conversation import Conversation, RecordedConnection, Step

ANSWER_SECONDS_MAX = 20.0
"""An answer that takes longer is missing: a busy machine alone does not take this long."""


def replay(
    conversation: Conversation,
    host: str,
    port: int,
    pace: Callable[[], None],
    answer_seconds: float = ANSWER_SECONDS_MAX,
) -> Conversation:
    """Replay all connections; returns what was said. Raises ConversationDiffers at the first difference."""
    generated: dict[bytes, bytes] = {}
    said = []
    for number, recorded in enumerate(conversation.connections):
        comparison = Comparison(recorded.steps[0].client, generated)
        with socket.create_connection((host, port), answer_seconds) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = _Reader(connection, comparison, answer_seconds)
            said.append(_replay_connection(recorded, comparison, reader, pace, f"connection {number}"))
    return Conversation(conversation.client, conversation.broker, said)


def _replay_connection(
    recorded: RecordedConnection, comparison: Comparison, reader: "_Reader", pace: Callable[[], None], where: str
) -> RecordedConnection:
    steps = []
    for number, step in enumerate(recorded.steps):
        piece = comparison.as_of_replay(step.client)
        reader.send(piece)
        expected, rest = comparison.frames(step.broker)
        assert not rest, f"{where}, step {number}: the recording has a part of a frame"
        seen = reader.frames(len(expected))
        pace()
        seen += reader.at_hand()
        comparison.compare(expected, seen, f"{where}, step {number}")
        steps.append(Step(piece, b"".join(seen)))
    more = reader.until_closed() if recorded.broker_closes else reader.rest
    if more:
        raise ConversationDiffers(f"{where}: after the last frame of the recording came {described(more)}")
    return RecordedConnection(steps, recorded.broker_closes)


class _Reader:
    """What the broker says on one connection."""

    def __init__(self, connection: socket.socket, comparison: Comparison, answer_seconds: float) -> None:
        self._connection = connection
        self._comparison = comparison
        self._answer_seconds = answer_seconds
        self.rest = b""
        """The beginning of a frame that has not come as a whole."""
        self._closed = False

    def send(self, piece: bytes) -> None:
        """Send bytes of the client, unless the broker has closed the connection."""
        if not self._closed:
            self._connection.sendall(piece)

    def frames(self, count: int) -> list[bytes]:
        """The next frames, as many as are expected, or fewer when no more come."""
        deadline = monotonic() + self._answer_seconds
        frames: list[bytes] = []
        while len(frames) < count and not self._closed and (left := deadline - monotonic()) > 0:
            frames += self._received(left)
        return frames

    def at_hand(self) -> list[bytes]:
        """The frames that have come without waiting for more."""
        frames: list[bytes] = []
        while not self._closed and (came := self._received(0.0)):
            frames += came
        return frames

    def until_closed(self) -> bytes:
        """Everything that comes until the broker closes. Raises ConversationDiffers when it does not."""
        frames = self.frames(1)
        if not self._closed and not frames:
            raise ConversationDiffers("the broker did not close the connection, as it did in the recording")
        return b"".join(frames) + self.rest

    def _received(self, seconds: float) -> list[bytes]:
        self._connection.settimeout(seconds)
        try:
            data = self._connection.recv(262_144)
        except (TimeoutError, BlockingIOError):
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            self._closed = True
        frames, self.rest = self._comparison.frames(self.rest + data)
        return frames
