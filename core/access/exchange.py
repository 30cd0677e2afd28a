"""What a SASL mechanism is to the protocols that carry it [RFC 4422 3]: replies to responses, nothing else.

A reply is a plain pair, so that this room and a protocol's need share no classes: ``("challenge", data)`` goes on;
``("success", identity in UTF-8)``, ``("failure", b"")`` and ``("later", b"")`` end the exchange; ``("wait", b"")`` says
that the answer is being computed.
"""

from typing import Literal, Protocol

Reply = tuple[Literal["challenge", "success", "failure", "later", "wait"], bytes]

FAILURE: Reply = ("failure", b"")
"""Says nothing about why: who guesses must not learn whether the name exists."""

LATER: Reply = ("later", b"")
"""Nothing has been decided: there were too many failures, or too many wait. The peer may try again."""

WAIT: Reply = ("wait", b"")
"""Ask again, with b"", when the peer has been woken. What the peer sends meanwhile has to wait too."""


def success(identity: str) -> Reply:
    """The peer is who it says."""
    return "success", identity.encode()


class SaslExchange(Protocol):
    """One attempt of one peer."""

    def respond(self, response: bytes) -> Reply:
        """Answer the initial response (b"" when there is none) or the response to a challenge. Raises
        nothing.

        Not called again once the exchange has ended. After ``wait``, called with b"" until there is another answer.
        """


class SaslMechanism(Protocol):
    """A way to authenticate."""

    @property
    def name(self) -> str:
        """As registered with IANA."""

    def start(self) -> SaslExchange:
        """A fresh attempt."""
