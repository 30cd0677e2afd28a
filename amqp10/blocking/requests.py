"""Requests of a blocking connection to the broker's management node, on one pair of links.

The rules of such requests are in :mod:`amqp10.client_core.requests`.
"""

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.client_core.errors import LinkRefused, RequestRefused, TimedOut
from amqp10.client_core.requests import NODE, PAIRED, Answer, Requests


class BlockingManagement:
    """The pair of links of one connection, attached with the first request."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._name = connection.new_link_name()
        self._requests = Requests(self._name)
        self._links: tuple[SendingLink, ReceivingLink] | None = None

    def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request and wait for its answer; ``path`` is percent-encoded, and may have a query.

        Raises RequestRefused for an error status and for a broker that has no such node, TimedOut when no answer comes.
        """
        within_s = self._connection.settings.answer_time_out_s
        sending, receiving = self._attached()
        request = self._requests.begin(method, path, body)
        link_credit = self._requests.sending()
        receiving.stream(link_credit, messages=link_credit)
        sending.send([request], within_s=within_s)
        while arrived := receiving.arrived(within_s=within_s):
            for entry in (entry for run in arrived for entry in run.entries):
                if (answer := self._requests.answer(entry)) is not None:
                    return answer
        raise TimedOut(f"{method} {path} was not answered within {within_s:g} s")

    def _attached(self) -> tuple[SendingLink, ReceivingLink]:
        if self._links is None:
            connection, name = self._connection, self._name
            try:
                receiving = ReceivingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
                sending = SendingLink.open(connection, NODE, name=name, settled=True, properties=PAIRED)
            except LinkRefused as error:
                raise RequestRefused(error.text, error.condition) from None
            self._links = sending, receiving
        return self._links
