"""One attempt with SCRAM-SHA-256 [RFC 5802, RFC 7677], the client's side. scramp parses and checks the messages."""

from collections.abc import Callable

import scramp

from amqp10.errors import quote

SCRAM_ITERATIONS_DIGITS_MAX = 7
"""A server may ask for less than ten million iterations, some seconds of work; servers ask for 4096 to a million
[RFC 7677 4]."""


class ScramExchange:
    """The four messages client-first, server-first, client-final, server-final [RFC 5802 3]."""

    def __init__(self, identity: str, password: str, nonce: str) -> None:
        try:
            self._scram = scramp.ScramClient(["SCRAM-SHA-256"], identity, password, c_nonce=nonce)
        except scramp.ScramException as fault:
            raise ValueError(f"these credentials cannot be used with SCRAM: {fault}") from None
        self._challenges = 0

    def initial_response(self) -> bytes:
        """The client-first message."""
        return str(self._scram.get_client_first()).encode()

    def respond(self, challenge: bytes) -> bytes:
        """The client-final message, then b"". Raises ValueError for a message that scramp refuses or that is one too
        many."""
        self._challenges += 1
        if self._challenges == 1:
            _check_iterations(challenge)
            _checked(self._scram.set_server_first, challenge)
            return str(self._scram.get_client_final()).encode()
        if self._challenges == 2:
            # The server-final message comes as a challenge that is answered with b"", or inside the outcome.
            _checked(self._scram.set_server_final, challenge)
            return b""
        raise ValueError("the server goes on after its last word")

    def finish(self, additional_data: bytes) -> None:
        """The outcome says success. Raises ValueError when the server has not proven that it knows the password."""
        if self._challenges == 1:
            _checked(self._scram.set_server_final, additional_data)
        elif self._challenges == 0:
            raise ValueError("the server has proven nothing")


def _check_iterations(server_first: bytes) -> None:
    """Raise ValueError for a server that asks for hours of hashing. scramp checks the rest of the message."""
    for attribute in server_first.split(b","):
        if attribute.startswith(b"i=") and len(attribute) > len(b"i=") + SCRAM_ITERATIONS_DIGITS_MAX:
            raise ValueError(f"the server asks for too many iterations: {quote(attribute)}")


def _checked(take: Callable[[str], None], message: bytes) -> None:
    try:
        take(message.decode())
    except (scramp.ScramException, ValueError) as fault:
        raise ValueError(f"the server's SCRAM message is refused: {fault}") from None
