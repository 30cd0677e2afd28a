"""Requests to a broker's management node, over a pair of links [HTTP over AMQP, as RabbitMQ 4 has it].

Both links have the same name, both have the property ``paired``, and both send settled: RabbitMQ recognises the pair by
these three, and treats any other link to this node as one to an unknown address. One pair serves all requests of a
connection; one request is under way at a time.
"""

from collections.abc import Mapping
from itertools import count
from typing import Final
from urllib.parse import unquote

from amqp10.errors import DecodeError
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.sections import (
    AMQP_VALUE,
    Properties,
    decode_properties,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import plain
from pyspark_amqp10.errors import LinkRefused, RequestRefused, TimedOut
from pyspark_amqp10.links import ReceivingLink, SendingLink
from pyspark_amqp10.wire import BlockingConnection

NODE: Final = "/management"
PAIRED: Final = {"paired": True}
"""The link property that makes two links of one name a pair."""
REFUSED_FROM: Final = 400
"""A status from here up says that the request failed."""
QUEUES: Final = "/queues/"
"""The address of a queue begins with this; its percent-encoded name follows."""
SHOWN_QUEUES: Final = "/headgate/queues/"
"""The path under which Headgate shows queues with all their numbers."""
RABBITMQ_SINCE: Final = 4
"""The first version of RabbitMQ that accepts such requests; earlier ones end the session."""


class Management:
    """The pair of links. Raises RequestRefused for a broker that has no such node."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._within_s = connection.settings.answer_time_out_s
        self._identities = count(1)
        name = connection.new_link_name()
        try:
            self._receiving = ReceivingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
            self._sending = SendingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
        except LinkRefused as error:
            raise RequestRefused(error.text, error.condition) from None

    def request(self, method: str, path: str, body: object = None) -> object:
        """Send a request; returns the answer's body, as plain values. Raises RequestRefused with the broker's text, and
        TimedOut."""
        identity = f"{self._connection.container_id}-{next(self._identities)}"
        properties = Properties(message_id=identity, to=path, subject=method, reply_to="$me")
        self._receiving.stream(1, messages=1)
        self._sending.send([encode_properties(properties) + encode_section(AMQP_VALUE, body)], within_s=self._within_s)
        arrived = self._receiving.arrived(within_s=self._within_s)
        if not arrived:
            raise TimedOut(f"{method} {path} was not answered within {self._within_s:g} s")
        status, answer = _answer(arrived[0].entries[0])
        if status >= REFUSED_FROM:
            raise RequestRefused(answer if isinstance(answer, str) else f"{method} {path} was refused with {status}")
        return answer


class QueueFacts:
    """What the broker of one connection tells about queues: Headgate all its numbers, RabbitMQ their type and depth."""

    def __init__(self, connection: BlockingConnection, *, ask: bool = True) -> None:
        """``ask`` False: behave as with a broker that answers no requests."""
        self._connection = connection
        self._management: Management | None = None
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
                self._management = Management(self._connection)
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


def _answer(entry: bytes) -> tuple[int, object]:
    try:
        bounds = scan(entry, ordered=False)
        subject = decode_properties(entry, *bounds.properties).subject if bounds.properties else None
        if subject is None or not (subject.isascii() and subject.isdigit()) or bounds.body is None:
            raise RequestRefused(f"the broker's answer has the status {subject!r}, which is none")
        _, value_at = read_descriptor(entry, *bounds.body, DEPTH_MAX)
        return int(subject), plain(decode_value(entry, value_at, bounds.body[1], DEPTH_MAX)[0])
    except DecodeError as error:
        raise RequestRefused(f"the broker's answer cannot be decoded: {error.description}") from None
