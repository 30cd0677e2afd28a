"""Messages that a consumer holds without being sent them, and what is said about them.

A *holder* is a consumer that gets no link credit: requests have its queue give it ready messages to hold, and settle
them. Other consumers get copies of what it holds. docs/design/queue-in-parallel.md has the reasons.
"""

from typing import NamedTuple

HOLDER_BYTES_MAX = 255
"""The longest name of a holder."""
HOLD_MESSAGES_MAX = 100_000
HOLD_BYTES_MAX = 256 * 2**20
"""The most messages and bytes of one request; a holder may ask again."""
HOLD_RANGES_MAX = 256
"""The most ranges of sequence numbers in the answer to one request. A request ends early where it has so many."""


class Hold(NamedTuple):
    """A request for messages to hold."""

    holder: str
    """The name that the consumer has given itself."""
    messages: int
    """The most messages."""
    size: int
    """The most bytes of messages as they are stored. The first message is held whatever its size is."""
    through: int | None = None
    """The highest sequence number that is wanted; None for any."""


class Held(NamedTuple):
    """What was given to a holder."""

    ranges: list[tuple[int, int]]
    """Sequence numbers, first and last, in the order in which the messages would have been delivered."""
    messages: int
    size: int
    """Bytes of the messages as they are stored."""


class HeldRange(NamedTuple):
    """Some of the messages that a consumer holds, by their sequence numbers, both inclusive."""

    holder: str
    first: int
    last: int
