"""What a SASL mechanism is to the protocols that carry it [RFC 4422 3]: replies to responses, nothing else.

A reply is a plain pair, so that this room and a protocol's need share no classes:
``("challenge", data)`` goes on, ``("success", identity in UTF-8)`` and ``("failure", b"")`` end the exchange.
"""

from typing import Literal, Protocol

Reply = tuple[Literal["challenge", "success", "failure"], bytes]

FAILURE: Reply = ("failure", b"")
"""Says nothing about why: who guesses must not learn whether the name exists."""


def success(identity: str) -> Reply:
    """The peer is who it says."""
    return "success", identity.encode()


class SaslExchange(Protocol):
    """One attempt of one peer."""

    def respond(self, response: bytes) -> Reply:
        """Answer the initial response (b"" when there is none) or the response to a challenge. Raises
        nothing.

        Not called again once it has answered success or failure.
        """


class SaslMechanism(Protocol):
    """A way to authenticate."""

    @property
    def name(self) -> str:
        """As registered with IANA."""

    def start(self) -> SaslExchange:
        """A fresh attempt."""
