"""Requests to a broker's management node, over a pair of links [HTTP over AMQP, as RabbitMQ 4 has it].

Both links have the same name and the property ``paired``. RabbitMQ takes them for a pair only if messages are sent
settled on both, and treats any other link to this node as one to an unknown address. A request is a message that looks
like HTTP; its answer comes on the other link, and names the request in its correlation-id. One request is in flight at
a time. The answer to a request that was given up may still come: it needs link credit too, and is dropped.
"""

from itertools import count
from typing import NamedTuple

from amqp10.client_core.errors import RequestRefused
from amqp10.client_core.message import Message
from amqp10.client_core.view import MessageView
from amqp10.errors import DecodeError
from amqp10.wire.sections import AMQP_VALUE, Properties
from amqp10.wire.types import plain

NODE = "/management"
PAIRED = {"paired": True}
"""The link property that makes two links of one name a pair."""
STATUS_REFUSED = 400
"""The lowest status of a request that was not served."""
DIGITS = 3


class Answer(NamedTuple):
    """An HTTP status, and a body of plain values."""

    status: int
    body: object


class Requests:
    """The requests on one pair of links."""

    def __init__(self, name: str) -> None:
        """``name`` begins the ids of the requests."""
        self.unanswered = 0
        """Answers that may still come, which is the link credit that the receiver needs. After a loss of the connection
        it may be too high, and then too much link credit is given."""
        self._name = name
        self._identities = count(1)
        self._identity = ""
        self._what = ""

    def begin(self, method: str, path: str, body: object = None) -> bytes:
        """The encoded request; ``path`` is percent-encoded, and may have a query. A former request is given up."""
        self._identity, self._what = f"{self._name}-{next(self._identities)}", f"{method} {path}"
        properties = Properties(message_id=self._identity, to=path, subject=method, reply_to="$me")
        return Message(body, properties=properties, section=AMQP_VALUE).encode()

    def sending(self) -> int:
        """Count the request, which is sent now, for the first time or again. Returns the link credit for answers."""
        self.unanswered += 1
        return self.unanswered

    def answer(self, encoded: bytes) -> Answer | None:
        """Read a message from the node: the answer to the request, or None for one to a request that was given up.

        Raises RequestRefused for an error status, and for an answer that is none.
        """
        self.unanswered = max(0, self.unanswered - 1)
        try:
            view = MessageView(encoded)
            properties, body = view.properties, plain(view.body)
        except DecodeError as error:
            raise RequestRefused(f"the broker's answer cannot be decoded: {error.description}") from None
        if properties.correlation_id != self._identity:
            return None
        subject = properties.subject
        if subject is None or not (subject.isascii() and subject.isdigit() and len(subject) == DIGITS):
            raise RequestRefused(f"the broker's answer has the status {subject!r}, which is none")
        status = int(subject)
        if status >= STATUS_REFUSED:
            raise RequestRefused(body if isinstance(body, str) else f"{self._what} was refused", status=status)
        return Answer(status, body)
