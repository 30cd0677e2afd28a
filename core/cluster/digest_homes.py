"""The home of a queue among several processes on one port: the node with the highest digest of virtual host, name and
node. Every node computes it alike, and nothing is stored.

An exclusive queue lives on the node of its connection, and all nodes are told which it is. So do the queues of dynamic
nodes and of direct replies: their names end with the number of the node.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

DIGEST_BYTES = 8
_PASSING = re.compile(r"amq\.(?:dyn-.*-|rabbitmq\.reply-to\.)[0-9a-f]+n([0-9]+)", re.DOTALL)


def marked(unique: str, node: str) -> str:
    """Return the part of a name that no client can guess, with the number of the node behind it."""
    return f"{unique}n{node}"


def node_in_name(queue: str) -> str | None:
    """Return the node of the queue of a dynamic node or of direct replies; None for any other queue."""
    found = _PASSING.fullmatch(queue)
    return None if found is None else found[1]


def homes_by_digest(
    nodes: Sequence[str], placed: Mapping[tuple[str, str], str] | None = None
) -> Callable[[str, str], str]:
    """Return the function that says on which of these nodes a queue of a virtual host lives. ``placed`` has the nodes
    of exclusive queues."""
    exclusive = placed if placed is not None else {}

    def home_of(virtual_host: str, queue: str) -> str:
        said = exclusive.get((virtual_host, queue)) or node_in_name(queue)
        return said or max(nodes, key=lambda node: _digest(virtual_host, queue, node))

    return home_of


def _digest(*parts: str) -> bytes:
    """Each part has its length before it, because names may have any characters."""
    data = b"".join(b"%d:%b" % (len(part.encode()), part.encode()) for part in parts)
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
