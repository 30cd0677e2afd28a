"""What a broker tells about a queue, by requests to its management node."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from pyspark_amqp10.errors import RequestRefused, TimedOut

QUEUES: Final = "/queues/"
"""The address of a queue begins with this; its percent-encoded name follows."""
SHOWN_QUEUES: Final = "/headgate/queues/"
"""The path under which Headgate shows queues with all their numbers."""
RABBITMQ_SINCE: Final = 4
"""The first version of RabbitMQ that accepts such requests; earlier ones end the session."""


class QueueFacts:
    """What the broker of one connection tells about queues: Headgate all its numbers, RabbitMQ their type and depth."""

    def __init__(self, connection: BlockingConnection, *, ask: bool = True) -> None:
        """``ask`` False: behave as with a broker that answers no requests."""
        self._management = BlockingManagement(connection)
        self._before_name = facts_before_name(connection.broker) if ask else None

    def of(self, address: str) -> dict[object, object] | None:
        """The broker's row for the queue behind an address; None when the broker has none. Raises ConnectionLost.

        A broker that refuses, because this user has no permission, or that does not answer in time, is not asked again.
        """
        path = None if self._before_name is None else queue_path(address, self._before_name)
        if path is None:
            return None
        try:
            shown = self._management.request("GET", path).body
        except (RequestRefused, TimedOut):
            self._before_name = None
            return None
        return shown if isinstance(shown, dict) else None


def facts_before_name(broker: Mapping[str, object]) -> str | None:
    """The path in front of a queue's name, by the properties of the broker's open; None when it has no such
    requests."""
    if "Headgate" in str(broker.get("information", "")):
        return SHOWN_QUEUES
    major = str(broker.get("version", "")).partition(".")[0]
    if broker.get("product") == "RabbitMQ" and major.isdecimal() and int(major) >= RABBITMQ_SINCE:
        return QUEUES
    return None


def queue_path(address: str, before_name: str = SHOWN_QUEUES) -> str | None:
    """The path under which a broker shows the queue behind an address; None for an address that is not a queue's."""
    if not address.startswith(QUEUES) or not unquote(address[len(QUEUES) :]):
        return None
    return before_name + address[len(QUEUES) :]
