"""Tests that run once for each type of queue, on a broker with storage.

On the wire the types differ in two ways only: a consumer of a stream says where it begins, and a stream keeps messages
that were read.
"""

import pytest

from amqp10.wire.messaging import Source
from amqp10.wire.types import Described, Symbol

OFFSET = "rabbitmq:stream-offset-spec"

for_each_type = pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
for_each_queue_type = pytest.mark.parametrize("kind", ["classic", "quorum"])
"""The types of queues that hand each message to one consumer."""


def from_first(address: str) -> Source:
    """A source that begins at the first message. Types other than streams leave the filter out of their answer."""
    return Source(address=address, filter={OFFSET: Described(Symbol(OFFSET), "first")})
