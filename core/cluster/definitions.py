"""Definitions of quorum queues as the engine keeps them for all nodes of a cluster.

A quorum queue has the same identity on all nodes, and its number in the logs is taken from that. Its definition in a
node's own data folder is a copy.
"""

from typing import NamedTuple

import cbor2

from core.cluster.keys import ClusterKeys
from core.interface import QueueDeclaration

NUMBER_DIGITS = 15
"""Hexadecimal digits of the identity that make the number: 60 bits, so that two of a million queues have the same
number in one of two million clusters."""


class SharedQueue(NamedTuple):
    """One quorum queue."""

    virtual_host: str
    declaration: QueueDeclaration
    identity: str


def number_in_logs(identity: str) -> int:
    """The number of a queue in the log of its group."""
    return int(identity[:NUMBER_DIGITS], 16)


def group_of(identity: str, groups: int) -> int:
    """The group of a queue, from 1."""
    return number_in_logs(identity) % groups + 1


def queue_key(keys: ClusterKeys, virtual_host: str, name: str) -> bytes:
    """The key of a queue. Names may have any characters, so their lengths are in the key."""
    host = virtual_host.encode()
    return keys.queues + b"%d:" % len(host) + host + b"/" + name.encode()


def encoded(queue: SharedQueue) -> bytes:
    """The value of a queue's key."""
    one = queue.declaration
    return cbor2.dumps([queue.virtual_host, one.name, dict(one.arguments), one.auto_delete, queue.identity])


def decoded(data: bytes) -> SharedQueue | None:
    """The queue in a value; None if it is none."""
    try:
        host, name, arguments, auto_delete, identity, *_ = cbor2.loads(data)
        declaration = QueueDeclaration(
            name=name, durable=True, exclusive=False, auto_delete=bool(auto_delete), arguments=arguments
        )
        number_in_logs(identity)
        return SharedQueue(str(host), declaration, str(identity))
    except (cbor2.CBORDecodeError, TypeError, ValueError):
        return None
