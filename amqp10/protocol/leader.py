"""How a node of a cluster tells its clients which other node leads a queue, so that they can attach their links there.

The specification has a redirect, which refuses the link [2.8.18]. These properties refuse nothing: a client that does
not know them uses its link where it is, and the node forwards.
"""

from collections.abc import Mapping

from amqp10.protocol.failover_servers import FailoverServer
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import Open
from amqp10.wire.types import plain

LEADER_KEY = "headgate:leader"
"""A property of the answer to an attach: where clients connect to the node that leads the queue, if another one does. A
map with ``network-host``, ``port`` and ``scheme``, as in the failover-server-list."""
LEADER_LOST_KEY = "headgate:leader-lost"
"""In the information of the error of a detach, true: the link is over because another node leads the queue from now on,
or because the one that leads it cannot be reached, and it can be attached again."""
FOLLOWS_LEADERS = "headgate:follows-leaders"
"""A desired capability of the open: when another node leads a queue, the client attaches its links there by itself. So
they are detached then; those of other clients stay, and are forwarded."""
LEADER_LOST: Mapping[str, object] = {LEADER_LOST_KEY: True}


def leader_property(leader: FailoverServer | None) -> dict[str, object]:
    """The property for the answer to an attach; nothing if no other node leads, or none that the client can reach."""
    return {} if leader is None else {LEADER_KEY: leader.encoded()}


def leader_of(properties: Mapping[str, object] | None) -> FailoverServer | None:
    """The leader in the properties of an attach; None if they name none. Raises ValueError for one that is nonsense."""
    if properties is None or LEADER_KEY not in properties:
        return None
    return FailoverServer.decoded(plain(properties[LEADER_KEY]))


def follows_leaders(remote: Open | None) -> bool:
    """Whether the client attaches links again where their queue is led."""
    return remote is not None and FOLLOWS_LEADERS in remote.desired_capabilities


def leader_is_lost(error: Error | None) -> bool:
    """Whether a link has ended because its leader is another one, or is lost."""
    return error is not None and error.info is not None and error.info.get(LEADER_LOST_KEY) is True
