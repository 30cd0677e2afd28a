"""connection.update-secret: the token of the connection's login is replaced by a new one.

A connection that has logged in with a password is answered without effect, because its login does not end. A token that
is refused closes the connection, with RabbitMQ's code and text: the method has no other answer.
"""

from collections.abc import Callable

from core.access.exchange import WAIT
from core.access.rights import Rights, TokenAnswer
from core.amqp091.connection import Amqp091Connection
from core.amqp091.errors import Amqp091ConnectionFault, ReplyCode
from core.amqp091.methods import ConnectionUpdateSecret, ConnectionUpdateSecretOk


class SecretRenewal:
    """The new secret of one connection. While one is being checked, the connection takes no other input."""

    def __init__(self, connection: Amqp091Connection, wake: Callable[[], None]) -> None:
        self.waiting = False
        """Whether a secret has come that is not answered."""
        self._connection = connection
        self._wake = wake
        self._answer: TokenAnswer | None = None

    def begin(self, rights: Rights, secret: bytes) -> None:
        """A new secret has come; the answer follows in a turn of the connection."""
        self.waiting = True
        self._answer = rights.renewed(secret)
        self._wake()

    def go_on(self) -> Amqp091ConnectionFault | None:
        """Answer the secret if the answer is known. Returns the fault that ends the connection, if it is refused."""
        answer = self._answer
        if answer is not None and answer.reply is WAIT:
            return None
        self.waiting, self._answer = False, None
        if answer is None or answer.reply[0] == "success":
            self._connection.send(0, ConnectionUpdateSecretOk())
            return None
        text = f"New secret was refused: {answer.why}"
        return Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, text, *ConnectionUpdateSecret.ID)
