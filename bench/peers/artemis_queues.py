"""Declares, inspects and deletes queues of ActiveMQ Artemis: it has no `/management` link pair, but an address that
takes the operations of its management as messages. Artemis's documentation: "Management", "Management Via Core API".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from amqp10.load import wire
from amqp10.load.endpoint import queue_address
from amqp10.load.requests import RequestLinks, sections
from amqp10.load.wire import WireError

PRODUCT = "apache-activemq-artemis"
"""The product in Artemis's open frame."""
_ADDRESS = "activemq.management"


def lacks(*, protocol: str, queue_type: str, routed: bool) -> str:
    """What a load needs and Artemis does not have; empty when it has all."""
    if protocol != "1.0":
        return f"Artemis does not speak AMQP {protocol}"
    if queue_type != "classic":
        return f"Artemis has no {queue_type} queues"
    return "Artemis has no exchanges" if routed else ""


class ArtemisManagement:
    """What `amqp10.load.management.ManagementPair` is for other brokers, as far as scenarios need it.

    A queue has the address of load processes as its name, /queues/…, because Artemis knows no address with parts.
    """

    def __init__(self, url: str) -> None:
        self._links = RequestLinks(url, _ADDRESS, paired=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._links.close()

    def declare_queue(self, queue: str, *, queue_type: str = "classic") -> None:
        """Declare a durable queue. Raises WireError for another type than classic: Artemis has one type."""
        if queue_type != "classic":
            raise WireError(f"Artemis has no {queue_type} queues; choose a scenario with a classic queue")
        name = queue_address(queue)
        wanted = {"name": name, "address": name, "routing-type": "ANYCAST", "durable": True}
        self._operation("createQueue", json.dumps(wanted), True)

    def delete_queue(self, queue: str) -> None:
        """Delete the queue with its messages and its address."""
        self._operation("destroyQueue", queue_address(queue), True, True)

    def declare_exchange(self, exchange: str, exchange_type: str) -> None:
        """Raises WireError: Artemis has no exchanges."""
        raise WireError(
            f"Artemis has no {exchange_type} exchanges; choose a scenario with keys = 1, without through_exchange, and "
            "with another pattern than fan-out"
        )

    def bind(self, exchange: str, queue: str, keys: Sequence[str]) -> None:
        """Raises WireError: Artemis has no exchanges."""
        raise WireError(f"Artemis has no exchange {exchange} to which queue {queue} could be bound")

    def delete_exchange(self, exchange: str) -> None:
        """Do nothing: there is none."""

    def message_count(self, queue: str) -> int:
        """How many messages are in the queue."""
        resource = f"queue.{queue_address(queue)}"
        match json.loads(self._ask(resource, {"_AMQ_Attribute": "messageCount"}, "[]")):
            case [int(count)]:
                return count
        raise WireError(f"no message count in what Artemis says about {queue}")

    def _operation(self, name: str, *parameters: str | bool) -> None:
        self._ask("broker", {"_AMQ_OperationName": name}, json.dumps(parameters))

    def _ask(self, resource: str, wanted: dict[str, str], parameters: str) -> str:
        texts = {"_AMQ_ResourceName": resource, **wanted}
        encoded = [wire.string(text) for pair in texts.items() for text in pair]
        fields = [wire.NULL] * 4 + [wire.string(self._links.reply_to)]
        answer = sections(
            self._links.ask(
                wire.composite(wire.PROPERTIES, *fields)
                + wire.described(wire.APPLICATION_PROPERTIES, wire.map_of(*encoded))
                + wire.described(wire.AMQP_VALUE, wire.string(parameters))
            )
        )
        said = str(answer.get(wire.AMQP_VALUE))
        match answer.get(wire.APPLICATION_PROPERTIES):
            case {"_AMQ_OperationSucceeded": True}:
                return said
        raise WireError(f"Artemis refused {wanted} of {resource}: {said}")
