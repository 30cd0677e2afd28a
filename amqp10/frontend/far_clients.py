"""Clients of other nodes: what a node says of a client in each attach that it sends for it, to the home of the queue.

It is believed from connections between nodes only. Links that several clients share have no such property.
"""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.wire.performatives import Attach, Open
from core.access.checked_engine import CheckedEngine
from core.flow_facts import ClientIdentity
from core.interface import Mailbox
from core.server.frontends import PeerInfo

NODE_KEY = "headgate:node"
"""A property of the open of another node of the cluster: its name. An open connection that has it was believed."""
CLIENT_KEY = "headgate:client"
"""A property of an attach, a map of strings: ``user``, ``connection``, ``container_id`` and ``peer``."""
TEXT_BYTES_MAX = 1024
"""The most bytes of each: longer names of containers are cut by the node that sends them."""


def subscribed(engine: CheckedEngine, mailbox: Mailbox, info: PeerInfo, remote: Open) -> frozenset[str]:
    """Subscribe the mailbox of a connection that is opened, and note who is at the other end. Returns the alarms."""
    mailbox.client = client_at(info, remote, engine.rights.user)
    return engine.subscribe(mailbox)


def client_at(info: PeerInfo, remote: Open | None, user: str) -> ClientIdentity:
    """The client of a connection, as other nodes are told of it."""
    return ClientIdentity(
        user=user,
        connection=info.identity,
        container_id="" if remote is None else remote.container_id,
        peer=f"{info.remote_host}:{info.remote_port}",
    )


def client_properties(client: ClientIdentity | None) -> dict[str, object]:
    """What an attach to another node says of a client; nothing of none."""
    if client is None:
        return {}
    shown = {key: _cut(str(value)) for key, value in client.shown().items() if key != "node"}
    return {CLIENT_KEY: shown}


def node_of(remote: Open | None) -> str | None:
    """The node at the other end of an open connection; None for a client."""
    named = None if remote is None or remote.properties is None else remote.properties.get(NODE_KEY)
    return named if isinstance(named, str) else None


def client_of(attach: Attach | None, node: str | None) -> ClientIdentity | None:
    """The client for which ``node`` has attached; None if it did not say, and for a link of a client. Raises LinkFault
    for a property of another form."""
    if attach is None or node is None or attach.properties is None or CLIENT_KEY not in attach.properties:
        return None
    given = attach.properties[CLIENT_KEY]
    if not isinstance(given, Mapping):
        raise LinkFault(ErrorCondition.INVALID_FIELD, f"{CLIENT_KEY} must be a map")
    texts = {str(key): value for key, value in given.items()}
    return ClientIdentity(
        user=_text(texts, "user"),
        connection=_text(texts, "connection"),
        container_id=_text(texts, "container_id"),
        peer=_text(texts, "peer"),
        node=node,
    )


def _text(texts: Mapping[str, object], key: str) -> str:
    value = texts.get(key, "")
    if not isinstance(value, str) or len(value.encode()) > TEXT_BYTES_MAX:
        raise LinkFault(
            ErrorCondition.INVALID_FIELD, f"{key} in {CLIENT_KEY} must be a string of {TEXT_BYTES_MAX} bytes at most"
        )
    return value


def _cut(text: str) -> str:
    return text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
