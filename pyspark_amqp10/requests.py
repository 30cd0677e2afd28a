"""Requests of the connector to a broker's management node, and what the broker tells about a queue.

One pair of links serves all requests of a connection.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from amqp10.client_core.requests import NODE, PAIRED, Requests
from pyspark_amqp10.errors import LinkRefused, RequestRefused, TimedOut
from pyspark_amqp10.links import ReceivingLink, SendingLink
from pyspark_amqp10.wire import BlockingConnection

QUEUES: Final = "/queues/"
"""The address of a queue begins with this; its percent-encoded name follows."""
SHOWN_QUEUES: Final = "/headgate/queues/"
"""The path under which Headgate shows queues with all their numbers."""
RABBITMQ_SINCE: Final = 4
"""The first version of RabbitMQ that accepts such requests; earlier ones end the session."""


class BlockingManagement:
    """The pair of links. Raises RequestRefused for a broker that has no such node."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._within_s = connection.settings.answer_time_out_s
        name = connection.new_link_name()
        self._requests = Requests(name)
        try:
            self._receiving = ReceivingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
            self._sending = SendingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
        except LinkRefused as error:
            raise RequestRefused(error.text, error.condition) from None

    def request(self, method: str, path: str, body: object = None) -> object:
        """Send a request; returns the answer's body, as plain values. Raises RequestRefused with the broker's text, and
        TimedOut."""
        request = self._requests.begin(method, path, body)
        link_credit = self._requests.sending()
        self._receiving.stream(link_credit, messages=link_credit)
        self._sending.send([request], within_s=self._within_s)
        while arrived := self._receiving.arrived(within_s=self._within_s):
            for entry in (entry for run in arrived for entry in run.entries):
                if (answer := self._requests.answer(entry)) is not None:
                    return answer.body
        raise TimedOut(f"{method} {path} was not answered within {self._within_s:g} s")


class QueueFacts:
    """What the broker of one connection tells about queues: Headgate all its numbers, RabbitMQ their type and depth."""

    def __init__(self, connection: BlockingConnection, *, ask: bool = True) -> None:
        """``ask`` False: behave as with a broker that answers no requests."""
        self._connection = connection
        self._management: BlockingManagement | None = None
        self._before_name = facts_before_name(connection.broker) if ask else None

    def of(self, address: str) -> dict[object, object] | None:
        """The broker's row for the queue behind an address; None when the broker has none. Raises ConnectionLost.

        A broker that refuses, because this user has no permission, or that does not answer in time, is not asked again.
        """
        path = None if self._before_name is None else queue_path(address, self._before_name)
        if path is None:
            return None
        try:
            if self._management is None:
                self._management = BlockingManagement(self._connection)
            shown = self._management.request("GET", path)
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
