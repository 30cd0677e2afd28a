"""Definitions of quorum queues as the engine keeps them for all nodes of a cluster.

The definition in a node's own data folder is a copy.
"""

import cbor2

from core.cluster.keys import ClusterKeys
from core.engine.quorum.groups import SharedQueue, number_in_log
from core.interface import QueueDeclaration


def queue_key(keys: ClusterKeys, virtual_host: str, name: str) -> bytes:
    """The key of a queue. Names may have any characters, so the length of the first is in the key."""
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
        number_in_log(identity)
        if not (isinstance(host, str) and isinstance(name, str) and isinstance(arguments, dict)):
            return None
    except (cbor2.CBORDecodeError, TypeError, ValueError):
        return None
    return SharedQueue(host, QueueDeclaration(name=name, auto_delete=bool(auto_delete), arguments=arguments), identity)
