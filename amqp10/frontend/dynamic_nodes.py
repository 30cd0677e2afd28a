"""The queues behind the dynamic nodes of one connection: each lives as long as the link that asked for it [3.5.3]."""

from collections.abc import Callable

from amqp10.frontend import termini
from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from core.interface import TopologyVerbs


class DynamicNodes:
    """The dynamic nodes of one connection; its ``owner`` owns their queues."""

    def __init__(
        self, connection: Connection, topology: TopologyVerbs, *, owner: object, unique: Callable[[], str]
    ) -> None:
        """``unique`` returns the part of a name that no peer can guess."""
        self._connection = connection
        self._topology = topology
        self._owner = owner
        self._unique = unique
        self._names: dict[SenderLink | ReceiverLink, str] = {}

    def make(self, link: SenderLink | ReceiverLink, link_name: str, address: object) -> str:
        """Declare a queue for this link; returns its name. Raises EngineError, LinkFault."""
        remote = self._connection.remote
        container_id = remote.container_id if remote is not None else ""
        name = termini.dynamic_name(container_id, link_name, self._unique(), address=address)
        self._topology.declare_dynamic_queue(name, self._owner)
        self._names[link] = name
        return name

    def delete(self, link: SenderLink | ReceiverLink) -> None:
        """Delete the queue of a link that is over, if it had one."""
        name = self._names.pop(link, None)
        if name is not None:
            self._topology.delete_queue(name, self._owner)
